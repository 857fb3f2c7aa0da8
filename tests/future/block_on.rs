//! `block_on`, wakers, and join handles as futures.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use gort::chan::{RecvError, bounded};
use gort::future::{block_on, spawn};

use crate::common::{Watchdog, amount};
use crate::{both, foreign_block_on, poll_once};

/// Pending at its first poll, which wakes it at once; ready at the second.
fn yield_once() -> impl Future<Output = ()> {
    let mut polled = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn block_on_works_everywhere_and_nested() {
    let _watchdog = Watchdog::start();
    let nested = || {
        block_on(async {
            yield_once().await;
            block_on(async {
                yield_once().await;
                1 + block_on(async { 1 })
            })
        })
    };
    assert_eq!(nested(), 2);
    assert_eq!(gort::run(nested), 2);
    assert_eq!(std::thread::spawn(nested).join().unwrap(), 2);
    // SAFETY: no reference to a thread-local is held.
    let shared = unsafe { gort::Builder::new().spawn_shared_tls(nested) }.unwrap();
    assert_eq!(shared.join().unwrap(), 2);
}

#[test]
fn a_nested_wait_does_not_swallow_the_wake_up_of_the_outer_future() {
    let _watchdog = Watchdog::start();
    for _ in 0..amount(200, 20_000) {
        gort::run(|| {
            let (s, r) = bounded(1);
            let (inner_s, inner_r) = bounded(1);
            gort::spawn(move || {
                s.send(1).unwrap();
                inner_s.send(2).unwrap();
            });
            let outer = both(r.recv_async(), async { block_on(inner_r.recv_async()) });
            assert_eq!(block_on(outer), (Ok(1), Ok(2)));
        });
    }
}

#[test]
fn wakers_may_be_called_by_anybody_at_any_time() {
    let _watchdog = Watchdog::start();
    let rounds = amount(2_000, 100_000);
    let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (seen, stop) = (waker.clone(), Arc::new(AtomicUsize::new(0)));
    let stopped = stop.clone();
    // The waker is also called long after the future, and its goroutine, have ended.
    let caller = std::thread::spawn(move || {
        while stopped.load(Ordering::Relaxed) == 0 {
            if let Some(waker) = seen.lock().unwrap().clone() {
                waker.wake();
            }
        }
    });
    for _ in 0..rounds / 20 {
        let waker = waker.clone();
        gort::spawn(move || {
            for _ in 0..20 {
                let mut polls = 0;
                block_on(poll_fn(|context| {
                    *waker.lock().unwrap() = Some(context.waker().clone());
                    polls += 1;
                    if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
                }));
            }
        })
        .join()
        .unwrap();
    }
    stop.store(1, Ordering::Relaxed);
    caller.join().unwrap();
}

#[test]
fn a_panic_in_a_future_reaches_join() {
    let handle = spawn(async {
        if true {
            panic!("in a future")
        }
    });
    assert_eq!(*handle.join().unwrap_err().downcast::<&str>().unwrap(), "in a future");
    let handle = spawn(async {
        gort::spawn(|| {
            if true {
                panic!("deeper")
            }
        })
        .await
    });
    assert_eq!(*handle.join().unwrap().unwrap_err().downcast::<&str>().unwrap(), "deeper");
}

#[test]
fn handles_are_futures() {
    let _watchdog = Watchdog::start();
    let add = || async {
        let mut sum = 0;
        for n in 0..100 {
            sum += gort::spawn(move || n).await.unwrap();
        }
        let (one, two) = both(gort::spawn(|| 1), spawn(async { gort::spawn(|| 2).await.unwrap() })).await;
        sum + one.unwrap() + two.unwrap()
    };
    assert_eq!(block_on(add()), 4953);
    assert_eq!(gort::run(|| block_on(add())), 4953);
    assert_eq!(foreign_block_on(add()), 4953);
    // Handles that were polled, and then joined or dropped instead.
    let (s, r) = bounded::<()>(0);
    let other = r.clone();
    let mut handle = gort::spawn(move || r.recv());
    let mut dropped = gort::spawn(move || other.recv());
    for _ in 0..3 {
        assert!(poll_once(Pin::new(&mut handle)).is_pending());
        assert!(poll_once(Pin::new(&mut dropped)).is_pending());
    }
    drop(dropped);
    drop(s);
    assert_eq!(handle.join().unwrap(), Err(RecvError));
    // To join a handle that has given its result is the caller's error, and harms nothing else.
    let mut handle = gort::spawn(|| 5);
    assert_eq!(block_on(&mut handle).unwrap(), 5);
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.join()));
    assert!(again.unwrap_err().downcast::<&str>().unwrap().contains("joined again"));
}
