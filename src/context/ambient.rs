//! The context that limits the waits of a goroutine or thread: see [`Context::limit`](super::Context::limit).
//!
//! Every wait of gort that can give up, because it has a deadline, goes through [`park_until`] here. If a context is in
//! force, the wait is queued at its `done` channel as well, and the end of the context claims it as the deadline does:
//! to the primitive, its time is over. Waits that cannot give up are not affected.
//!
//! It is kept with the goroutine, not in thread-local storage, which goroutines of the shared kind have in common.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Instant;

use super::inner::Canceler;
use crate::chan::handle::Handle;
use crate::chan::waitq::{Kind, Node};
use crate::sched::reason::WaitReason;
use crate::sched::section;
use crate::sched::visit::Inside;
use crate::sched::waiter::{TIMED_OUT, Wait};

thread_local! {
    static OF_THREAD: Cell<*const Canceler> = const { Cell::new(ptr::null()) };
}

/// Where the goroutine keeps it, `None` on a foreign thread.
fn of_goroutine() -> Option<&'static AtomicPtr<()>> {
    let g = section::current()?;
    // SAFETY: the info of a running goroutine is valid until it ends, and this is that goroutine. At its very end it
    // has none; then it waits without a context.
    unsafe { g.info.load(Ordering::Relaxed).as_ref() }.map(|info| &info.context)
}

fn get() -> *const Canceler {
    match of_goroutine() {
        Some(place) => place.load(Ordering::Relaxed).cast_const().cast(),
        None => OF_THREAD.get(),
    }
}

fn set(canceler: *const Canceler) {
    match of_goroutine() {
        Some(place) => place.store(canceler.cast_mut().cast(), Ordering::Relaxed),
        None => OF_THREAD.set(canceler),
    }
}

/// Puts a context in force as long as this lives.
pub(crate) struct InForce {
    before: *const Canceler,
}

impl InForce {
    /// # Safety
    /// The result is dropped by the same goroutine or thread, in the reverse order of its making, and before the
    /// canceler goes.
    pub(super) unsafe fn new(canceler: Option<&Canceler>) -> InForce {
        let before = get();
        set(canceler.map_or(ptr::null(), ptr::from_ref));
        InForce { before }
    }
}

impl Drop for InForce {
    fn drop(&mut self) {
        set(self.before);
    }
}

/// Puts no context in force, for waits whose deadline is not a timeout of the user's, as long as the result lives.
pub(crate) fn suspend() -> InForce {
    // SAFETY: there is nothing that could go.
    unsafe { InForce::new(None) }
}

/// What is in force for the caller.
fn current<'a>() -> Option<&'a Canceler> {
    // SAFETY: in force only as long as it is there (`InForce::new`), and the caller returns before that ends.
    unsafe { get().as_ref() }
}

/// Whether a context is in force.
pub(crate) fn is_set() -> bool {
    !get().is_null()
}

/// Whether the context in force, if any, has ended.
pub(crate) fn is_over() -> bool {
    current().is_some_and(|canceler| canceler.error().is_some())
}

/// [`Wait::park_until`], ended by the context in force as well: then the claim is `TIMED_OUT`. Without a deadline no
/// context is looked at.
#[inline]
pub(crate) fn park_until(wait: &Wait, reason: WaitReason, object: usize, deadline: Option<Instant>) -> usize {
    if deadline.is_some()
        && let Some(canceler) = current()
    {
        return park_with(canceler, wait, reason, object, deadline);
    }
    wait.park_until(reason, object, deadline)
}

#[cold]
fn park_with(
    canceler: &Canceler,
    wait: &Wait,
    reason: WaitReason,
    object: usize,
    deadline: Option<Instant>,
) -> usize {
    let done = canceler.done();
    let mut node = Node::shared(wait, TIMED_OUT, ptr::null_mut());
    let node = &raw mut node;
    // SAFETY: the node lives here, and is taken out below before we leave.
    let queued = unsafe { done.enqueue(&mut Inside::enter(), node, Kind::Watch) };
    if !queued && wait.try_claim(TIMED_OUT) {
        return TIMED_OUT;
    }
    // If somebody has claimed the wait already, this returns with its wake-up.
    let claim = wait.park_until(reason, object, deadline);
    if queued {
        // SAFETY: queued above.
        unsafe { done.dequeue(&Inside::enter(), node, Kind::Watch) };
    }
    claim
}
