//! [`Once`]: runs a function once. The first caller runs it, and the others wait until it has returned.
//!
//! The word is INCOMPLETE, RUNNING or COMPLETE, plus QUEUED, which says that the queue is not empty. A waiter
//! queues under the queue's lock, by a step that found the word not COMPLETE and left QUEUED set. The caller
//! that ends a run replaces the whole word in one step. If that step finds QUEUED, the caller wakes the whole
//! queue, and all waiters look at the word again. So no waiter sleeps through a change. A panic makes the
//! word INCOMPLETE again, and one of the woken waiters tries next.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::holder::{Holder, StackPage};
use super::raw::waitq::{Node, Queue, RETRY};
use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::lock::Lock;
use crate::sched::word::status::WaitReason;

const INCOMPLETE: u32 = 0;
const RUNNING: u32 = 1;
const COMPLETE: u32 = 2;
const QUEUED: u32 = 4;

/// Runs a function once, however many callers there are.
///
/// A function that panics does not count as done: the panic continues in its caller, and one of the waiting
/// callers, or the next new one, runs its own function. (std poisons the `Once` instead; Go counts it as
/// done.) A function that calls its own `Once` waits for itself forever.
///
/// ```
/// use gort::sync::Once;
/// static START: Once = Once::new();
/// let mut runs = 0;
/// START.call_once(|| runs += 1);
/// START.call_once(|| runs += 1);
/// assert_eq!(runs, 1);
/// assert!(START.is_completed());
/// ```
pub struct Once {
    state: AtomicU32,
    /// Who runs the function, for reports.
    runner: Holder,
    queue: Lock<Queue>,
}

impl Once {
    /// A `Once` that has not run any function.
    #[must_use]
    pub const fn new() -> Once {
        Once { state: AtomicU32::new(INCOMPLETE), runner: Holder::new(), queue: Lock::new(Queue::new()) }
    }

    /// Runs `f` if no function has completed yet, or waits for the one that is running. When this returns, a
    /// function has completed, and its effects are visible to the caller.
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        if self.is_completed() {
            return;
        }
        let mut f = Some(f);
        self.run(&mut || {
            if let Some(f) = f.take() {
                f();
            }
            true
        });
    }

    /// Whether a function has completed.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        // Acquire pairs with the Release in `Run::drop`: the effects of the function are visible.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Waits until another caller's function has completed.
    pub fn wait(&self) {
        while !self.is_completed() {
            self.wait_for_change(|_| false);
        }
    }

    /// Runs `f` if no function has completed yet. `f` returns whether the `Once` is now complete. Returns
    /// false if `f` was run and returned false, and true otherwise.
    #[cold]
    pub(super) fn run(&self, f: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let state = self.state.load(Ordering::Acquire);
            match state & !QUEUED {
                COMPLETE => return true,
                RUNNING => self.wait_for_change(|state| state & !QUEUED == INCOMPLETE),
                _ => {
                    let running = state | RUNNING;
                    // Acquire pairs with the Release in `Run::drop`: the effects of a failed attempt are
                    // visible.
                    if self
                        .state
                        .compare_exchange(state, running, Ordering::Acquire, Ordering::Relaxed)
                        .is_err()
                    {
                        continue;
                    }
                    self.runner.mark();
                    let mut run = Run { once: self, outcome: INCOMPLETE };
                    if f() {
                        run.outcome = COMPLETE;
                    }
                    return run.outcome == COMPLETE;
                }
            }
        }
    }

    /// Parks until the current run ends. Returns at once if the word is COMPLETE or `wanted`.
    fn wait_for_change(&self, wanted: impl Fn(u32) -> bool) {
        let node = Node::new(0);
        let mut queue = self.queue.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state == COMPLETE || wanted(state) {
                return;
            }
            let queued = state | QUEUED;
            match self.state.compare_exchange_weak(state, queued, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: without a deadline, we keep the node until a waker has claimed and readied it.
        unsafe { queue.push_back(node.link()) };
        drop(queue);
        let claim = node.park(WaitReason::Once, std::ptr::from_ref(self) as usize, None);
        debug_assert_eq!(claim, RETRY);
    }

    /// A page of the stack of the one that runs the function, if it is known. `object` is what a goroutine
    /// that waits gave to `park`.
    ///
    /// # Safety
    /// `object` is the address of a live `Once`.
    pub(in crate::sync) unsafe fn runner_of(object: usize) -> Option<StackPage> {
        // SAFETY: the caller's promise.
        unsafe { &*(object as *const Once) }.runner.page()
    }

    /// Makes this a new `Once`. The caller has exclusive access.
    pub(super) fn reset(&mut self) {
        *self = Once::new();
    }
}

/// A run of a function. Dropping it ends the run, after the function has returned or while it panics.
struct Run<'a> {
    once: &'a Once,
    outcome: u32,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.once.runner.clear();
        // Release pairs with the Acquires in `is_completed` and `run`.
        let before = self.once.state.swap(self.outcome, Ordering::Release);
        if before & QUEUED != 0 {
            let all = self.once.queue.lock().take_all(RETRY);
            all.ready_all();
        }
    }
}

impl Default for Once {
    fn default() -> Once {
        Once::new()
    }
}

// As for std's primitives: a panic never leaves it half-changed.
impl RefUnwindSafe for Once {}
impl UnwindSafe for Once {}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish()
    }
}
