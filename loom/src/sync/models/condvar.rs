//! Models of the condition variable: a notification after a change reaches a thread that waits for it, also
//! when waiters are moved to the mutex's queue, and when some of them give up.

use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::base::atomic::Ordering;
use crate::sync::raw::condvar::RawCondvar;
use crate::sync::raw::mutex::RawMutex;
use crate::sync::raw::starvation;
use crate::sync::{new_condvar, new_mutex};

struct Tokens {
    mutex: RawMutex,
    cond: RawCondvar,
    count: UnsafeCell<usize>,
}

// SAFETY: `count` is used only under the mutex, which is what the models check.
unsafe impl Sync for Tokens {}
// SAFETY: plain data.
unsafe impl Send for Tokens {}

impl Tokens {
    fn new() -> Arc<Tokens> {
        Arc::new(Tokens { mutex: new_mutex(), cond: new_condvar(), count: UnsafeCell::new(0) })
    }

    /// The mutex is held.
    fn count(&self) -> usize {
        // SAFETY: the mutex is held.
        self.count.with(|count| unsafe { *count })
    }

    /// The mutex is held.
    fn set(&self, value: usize) {
        // SAFETY: the mutex is held.
        self.count.with_mut(|count| unsafe { *count = value });
    }

    fn take(&self) {
        self.mutex.acquire();
        while self.count() == 0 {
            assert!(self.cond.wait(&self.mutex, None));
        }
        self.set(self.count() - 1);
        self.mutex.release();
    }

    /// Waits once, briefly. True: it got a token.
    fn take_briefly(&self) -> bool {
        self.mutex.acquire();
        if self.count() == 0 {
            self.cond.wait(&self.mutex, Some(Instant::now()));
        }
        let taken = self.count() > 0;
        if taken {
            self.set(self.count() - 1);
        }
        self.mutex.release();
        taken
    }

    fn put(&self, n: usize, under_the_mutex: bool) {
        self.mutex.acquire();
        self.set(self.count() + n);
        if !under_the_mutex {
            self.mutex.release();
        }
        if n == 1 {
            self.cond.notify_one();
        } else {
            self.cond.notify_all();
        }
        if under_the_mutex {
            self.mutex.release();
        }
    }

    fn assert_clean(&self, left: usize) {
        assert!(!self.mutex.is_held());
        assert_eq!(self.cond.waiting.load(Ordering::Relaxed), 0);
        assert!(self.cond.queue.lock().is_empty());
        assert!(self.mutex.queue.lock().is_empty());
        assert_eq!(self.count(), left);
    }
}

pub fn a_notification_finds_the_waiter() {
    for under_the_mutex in [false, true] {
        check(4, move || {
            let tokens = Tokens::new();
            let taker = thread::spawn({
                let tokens = tokens.clone();
                move || tokens.take()
            });
            tokens.put(1, under_the_mutex);
            taker.join().unwrap();
            tokens.assert_clean(0);
        });
    }
}

pub fn a_broadcast_finds_all() {
    for (under_the_mutex, exhausted) in [(false, false), (true, false), (true, true)] {
        check(2, move || {
            starvation::set_starving(exhausted);
            let tokens = Tokens::new();
            let takers = [(); 2].map(|()| {
                let tokens = tokens.clone();
                thread::spawn(move || tokens.take())
            });
            tokens.put(2, under_the_mutex);
            for taker in takers {
                taker.join().unwrap();
            }
            tokens.assert_clean(0);
        });
    }
}

pub fn one_that_gives_up_takes_no_notification_with_it() {
    for under_the_mutex in [false, true] {
        check(2, move || {
            let tokens = Tokens::new();
            let brief = thread::spawn({
                let tokens = tokens.clone();
                move || tokens.take_briefly()
            });
            let patient = thread::spawn({
                let tokens = tokens.clone();
                move || tokens.take()
            });
            tokens.put(1, under_the_mutex);
            // If the brief one got it, the patient one needs another.
            if brief.join().unwrap() {
                tokens.put(1, under_the_mutex);
            }
            patient.join().unwrap();
            tokens.assert_clean(0);
        });
    }
}
