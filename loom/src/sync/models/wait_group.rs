//! Models of the wait group: a thread that returned from `wait` sees everything that was done, and no thread
//! is left waiting.

use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::base::atomic::Ordering;
use crate::sched::word::status::WaitReason;
use crate::sync::new_wait_group;
use crate::sync::raw::wait_group::RawWaitGroup;

struct Work {
    raw: RawWaitGroup,
    results: [UnsafeCell<usize>; 2],
}

// SAFETY: each result is written by one thread before `done` and read after `wait`; loom checks it.
unsafe impl Sync for Work {}
// SAFETY: plain data.
unsafe impl Send for Work {}

impl Work {
    fn new() -> Arc<Work> {
        Arc::new(Work { raw: new_wait_group(), results: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    fn wait(&self, deadline: Option<Instant>) -> bool {
        let done = self.raw.wait(WaitReason::WaitGroup, deadline);
        if done {
            for result in &self.results {
                // SAFETY: the count was zero, so both are written.
                assert_eq!(result.with(|result| unsafe { *result }), 1);
            }
        }
        done
    }

    fn do_both(work: &Arc<Work>) -> Vec<thread::JoinHandle<()>> {
        work.raw.add(2);
        (0..2)
            .map(|n| {
                let work = work.clone();
                thread::spawn(move || {
                    // SAFETY: only this thread writes it.
                    work.results[n].with_mut(|result| unsafe { *result = 1 });
                    work.raw.done();
                })
            })
            .collect()
    }

    fn assert_clean(&self) {
        assert_eq!(self.raw.state.load(Ordering::Relaxed), 0);
        assert!(self.raw.queue.lock().is_empty());
    }
}

pub fn a_waiter_sees_everything_that_was_done() {
    check(3, || {
        let work = Work::new();
        let workers = Work::do_both(&work);
        assert!(work.wait(None));
        workers.into_iter().for_each(|t| t.join().unwrap());
        work.assert_clean();
    });
}

pub fn two_waiters_and_one_that_gives_up() {
    check(2, || {
        let work = Work::new();
        work.raw.add(1);
        let waiters = [None, Some(Instant::now())].map(|deadline| {
            let work = work.clone();
            thread::spawn(move || work.raw.wait(WaitReason::WaitGroup, deadline))
        });
        work.raw.done();
        let [patient, brief] = waiters.map(|t| t.join().unwrap());
        assert!(patient);
        let _ = brief;
        work.assert_clean();
    });
}

pub fn a_group_is_used_again_after_a_wait() {
    check(3, || {
        let work = Work::new();
        for _ in 0..2 {
            work.raw.add(1);
            let worker = thread::spawn({
                let work = work.clone();
                move || work.raw.done()
            });
            assert!(work.raw.wait(WaitReason::WaitGroup, None));
            worker.join().unwrap();
        }
        work.assert_clean();
    });
}
