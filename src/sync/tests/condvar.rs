//! Tests of the condition variable's internals: where the waiters are queued after a notification.

use std::thread;
use std::time::Duration;

use crate::sync::{Condvar, Mutex};
use crate::test_util::until;

/// The number of waiters in the queue of the mutex.
fn queued_at<T>(mutex: &Mutex<T>) -> usize {
    // SAFETY: we neither lock nor unlock the mutex through this reference.
    unsafe { mutex.raw() }.queue.lock().len()
}

#[test]
fn a_notification_under_the_mutex_wakes_nobody_before_the_unlock() {
    let (mutex, cond) = (Mutex::new(0), Condvar::new());
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let mut turns = mutex.lock();
                cond.wait(&mut turns);
                *turns += 1;
            });
        }
        until(|| cond.queued() == 3);
        let guard = mutex.lock();
        assert!(cond.notify_one());
        assert_eq!((cond.queued(), queued_at(&mutex)), (2, 1), "moved to the queue of the mutex");
        assert_eq!(cond.notify_all(), 2);
        assert_eq!((cond.queued(), queued_at(&mutex)), (0, 3));
        drop(guard);
    });
    assert_eq!(mutex.into_inner(), 3);
}

#[test]
fn a_notification_after_the_unlock_wakes_at_once() {
    let (mutex, cond) = (Mutex::new(()), Condvar::new());
    thread::scope(|s| {
        s.spawn(|| cond.wait(&mut mutex.lock()));
        until(|| cond.queued() == 1);
        assert!(cond.notify_one());
        assert_eq!(queued_at(&mutex), 0);
    });
}

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let (mutex, cond) = (Mutex::new(()), Condvar::new());
    let mut guard = mutex.lock();
    assert!(cond.wait_for(&mut guard, Duration::from_micros(200)).timed_out());
    assert_eq!(cond.queued(), 0);
    assert_eq!(cond.notify_all(), 0);
}
