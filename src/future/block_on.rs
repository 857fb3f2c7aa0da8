//! Polling a future where one is.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll};

use super::poller;
use crate::sched::futureword::FutureWord;
use crate::sched::reason::WaitReason;
use crate::sched::waiter::{Waiter, park};

/// Runs a future to its end, right here: the goroutine polls it, and parks while it has nothing to do. A thread outside of
/// gort blocks instead. It allocates nothing.
///
/// May be called anywhere, also inside of a future that another `block_on` polls, which then waits.
///
/// ```
/// use gort::future::block_on;
/// let (sender, receiver) = gort::chan::unbounded();
/// gort::spawn(move || sender.send("from a goroutine"));
/// assert_eq!(block_on(receiver.recv_async()), Ok("from a goroutine"));
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    let waiter = Waiter::current();
    let waker = poller::waker(waiter);
    let mut context = Context::from_waker(&waker);
    let mut calls = Calls { word: waiter.future(), taken: false };
    loop {
        calls.taken |= calls.word.begin_poll();
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if calls.word.begin_wait() {
            park(WaitReason::Future, std::ptr::from_ref(&*future) as *const () as usize);
        }
    }
}

/// Sees to it, also in a panic, that calls of wakers that were taken here are not lost to a future around this one.
struct Calls {
    word: &'static FutureWord,
    taken: bool,
}

impl Drop for Calls {
    fn drop(&mut self) {
        if self.taken {
            self.word.pass_on();
        }
    }
}
