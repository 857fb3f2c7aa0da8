//! [`join`]: runs two functions, the second one in another goroutine only if somebody has time for it.
//!
//! A *fork* is the second half of a `join`, as a [`Job`] in the frame of the call. While the first half runs,
//! the fork is pending in a deque of the goroutine (`sched/queue/fork_deque.rs`), which every thread can find
//! whether the goroutine runs, waits, is preempted or blocks. Either of two parties takes it out, once:
//!
//! - The goroutine, when the first half has ended. It calls the second half as a function. Nothing was
//!   allocated, and nothing atomic happened but the push and the pop.
//! - A thief: a *helper* (`helper.rs`), a goroutine that an M runs when it has nothing else to do
//!   (`sched/idle/fork_helpers.rs`). In the helper the second half may block as in any goroutine. The
//!   forking goroutine waits for its end, if it comes there first.
//!
//! The states of a job:
//!
//! | state | who owns the function and the place of the result |
//! | --- | --- |
//! | pending, in the deque | nobody; the deque decides |
//! | popped | the forking goroutine |
//! | stolen | the helper, until it has called `finish` on the job's [`JoinWord`] |
//! | done | the forking goroutine |
//!
//! - Y1. The frame of `join` stays until the job is popped or done, also when the first half panics.
//! - Y2. `finish` is the helper's last access to the job. It returns the waiter by value, and to ready that
//!   one the helper needs nothing of the job: the frame may be gone by then. A goroutine's Waiter is its G,
//!   which is never unmapped.
//! - Y3. Pushes and pops of a goroutine nest, because calls do. So the fork that a `join` pops is its own, or
//!   the deque is empty because thieves, who take the oldest first, have taken all.
//!
//! The wake-up of the forking goroutine is that of `JoinHandle::join`: both sides use one read-modify-write
//! of the join word (`join_word.rs`). That pending forks are found is argued in `sched/idle/fork_helpers.rs`.
//!
//! Where there is no deque for the fork, it becomes an ordinary goroutine ([`with_goroutine`]): in a bubble,
//! whose goroutines take turns in an order that a seed decides, and if more forks are pending than a deque
//! holds. On a foreign thread, `join` runs as a goroutine.

mod helper;
mod job;

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use super::join::{self, Outcome};
use super::labels::Labels;
use super::{run, stack};
use crate::base::atomic::{Ordering, fence};
use crate::base::throw;
use crate::sched::idle::fork_helpers;
use crate::sched::machine::SCHED;
use crate::sched::park::limit;
use crate::sched::queue::fork_table::ForkPlace;
use crate::sched::run::runtime_section;
use crate::sched::run::spawn::Spec;
use crate::sched::types::current::current;
use crate::sched::types::g::{G, Info};
use crate::stack::size::Need;
use job::Job;

/// Runs two functions, perhaps at the same time, and returns both results.
///
/// `a` runs in the calling goroutine. Meanwhile `b` is offered to processors that have nothing else to do. If
/// one takes it, it runs in a goroutine there; otherwise the caller runs it when `a` has returned. A fork
/// that nobody takes costs about as much as two function calls, so `join` is for recursive algorithms that
/// split their work into small parts. The functions may borrow from the caller, as in
/// [`scope`](crate::scope).
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = gort::join(|| sum(left), || sum(right));
///     left + right
/// }
///
/// let numbers: Vec<u64> = (1..=100_000).collect();
/// assert_eq!(gort::run(|| sum(&numbers)), 5_000_050_000);
/// ```
///
/// Unlike with a pool of threads, both functions may block: wait for channels, locks and I/O, call `join`
/// again. They may even wait for each other, because `b` is taken by somebody if `a` waits (at once), or
/// computes without an end (after some slices):
///
/// ```
/// gort::run(|| {
///     let (sender, receiver) = gort::chan::bounded(0);
///     let (received, ()) = gort::join(|| receiver.recv().unwrap(), || sender.send(7).unwrap());
///     assert_eq!(received, 7);
/// });
/// ```
///
/// `b` has the caller's [`Labels`] and the [context](crate::context) that limits the caller, but the
/// thread-locals, the id, the name and the thread of the goroutine that runs it: `join` is the one place
/// where code that is written in one goroutine may see the thread-locals of another. Called on a thread
/// outside of gort, `join` runs as a goroutine, as in [`run`](crate::run), and so does `a`.
///
/// # Panics
/// If `a` or `b` panics, with the same payload, after both have ended. If both panic, with that of `a`.
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let Some(g) = current() else { return run::run(|| join(a, b)) };
    // SAFETY: the info of a running goroutine is valid until it ends. (The drop of its result may run when it
    // has none any more.)
    let Some(info) = (unsafe { g.info() }) else { return with_goroutine(a, b) };
    let (place, outermost) = match info.forks.get() {
        Some(place) => (place, None),
        None if g.bubble.get() != 0 => return with_goroutine(a, b),
        None => {
            let outermost = Outermost::begin(g, info);
            (outermost.place, Some(outermost))
        }
    };
    let job = Job::new(b, g, info, Location::caller());
    if !place.deque().push(job.as_fork()) {
        // SAFETY: the job was not published, so it is ours.
        return with_goroutine(a, unsafe { job.take_function() });
    }
    if outermost.is_some() || SCHED.idle.some_p_idle() {
        offer(outermost.is_some());
    }
    let first = catch_unwind(AssertUnwindSafe(a));
    let popped = place.deque().pop();
    if popped == job.as_fork() {
        // SAFETY: the deque gave the job back, so it is ours.
        let b = unsafe { job.take_function() };
        return match first {
            Ok(first) => (first, b()),
            Err(payload) => both(Err(payload), catch_unwind(AssertUnwindSafe(b))),
        };
    }
    if !popped.is_null() {
        throw("join", format_args!("the calls of `join` on a stack did not nest"));
    }
    both(first, job.wait(g))
}

/// Wakes an M for a fork that was pushed, if one is needed.
#[inline(never)]
fn offer(outermost: bool) {
    if outermost {
        fence(Ordering::SeqCst); // see the head of `sched/idle/fork_helpers.rs`
    }
    if fork_helpers::an_m_is_needed()
        && let Some(_inside) = runtime_section::enter()
    {
        SCHED.wake_p_slow();
    }
}

/// The results of both halves, or the panic of one.
fn both<RA, RB>(first: Outcome<RA>, second: Outcome<RB>) -> (RA, RB) {
    match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(payload), second) => {
            // Its drop might panic, too; but there can be only one panic.
            let _panic = catch_unwind(AssertUnwindSafe(|| drop(second))).map_err(std::mem::forget);
            resume_unwind(payload)
        }
        (Ok(_), Err(payload)) => resume_unwind(payload),
    }
}

/// As [`join`], with an ordinary goroutine for `b`. Without memory for one, the caller runs both.
#[cold]
#[inline(never)]
#[track_caller]
fn with_goroutine<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    // SAFETY: the info of a running goroutine is valid until it ends.
    let limit = current().and_then(|g| unsafe { g.info() }).map(limit::hand_on);
    let spec = Spec {
        stack: stack(|| Need::usual(true)),
        private_tls: true,
        site: Location::caller(),
        bubble: None,
    };
    let mut second = Some(b);
    let place = Place(&raw mut second);
    let run_second = move || {
        // SAFETY: the caller's frame stays until we have ended, and it does not touch the place meanwhile.
        let b = unsafe { place.take() };
        match limit {
            // SAFETY: as above.
            Some(limit) => unsafe { limit::adopt(limit, b) },
            None => b(),
        }
    };
    // SAFETY: we wait for the goroutine below, so what it borrows outlives it.
    let started = unsafe { join::start(&spec, Info::new(None, Labels::current().0), None, run_second) };
    let first = catch_unwind(AssertUnwindSafe(a));
    match started {
        Ok(goroutine) => both(first, goroutine.join()),
        // SAFETY: there is no goroutine, so the place is ours.
        Err(_) => both(first, catch_unwind(AssertUnwindSafe(unsafe { place.take() }))),
    }
}

/// The place of a function in the frame of its caller.
struct Place<B>(*mut Option<B>);

impl<B> Clone for Place<B> {
    fn clone(&self) -> Place<B> {
        *self
    }
}

impl<B> Copy for Place<B> {}

// SAFETY: the function may be sent.
unsafe impl<B: Send> Send for Place<B> {}

impl<B> Place<B> {
    /// # Safety
    /// The place is alive and the caller's, and is full.
    unsafe fn take(self) -> B {
        // SAFETY: the caller's promise.
        match unsafe { (*self.0).take() } {
            Some(b) => b,
            None => unreachable!("the function is taken once"),
        }
    }
}

/// The place for the forks of a goroutine, from the beginning of its outermost `join` to the end.
struct Outermost<'a> {
    place: &'static ForkPlace,
    info: &'a Info,
}

impl Outermost<'_> {
    #[inline(never)]
    fn begin<'a>(g: &'static G, info: &'a Info) -> Outermost<'a> {
        helper::start_first();
        // Any P's table will do: this one may be out of date, and in a blocking call there is none.
        let place = match g.m().p().or_else(|| SCHED.p(0)) {
            Some(p) => p.forks.take(std::ptr::from_ref(g) as usize),
            None => unreachable!("a goroutine runs, so there are Ps"),
        };
        info.forks.set(Some(place));
        Outermost { place, info }
    }
}

impl Drop for Outermost<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        self.info.forks.set(None);
        self.place.give_back();
    }
}
