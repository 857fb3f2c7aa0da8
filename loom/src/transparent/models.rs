//! Models of the futex table: whoever waits for a change of a futex word is woken after it, also when others
//! give up or are moved to another word, and when a part of them waits in the kernel.

use std::time::Instant;

use loom::sync::Arc;
use loom::thread;

use super::table::{Entry, Table, WOKEN, new_bucket};
use crate::base::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sched::park::wait::{TIMED_OUT, Wait};
use crate::sched::park::wait_queue::Node;
use crate::sched::word::status::WaitReason;

const ALL: u32 = u32::MAX;

/// Two futex words, gort's table, and the kernel's: it works the same way, for those that wait elsewhere.
struct Futexes {
    words: [AtomicU32; 2],
    ours: Table<2>,
    kernels: Table<2>,
    woken: AtomicUsize,
}

impl Futexes {
    fn new() -> Arc<Futexes> {
        let table = || Table { buckets: std::array::from_fn(|_| new_bucket!()) };
        Arc::new(Futexes {
            words: [AtomicU32::new(0), AtomicU32::new(0)],
            ours: table(),
            kernels: table(),
            woken: AtomicUsize::new(0),
        })
    }

    /// Made up, because the bucket must be the same in each execution: another for each word.
    fn address(&self, word: usize) -> usize {
        [4, 8][word]
    }

    /// Waits once while the word holds 0. Returns the claim; 0 if it held something else.
    fn wait(&self, table: &Table<2>, word: usize, deadline: Option<Instant>) -> usize {
        let wait = Wait::new();
        let node = Node::new(wait.waiter(), &wait, Entry::new(self.address(word), ALL));
        // SAFETY: `leave` is below.
        if !unsafe { table.enter(&node, &self.words[word], 0) } {
            return 0;
        }
        let claim = wait.park_until(WaitReason::Futex, 0, deadline);
        if claim == WOKEN {
            table.leave_woken(&node);
            self.woken.fetch_add(1, Ordering::Relaxed);
        } else {
            table.leave(&node);
        }
        claim
    }

    /// Waits until the word is not 0, as std's locks do.
    fn wait_for(&self, table: &Table<2>, word: usize) {
        while self.words[word].load(Ordering::Acquire) == 0 {
            self.wait(table, word, None);
        }
    }

    fn set(&self, word: usize) {
        self.words[word].store(1, Ordering::Release);
    }

    /// As `wait_wake.rs` and `call.rs` do it: ours first, and the kernel wakes the rest.
    fn wake(&self, word: usize, most: usize) -> usize {
        let mut woken = 0;
        for table in [&self.ours, &self.kernels] {
            if woken < most && table.may_have_waiters(self.address(word)) {
                let claimed = table.claim(self.address(word), most - woken, ALL);
                woken += claimed.len();
                claimed.ready_all();
            }
        }
        woken
    }

    /// All have gone: so has the table's memory of them.
    fn assert_empty(&self) {
        for table in [&self.ours, &self.kernels] {
            for bucket in &table.buckets {
                assert_eq!(bucket.count.load(Ordering::Relaxed), 0);
                assert!(bucket.queue.lock_inside().is_empty());
            }
        }
    }
}

fn with(futexes: &Arc<Futexes>, f: impl FnOnce(&Futexes) + 'static) -> thread::JoinHandle<()> {
    let futexes = futexes.clone();
    thread::spawn(move || f(&futexes))
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

pub fn a_wake_up_after_the_change_finds_the_waiter() {
    loom::model(|| {
        let futexes = Futexes::new();
        let waker = with(&futexes, |futexes| {
            futexes.set(0);
            futexes.wake(0, 1);
        });
        futexes.wait_for(&futexes.ours, 0);
        waker.join().unwrap();
        futexes.assert_empty();
    });
}

/// Must fail: the waker reads the count without the fence behind its change of the word.
pub fn a_waker_that_does_not_fence_loses_the_waiter() {
    loom::model(|| {
        let futexes = Futexes::new();
        let waker = with(&futexes, |futexes| {
            futexes.set(0);
            let address = futexes.address(0);
            if futexes.ours.buckets.iter().any(|bucket| bucket.count.load(Ordering::Relaxed) != 0) {
                futexes.ours.claim(address, 1, ALL).ready_all();
            }
        });
        futexes.wait_for(&futexes.ours, 0);
        waker.join().unwrap();
    });
}

pub fn one_of_two_that_gives_up_takes_no_wake_up_with_it() {
    check(|| {
        let futexes = Futexes::new();
        let patient = with(&futexes, |futexes| futexes.wait_for(&futexes.ours, 0));
        let hasty = with(&futexes, |futexes| {
            let claim = futexes.wait(&futexes.ours, 0, Some(Instant::now()));
            if claim == WOKEN {
                // The wake-up was for one: it is passed on, as a lock does that is released again.
                futexes.wake(0, 1);
            }
            assert!([0, TIMED_OUT, WOKEN].contains(&claim));
        });
        futexes.set(0);
        futexes.wake(0, 1);
        patient.join().unwrap();
        hasty.join().unwrap();
        futexes.assert_empty();
    });
}

pub fn one_in_the_table_and_one_in_the_kernel_are_both_woken() {
    check(|| {
        let futexes = Futexes::new();
        let goroutine = with(&futexes, |futexes| futexes.wait_for(&futexes.ours, 0));
        let thread = with(&futexes, |futexes| futexes.wait_for(&futexes.kernels, 0));
        futexes.set(0);
        let woken = futexes.wake(0, 2);
        goroutine.join().unwrap();
        thread.join().unwrap();
        assert_eq!(woken, futexes.woken.load(Ordering::Relaxed));
        futexes.assert_empty();
    });
}

pub fn one_that_is_moved_is_woken_at_the_other_word_or_gives_up() {
    check(|| {
        let futexes = Futexes::new();
        let waits = with(&futexes, |futexes| {
            let claim = futexes.wait(&futexes.ours, 0, Some(Instant::now()));
            assert!([0, TIMED_OUT, WOKEN].contains(&claim));
        });
        let moves = with(&futexes, |futexes| {
            let from = (futexes.address(0), &futexes.words[0]);
            let done = futexes.ours.requeue(from, futexes.address(1), (0, 1), Some(0));
            let (claimed, done) = done.expect("the word does not change");
            assert!(done.woken == 0 && done.moved <= 1);
            claimed.ready_all();
        });
        futexes.set(1);
        futexes.wake(1, 1);
        waits.join().unwrap();
        moves.join().unwrap();
        // It may have been moved after the wake-up at the other word, and given up there.
        futexes.assert_empty();
    });
}

pub fn two_requeues_in_opposite_directions_do_not_block_each_other() {
    check(|| {
        let futexes = Futexes::new();
        let there = with(&futexes, |futexes| {
            let from = (futexes.address(0), &futexes.words[0]);
            let done = futexes.ours.requeue(from, futexes.address(1), (0, 1), None);
            done.expect("nothing is compared").0.ready_all();
        });
        let from = (futexes.address(1), &futexes.words[1]);
        let done = futexes.ours.requeue(from, futexes.address(0), (0, 1), None);
        done.expect("nothing is compared").0.ready_all();
        there.join().unwrap();
        futexes.assert_empty();
    });
}
