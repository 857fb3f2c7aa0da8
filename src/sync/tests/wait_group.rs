//! Tests of the wait group's internals: its word and its queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::sync::WaitGroup;
use crate::test_util::until;

fn state(group: &WaitGroup) -> u64 {
    group.raw().state.load(Ordering::Relaxed)
}

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let group = WaitGroup::new();
    group.add(1);
    let before = state(&group);
    assert!(!group.wait_for(Duration::from_micros(200)));
    assert_eq!(state(&group), before);
    assert_eq!(group.raw().queue.lock().len(), 0);
    group.done();
    assert_eq!(state(&group), 0);
}

#[test]
fn an_add_to_zero_while_waiters_are_being_woken_is_refused() {
    let group = WaitGroup::new();
    group.add(1);
    thread::scope(|s| {
        let waiter = s.spawn(|| group.wait());
        until(|| group.raw().queue.lock().len() == 1);
        // The word that the last `done` leaves before it has woken any waiter.
        let queued = state(&group) & 1;
        assert_eq!(queued, 1);
        group.raw().state.store(queued, Ordering::Relaxed);
        let refused = catch_unwind(AssertUnwindSafe(|| group.add(1)));
        let message = *refused.expect_err("refused").downcast::<&str>().unwrap();
        assert!(message.contains("misuse"), "{message}");
        assert!(!waiter.is_finished());
        group.raw().state.store(queued + 2, Ordering::Relaxed);
        group.done();
    });
    assert_eq!(state(&group), 0);
}

#[test]
fn what_was_entered_is_done_when_it_is_dropped_even_in_a_panic() {
    let group = WaitGroup::new();
    let (a, b) = (group.enter(), group.enter());
    drop(a);
    assert!(!group.wait_for(Duration::ZERO));
    let panicked = thread::spawn(move || {
        let _b = b;
        panic!("while at work");
    });
    group.wait();
    assert!(panicked.join().is_err());
}
