//! Runs a future on the calling goroutine or thread, which parks while the future is pending.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll};

use crate::goroutine::waker;
use crate::sched::park::park_ready::park;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::future_word::FutureWord;
use crate::sched::word::status::WaitReason;

/// Runs a future to its end on the calling goroutine, which polls the future and parks while it is pending. A
/// thread outside of gort blocks instead. `block_on` does not allocate.
///
/// It may be called anywhere, even inside a future that another `block_on` polls: the outer future then waits
/// for the inner one.
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
    let waker = waker::waker(waiter);
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

/// Passes wake-ups on to an outer future. If `block_on` runs inside the poll of another future, both share
/// the goroutine's word, and a wake-up that the inner loop consumed may have been meant for the outer future.
/// The drop, also during a panic, makes the outer future be polled again.
struct Calls {
    word: &'static FutureWord,
    /// This loop has consumed a wake-up.
    taken: bool,
}

impl Drop for Calls {
    fn drop(&mut self) {
        if self.taken {
            self.word.pass_on();
        }
    }
}
