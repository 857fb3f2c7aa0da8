//! [`Once`]: something that is done once, by the first who comes; the others wait for it.
//!
//! The word: INCOMPLETE, RUNNING or COMPLETE, and QUEUED, which says that somebody waits. Everybody queues
//! under the queue's lock by a step that found the word not COMPLETE and left QUEUED set. Whoever ends a run
//! replaces the whole word in one step; if that finds QUEUED it wakes the whole queue, and all look again. So
//! nobody sleeps on when there is something to do, and a panic, which makes the word INCOMPLETE again, lets
//! one of those that waited try next.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::waitq::{Node, Queue, RETRY};
use crate::atomic::{AtomicU32, Ordering};
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;

const INCOMPLETE: u32 = 0;
const RUNNING: u32 = 1;
const COMPLETE: u32 = 2;
const QUEUED: u32 = 4;

/// Runs a function once, whoever asks for it.
///
/// If the function panics, it does not count as done: the panic goes on in the caller, and one of those that
/// wait, or the next that comes, runs its own. (std poisons the `Once` instead; Go counts it as done.) A
/// function that asks for its own `Once` waits for itself, for ever.
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
    queue: Lock<Queue>,
}

impl Once {
    /// Nothing was run yet.
    #[must_use]
    pub const fn new() -> Once {
        Once { state: AtomicU32::new(INCOMPLETE), queue: Lock::new(Queue::new()) }
    }

    /// Runs `f` if nothing was run yet, or waits until the run that goes on is over. When this returns, a
    /// function has been run to its end and what it did is visible.
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

    /// Whether a function has been run to its end.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        // Acquire pairs with the Release in `Run::drop`: what the function did is visible.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Waits until a function has been run to its end by somebody else.
    pub fn wait(&self) {
        while !self.is_completed() {
            self.wait_for_change(|_| false);
        }
    }

    /// Runs `f` if nothing was run to its end; its result says whether it is done now. Returns false if `f`
    /// was run and is not.
    #[cold]
    pub(super) fn run(&self, f: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let state = self.state.load(Ordering::Acquire);
            match state & !QUEUED {
                COMPLETE => return true,
                RUNNING => self.wait_for_change(|state| state & !QUEUED == INCOMPLETE),
                _ => {
                    let running = state | RUNNING;
                    // Acquire: what an attempt before, which ended with the Release in `Run::drop`, left is
                    // visible.
                    if self
                        .state
                        .compare_exchange(state, running, Ordering::Acquire, Ordering::Relaxed)
                        .is_err()
                    {
                        continue;
                    }
                    let mut run = Run { once: self, outcome: INCOMPLETE };
                    if f() {
                        run.outcome = COMPLETE;
                    }
                    return run.outcome == COMPLETE;
                }
            }
        }
    }

    /// Parks until the word changes from a state that is neither COMPLETE nor `wanted`.
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
        // SAFETY: the node stays until it was woken: there is no deadline.
        unsafe { queue.push_back(&node) };
        drop(queue);
        let claim = node.park(WaitReason::Once, std::ptr::from_ref(self) as usize, None);
        debug_assert_eq!(claim, RETRY);
    }

    /// As new. The caller has exclusive access.
    pub(super) fn reset(&mut self) {
        *self = Once::new();
    }
}

/// A run; ends when it is dropped, after the function or by its panic.
struct Run<'a> {
    once: &'a Once,
    outcome: u32,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
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

// As std's: nothing in it can be seen half-changed after a panic.
impl RefUnwindSafe for Once {}
impl UnwindSafe for Once {}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish()
    }
}
