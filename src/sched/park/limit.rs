//! Limits: a context that is in force for a goroutine or thread (`Context::limit`) ends its waits.
//!
//! Every wait with a deadline goes through [`park_until`] here. If a limit is in force, it ends the wait as
//! the deadline would: the channel or lock sees a timeout. Waits without a deadline cannot give up, and are
//! not affected.
//!
//! The limit is kept with the goroutine and not in thread-local storage, because shared-TLS goroutines on one
//! M have the same thread-locals.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
#[cfg(feature = "transparent")]
use std::time::Duration;
use std::time::Instant;

#[cfg(feature = "transparent")]
use super::clock;
use super::wait::Wait;
use crate::sched::types::current::current;
use crate::sched::types::g::Info;
use crate::sched::word::status::WaitReason;

/// Something that can end waits early.
pub(crate) trait Limit: Sync {
    /// Whether it has ended: waits with a deadline give up at once.
    fn is_over(&self) -> bool;

    /// [`Wait::park_until`], ended by this limit as well: then the claim is `TIMED_OUT`.
    fn park_until(&self, wait: &Wait, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize;
}

/// A limit that is in force, on the stack of the code that put it in force.
struct InForce<'a> {
    limit: &'a dyn Limit,
    /// The word of the last wait that began after its end, and how many such waits there were in a row.
    #[cfg(feature = "transparent")]
    cut: Cell<(usize, u32)>,
}

thread_local! {
    static OF_THREAD: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
}

/// Where the calling goroutine keeps its limit; `None` on a foreign thread.
fn of_goroutine() -> Option<&'static AtomicPtr<()>> {
    let g = current()?;
    // SAFETY: the info of a running goroutine is valid until it ends, and this is that goroutine. At its very
    // end it has none; then it waits without a limit.
    unsafe { g.info() }.map(|info| &info.limit)
}

fn get() -> *mut () {
    match of_goroutine() {
        Some(place) => place.load(Ordering::Relaxed),
        None => OF_THREAD.get(),
    }
}

fn set(limit: *mut ()) {
    match of_goroutine() {
        Some(place) => place.store(limit, Ordering::Relaxed),
        None => OF_THREAD.set(limit),
    }
}

/// Puts the former limit back in force when it is dropped.
pub(crate) struct Restore {
    before: *mut (),
}

impl Drop for Restore {
    fn drop(&mut self) {
        set(self.before);
    }
}

/// Runs `f` with `limit` in force.
pub(crate) fn enforce<R>(limit: &dyn Limit, f: impl FnOnce() -> R) -> R {
    let in_force = InForce {
        limit,
        #[cfg(feature = "transparent")]
        cut: Cell::new((0, 0)),
    };
    let _restore = replace(ptr::from_ref(&in_force).cast_mut().cast());
    f()
}

/// Suspends the limit while the result lives: for waits whose deadline is not a timeout of the user's.
pub(crate) fn suspend() -> Restore {
    replace(ptr::null_mut())
}

fn replace(limit: *mut ()) -> Restore {
    let restore = Restore { before: get() };
    set(limit);
    restore
}

/// The limit that is in force for a goroutine, which hands it on to another one.
#[derive(Clone, Copy)]
pub(crate) struct Handed(*mut ());

// SAFETY: limits are `Sync`; who may use it when, `adopt` says.
unsafe impl Send for Handed {}

/// The limit that is in force for the calling goroutine, whose info this is.
#[inline(always)]
pub(crate) fn hand_on(info: &Info) -> Handed {
    Handed(info.limit.load(Ordering::Relaxed))
}

/// Runs `f` with the limit of another goroutine in force.
///
/// # Safety
/// What that goroutine called when it handed the limit on does not return before `f` has.
pub(crate) unsafe fn adopt<R>(limit: Handed, f: impl FnOnce() -> R) -> R {
    // SAFETY: set by `enforce`, which does not return before `f` has.
    match unsafe { limit.0.cast::<InForce<'_>>().as_ref() } {
        // What is counted of the goroutine's own waits stays its own.
        Some(in_force) => enforce(in_force.limit, f),
        None => {
            let _restore = suspend();
            f()
        }
    }
}

/// The limit that is in force for the caller.
fn in_force<'a>() -> Option<&'a InForce<'a>> {
    // SAFETY: set by `enforce`, which is still on the caller's stack: it restores what was there before it
    // returns.
    unsafe { get().cast::<InForce<'a>>().as_ref() }
}

/// Whether a limit is in force.
pub(crate) fn is_set() -> bool {
    !get().is_null()
}

/// Whether the limit in force, if any, has ended.
pub(crate) fn is_over() -> bool {
    in_force().is_some_and(|in_force| in_force.limit.is_over())
}

/// [`Wait::park_until`], ended by the limit in force as well: then the claim is `TIMED_OUT`. Without a
/// deadline no limit applies.
#[inline]
pub(crate) fn park_until(wait: &Wait, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
    if deadline.is_some()
        && let Some(in_force) = in_force()
    {
        return in_force.limit.park_until(wait, reason, object, deadline);
    }
    wait.park_until(reason, object, deadline)
}

/// As [`park_until`], for callers that may wait again until their own deadline, whatever ended the wait: the
/// first wait for a word after the end of the limit is cut short at once, the next ones after a while, so
/// that the caller does not spin.
#[cfg(feature = "transparent")]
#[inline(never)]
pub(crate) fn park_again_until(
    wait: &Wait,
    reason: WaitReason,
    object: usize,
    deadline: Instant,
    word: usize,
) -> usize {
    /// Shorter than a caller would notice (ns).
    const FIRST: u64 = 50_000;
    /// At most a hundred times a second (ns).
    const LONGEST: u64 = 10_000_000;
    let Some(in_force) = in_force() else { return wait.park_until(reason, object, Some(deadline)) };
    if !in_force.limit.is_over() {
        in_force.cut.set((0, 0));
        return in_force.limit.park_until(wait, reason, object, Some(deadline));
    }
    let times = match in_force.cut.get() {
        (last, times) if last == word => times,
        _ => 0,
    };
    in_force.cut.set((word, times + 1));
    if times == 0 {
        return in_force.limit.park_until(wait, reason, object, Some(deadline));
    }
    let nanos = FIRST.saturating_mul(1 << (times - 1).min(20)).min(LONGEST);
    let pause = clock::after(Duration::from_nanos(nanos)).map_or(deadline, |end| end.min(deadline));
    wait.park_until(reason, object, Some(pause))
}
