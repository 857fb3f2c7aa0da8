//! Waiting for a descriptor inside a context's limit (`Context::limit`), which ends the wait as well.
//!
//! The poll word holds a Hook instead of the goroutine. Three may end the wait: an edge, by way of the Hook,
//! the deadline and the limit. The first one claims it. If it was not the edge, the Hook is taken out of the
//! word. If that is too late, because an edge is about to call the Hook, the waiter lets it finish: the Hook
//! lies on its stack.

use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::netpoll::{Direction, Observed, Registration};
use crate::sched::park::park_ready::yield_now;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, TIMED_OUT, Wait};
use crate::sched::park::{clock, limit};
use crate::sched::types::waiter::{Hook, Waiter};
use crate::sched::word::status::WaitReason;
use crate::timer::NEVER;

/// The claim of a wait that an edge has ended.
const EDGE: usize = FIRST_FREE_CLAIM;

#[repr(C)]
struct Limited {
    hook: Hook,
    wait: Wait,
    /// The Hook was called, and is no longer in use.
    done: AtomicBool,
}

impl Limited {
    /// Claims the wait for an edge. Returns the waiter, to be readied.
    unsafe fn claim(hook: *const Hook) -> Option<Waiter> {
        // SAFETY: the Hook is the first field of a Limited, which is there until `done` is set.
        let limited = unsafe { &*hook.cast::<Limited>() };
        let waiter = limited.wait.waiter();
        let won = limited.wait.try_claim(EDGE);
        // Release: from here on the waiter may leave, unless it waits for our `ready`.
        limited.done.store(true, Ordering::Release);
        won.then_some(waiter)
    }
}

/// As [`Registration::wait`], ended also by the limit in force.
#[inline(never)]
pub(in crate::transparent) fn park_limited(
    registration: &Registration,
    direction: Direction,
    observed: Observed,
    deadline: u64,
    still_valid: impl FnOnce() -> bool,
) {
    let limited = Limited {
        hook: Hook {
            ready: |hook| {
                // SAFETY: passed on.
                if let Some(waiter) = unsafe { Limited::claim(hook) } {
                    waiter.ready();
                }
            },
            // SAFETY: passed on.
            ready_inside: |hook| unsafe { Limited::claim(hook) },
            retract: |_| (),
        },
        wait: Wait::new(),
        done: AtomicBool::new(false),
    };
    let limited = black_box(&limited);
    // SAFETY: taken out of the word, or done, before this returns.
    let hook = unsafe { Waiter::from_hook(ptr::from_ref(limited).cast()) };
    let word = registration.word(direction);
    if !word.begin_wait(observed, hook.to_word()) {
        return;
    }
    let reason = match direction {
        Direction::Read => WaitReason::IoRead,
        Direction::Write => WaitReason::IoWrite,
    };
    if still_valid() {
        let left = if deadline == NEVER { u64::MAX } else { deadline.saturating_sub(clock::nanos()) };
        let until = clock::after(Duration::from_nanos(left)).or_else(|| clock::after(Duration::MAX));
        if limit::park_until(&limited.wait, reason, registration.address(), until) == EDGE {
            return;
        }
    } else if !limited.wait.try_claim(TIMED_OUT) {
        // An edge was faster, and readies us.
        limited.wait.park_until(reason, registration.address(), None);
        return;
    }
    if !word.cancel(hook.to_word()) {
        while !limited.done.load(Ordering::Acquire) {
            yield_now();
        }
    }
}
