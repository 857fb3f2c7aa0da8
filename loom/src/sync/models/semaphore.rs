//! Models of the semaphore: it never gives out more permits than it has, the next holder of a permit sees
//! what the last one did, no wake-up is lost, and all permits are back when all threads are done.

use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::sync::new_semaphore;
use crate::sync::raw::semaphore::{ONE, Outcome, RawSemaphore};

struct Guarded {
    raw: RawSemaphore,
    /// Written by the thread that has all permits, read by threads that have one.
    value: UnsafeCell<usize>,
}

// SAFETY: `value` is used only as the permits allow, which is what the models check.
unsafe impl Sync for Guarded {}
// SAFETY: plain data.
unsafe impl Send for Guarded {}

type Action = fn(&Guarded);

fn take_all_and_write(guarded: &Guarded) {
    assert_eq!(guarded.raw.acquire(2, None), Outcome::Acquired);
    // SAFETY: all permits are ours.
    guarded.value.with_mut(|value| unsafe { *value += 1 });
    guarded.raw.release(2);
}

fn take_one_and_read(guarded: &Guarded) {
    assert_eq!(guarded.raw.acquire(1, None), Outcome::Acquired);
    // SAFETY: one permit is ours, so no other thread has both.
    guarded.value.with(|value| unsafe { *value });
    guarded.raw.release(1);
}

fn take_all_briefly(guarded: &Guarded) {
    if guarded.raw.acquire(2, Some(Instant::now())) == Outcome::Acquired {
        // SAFETY: all permits are ours.
        guarded.value.with_mut(|value| unsafe { *value += 1 });
        guarded.raw.release(2);
    }
}

fn take_one_briefly(guarded: &Guarded) {
    if guarded.raw.acquire(1, Some(Instant::now())) == Outcome::Acquired {
        guarded.raw.release(1);
    }
}

fn forget_one_and_add_one(guarded: &Guarded) {
    assert_eq!(guarded.raw.acquire(1, None), Outcome::Acquired);
    guarded.raw.forget(1);
    assert!(guarded.raw.add(1));
}

fn run(actions: &'static [Action]) {
    let guarded = Arc::new(Guarded { raw: new_semaphore(2), value: UnsafeCell::new(0) });
    let others: Vec<_> = actions[1..]
        .iter()
        .map(|action| {
            let guarded = guarded.clone();
            thread::spawn(move || action(&guarded))
        })
        .collect();
    actions[0](&guarded);
    others.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(guarded.raw.state.load(crate::base::atomic::Ordering::Relaxed), 2 * ONE);
    let waiting = guarded.raw.waiting.lock();
    assert!(waiting.queue.is_empty());
    assert_eq!(waiting.total, 2);
}

pub fn large_and_small_requests() {
    check(3, || run(&[take_all_and_write, take_one_and_read, take_one_and_read]));
    check(3, || run(&[take_one_and_read, take_all_and_write, take_all_and_write]));
}

pub fn a_large_request_that_gives_up_lets_small_ones_go() {
    check(3, || run(&[take_one_and_read, take_all_briefly, take_one_and_read]));
    check(3, || run(&[take_all_and_write, take_all_briefly, take_one_and_read]));
}

pub fn small_requests_that_give_up() {
    check(3, || run(&[take_all_and_write, take_one_briefly, take_one_briefly]));
    check(4, || run(&[take_all_and_write, take_one_briefly]));
}

pub fn permits_that_go_and_come() {
    check(3, || run(&[take_all_and_write, forget_one_and_add_one]));
    check(3, || run(&[take_one_and_read, forget_one_and_add_one, take_all_and_write]));
}
