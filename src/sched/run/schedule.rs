//! Switching from one goroutine to the next.
//!
//! A goroutine that stops takes the next one of its P itself and switches to it directly, without g0 in
//! between (`switch_away`). The goroutine that stopped then has to be queued, or its park committed, or its
//! slot recycled. That must wait until its stack is no longer in use: the next goroutine does it first thing
//! after the switch (`finish_switch`), as an operating system's kernel does.
//!
//! If the P has no runnable goroutine, the stopping one switches to g0, whose loop (`run`) looks everywhere
//! else, stops the M if there is no work, and switches to the goroutine that it finds.
//!
//! From `use_tls_of` to the switch, and on g0 until `use_own_tls`, nothing may touch thread-local storage.

use std::ptr;

use super::{child_first, runtime_section, spawn, tell_sanitizers};
use crate::arch::{self, Message};
use crate::sched::event::{self, Stop, Whereabouts};
use crate::sched::idle::locked_m;
use crate::sched::machine::{SCHED, hooks};
use crate::sched::types::g::{G, Switch};
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::status::Status;
use crate::sys::clock::nanotime;
use crate::sys::sanitizer;

/// The loop of an M on g0: runs goroutines until the thread has to end.
pub(crate) fn run(m: &'static M) {
    while let Some(g) = SCHED.find_runnable(m) {
        debug_assert!(!m.spinning.get(), "an M that runs a goroutine does not spin");
        match g.locked_m.get() {
            Some(owner) if !ptr::eq(owner, m) => locked_m::start_locked_m(m, owner),
            _ => {
                if run_until_idle(m, g) == Outcome::EndThread {
                    return;
                }
            }
        }
    }
}

/// What an M does after a goroutine has switched to g0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Looks for the next one.
    Next,
    /// Ends: the goroutine exited while bound to the thread.
    EndThread,
}

/// Called on g0: runs `g`, and the goroutines that follow it directly, until one of them switches to g0.
fn run_until_idle(m: &'static M, mut g: &'static G) -> Outcome {
    loop {
        if event::is_on() {
            log_start(m, g);
        }
        if m.cpu_time.is_pending() {
            m.cpu_time.charge_scheduler();
        }
        enter_goroutine(m, g);
        tell_sanitizers::from_g0(m, g);
        // SAFETY: we own g (G2), so no other thread resumes it; goroutines switch back to the saved g0.
        let _ = unsafe { arch::switch(m.g0.as_ptr(), g.context.get(), nobody_stopped(m)) };
        let Some(stopped) = m.current() else { unreachable!("a goroutine switched to g0") };
        if m.cpu_time.counts_stop() {
            runtime_section::measure_own_if_late(m);
        }
        if m.lone.get().is_some() {
            runtime_section::measure_own_if_lone(m);
        }
        if m.cpu_time.is_pending() {
            m.charge(stopped);
        }
        m.set_current(None);
        m.use_own_tls();
        tell_sanitizers::to_g0(m, stopped, m.why.get());
        match after_stop(m, stopped, m.why.get()) {
            After::GoOn => g = stopped,
            After::EndThread => return Outcome::EndThread,
            After::Done if m.locked_g.get().is_some() => g = locked_m::stop_locked_m(m),
            After::Done => return Outcome::Next,
        }
    }
}

/// Stops `g`, the calling goroutine, which is in a section. Returns when `g` runs again, perhaps on another
/// M.
#[inline]
pub(crate) fn switch_away(g: &'static G, why: Switch) {
    let m = g.m();
    let direct = why != Switch::NeedP && m.locked_g.get().is_none();
    match if direct { SCHED.next_local(m) } else { None } {
        Some(next) if next.locked_m.get().is_none() => switch_directly(m, g, why, next),
        next => switch_to_g0(m, g, why, next),
    }
}

/// [`switch_away`] for a goroutine that yields: looks into the ring first. Both ways share one switch
/// instruction, so that the CPU can predict where the goroutine goes on.
#[inline(always)]
pub(crate) fn yield_away(g: &'static G) {
    let m = g.m();
    let next = match m.p() {
        _ if m.locked_g.get().is_some() => None,
        Some(p) => SCHED.next_in_ring(p).or_else(|| SCHED.next_local(m)),
        None => None,
    };
    match next {
        Some(next) if next.locked_m.get().is_none() => switch_directly(m, g, Switch::Yield, next),
        next => switch_to_g0(m, g, Switch::Yield, next),
    }
}

/// Switches from `g`, the calling goroutine, which is in a section, to `child`, which is not published yet.
/// Returns when `g` runs again.
#[inline(never)]
pub(crate) fn run_child_first(g: &'static G, child: &'static G) {
    switch_directly(g.m(), g, Switch::AfterChild, child);
}

#[inline(always)]
fn switch_directly(m: &'static M, g: &'static G, why: Switch, next: &'static G) {
    if event::is_on() {
        log_switch(m, g, why, Some(next));
    }
    if m.cpu_time.is_pending() {
        m.charge(g);
    }
    if sanitizer::is_active() {
        return switch_and_tell(m, g, why, next);
    }
    enter_goroutine(m, next);
    // SAFETY: we own `next`; our own context is published by `finish_switch`, after it was saved.
    let message = unsafe { arch::switch(g.context.as_ptr(), next.context.get(), stopped(m, g, why)) };
    finish_switch(message);
}

/// [`switch_directly`] in a program with a sanitizer.
#[cold]
#[inline(never)]
fn switch_and_tell(m: &'static M, g: &'static G, why: Switch, next: &'static G) {
    enter_goroutine(m, next);
    tell_sanitizers::directly(m, g, why, next);
    // SAFETY: as in `switch_directly`.
    let message = unsafe { arch::switch(g.context.as_ptr(), next.context.get(), stopped(m, g, why)) };
    finish_switch(message);
}

/// `next`, if there is one, is bound to another M: it goes back to `runnext`, and g0 will take it from there
/// and hand the P, with its queue, to that M.
#[inline(never)]
fn switch_to_g0(m: &'static M, g: &'static G, why: Switch, next: Option<&'static G>) {
    if let Some(next) = next {
        SCHED.put_next(owned_p(m), next);
        SCHED.wake_p();
    }
    m.why.set(why);
    if event::is_on() {
        log_switch(m, g, why, None);
    }
    // SAFETY: g0 waits in `run_until_idle`.
    let message = unsafe { arch::switch(g.context.as_ptr(), m.g0.get(), nobody_stopped(m)) };
    finish_switch(message);
}

/// The message from a goroutine that stops to the next one on the same M: see `finish_switch`.
#[inline(always)]
fn stopped(m: &'static M, g: &'static G, why: Switch) -> Message {
    const { assert!(align_of::<G>() > Switch::AfterChild as usize) };
    if why == Switch::Gone {
        return nobody_stopped(m);
    }
    [ptr::from_ref(m) as usize, ptr::from_ref(g) as usize | why as usize]
}

/// The message from g0, or from a goroutine that has ended: no goroutine has to be dealt with.
#[inline(always)]
pub(crate) fn nobody_stopped(m: &'static M) -> Message {
    [ptr::from_ref(m) as usize, 0]
}

/// Called first after a switch to a goroutine: deals with the one that ran before on this M. Returns the M.
#[inline(always)]
pub(crate) fn finish_switch([m, stopped]: Message) -> &'static M {
    // SAFETY: made by `stopped` or `nobody_stopped`; Ms and Gs are never unmapped.
    let m = unsafe { &*(m as *const M) };
    if stopped != 0 {
        const WHY: usize = align_of::<G>() - 1;
        // SAFETY: as above.
        let g = unsafe { &*((stopped & !WHY) as *const G) };
        let why = stopped & WHY;
        // The two frequent cases are inlined here.
        if why == Switch::Yield as usize && g.bubble.get() == 0 {
            count_yield(owned_p(m), g);
            SCHED.requeue_yielded(owned_p(m), g);
        } else if why == Switch::Park as usize && g.bubble.get() == 0 {
            if !after_park(m, owned_p(m), g) {
                SCHED.ready_on(owned_p(m), g);
            }
        } else {
            finish_others(m, g, Switch::from_number(why));
        }
    }
    m
}

#[inline(never)]
fn finish_others(m: &'static M, stopped: &'static G, why: Switch) {
    match after_stop(m, stopped, why) {
        After::Done => {}
        After::GoOn => SCHED.ready_on(owned_p(m), stopped),
        After::EndThread => unreachable!("a goroutine that is bound to its thread ends on g0"),
    }
}

/// What to do after a goroutine stopped.
pub(super) enum After {
    /// Nothing: it may belong to another M already.
    Done,
    /// It must run on, and belongs to the caller.
    GoOn,
    /// It has ended while bound to the thread, which ends too.
    EndThread,
}

#[inline(always)]
fn count_yield(p: &'static P, g: &'static G) {
    p.stats.yields.add(1);
    g.set_status(Status::Runnable);
}

/// Commits the park of `g`. False: it was readied while it was stopping, and must run on.
#[inline(always)]
fn after_park(m: &'static M, p: &'static P, g: &'static G) -> bool {
    p.stats.parks.add(1);
    g.set_status(Status::Waiting);
    let parked = g.park.commit();
    if !parked && event::is_on() {
        m.unblocked(g);
    }
    parked
}

/// Deals with a stopped goroutine whose stack is no longer in use, according to why it stopped.
fn after_stop(m: &'static M, g: &'static G, why: Switch) -> After {
    match why {
        Switch::Park => {
            let bubble = g.bubble.get();
            let for_io = bubble != 0 && g.wait_reason().is_io();
            if !after_park(m, owned_p(m), g) {
                return After::GoOn;
            }
            if bubble != 0 {
                (hooks().bubble.parked)(bubble, for_io, owned_p(m));
            }
        }
        Switch::Yield => {
            let p = owned_p(m);
            count_yield(p, g);
            if g.bubble.get() == 0 {
                // This runs on g0. Unlike in `finish_switch` no M need be woken: this M looks into its own
                // queue next.
                SCHED.put_last(p, g);
            } else {
                (hooks().bubble.yielded)(g, p);
            }
        }
        Switch::Preempt | Switch::Interrupted => after_preemption(owned_p(m), g, why),
        Switch::NeedP => {
            if let Some(p) = SCHED.take_p_or_queue(g) {
                m.set_p(Some(p));
                p.begin_slice();
                return After::GoOn;
            }
        }
        Switch::End => return spawn::end(m, g),
        Switch::Gone => {}
        Switch::AfterChild => SCHED.ready_on(owned_p(m), g),
    }
    After::Done
}

/// Queues a goroutine whose slice is over.
#[inline(never)]
fn after_preemption(p: &'static P, g: &'static G, why: Switch) {
    let (counter, status) = match why {
        Switch::Interrupted => (&p.stats.preempted_by_signal, Status::Preempted),
        _ => (&p.stats.preempted, Status::Runnable),
    };
    counter.add(1);
    child_first::was_kept_waiting(p);
    g.set_status(status);
    SCHED.lock().push_preempted(g);
    // This M may go on with another goroutine.
    SCHED.wake_p();
}

/// Where `g` is. The caller runs on the stack of `g`, inside the runtime.
fn whereabouts(g: &'static G) -> Whereabouts {
    Whereabouts {
        sampler: hooks().sample_stack,
        stack: g.slot.stack(),
        site: g.site.get().map_or(0, |site| ptr::from_ref(site) as usize),
        depth: (ptr::from_ref(g) as usize).saturating_sub(arch::stack_pointer()),
    }
}

/// Writes down that the wait of `g` has ended: because of `by`, the calling goroutine, which is inside the
/// runtime, or of a thread that runs none.
#[cold]
#[inline(never)]
pub(crate) fn log_unblocked(g: &'static G, by: Option<&'static G>) {
    match by {
        Some(by) => by.m().unblocked_by(g, &whereabouts(by)),
        None => SCHED.platform.unblocked_by_thread(g),
    }
}

/// Writes down that `g`, the calling goroutine, enters a marked call on `m`.
#[cold]
#[inline(never)]
pub(crate) fn log_call(m: &'static M, g: &'static G) {
    m.log.call_began(g.id(), &whereabouts(g));
}

/// Writes down that `g`, which runs on `m`, stops, and that `next` starts in its place. The caller runs on
/// the stack of `g`, inside the runtime.
#[cold]
#[inline(never)]
fn log_switch(m: &'static M, g: &'static G, why: Switch, next: Option<&'static G>) {
    if why == Switch::Park && event::measures_waits() {
        g.measure_wait(nanotime());
    }
    let now = m.log.switched(g.id(), how_it_stops(g, why), next.map(G::id), Some(&whereabouts(g)));
    if stays_runnable(why) {
        g.became_runnable(now);
    }
    if let Some(next) = next {
        next.begins_to_run(now);
    }
}

/// Writes down that `g` starts on `m`. The caller is on g0.
#[cold]
#[inline(never)]
fn log_start(m: &'static M, g: &'static G) {
    g.begins_to_run(m.log.started(g.id()));
}

/// Writes down that a signal handler on the thread of `m` stops `g`.
pub(crate) fn log_stop(m: &'static M, g: &'static G, why: Switch) {
    if event::is_on() {
        let now = m.log.switched(g.id(), how_it_stops(g, why), None, None);
        if stays_runnable(why) {
            g.became_runnable(now);
        }
    }
}

fn stays_runnable(why: Switch) -> bool {
    !matches!(why, Switch::Park | Switch::End | Switch::Gone)
}

fn how_it_stops(g: &'static G, why: Switch) -> Stop {
    match why {
        Switch::Park => Stop::Wait(g.wait_reason() as u8),
        Switch::Yield | Switch::AfterChild => Stop::Yield,
        Switch::NeedP => Stop::NeedsP,
        Switch::Preempt | Switch::Interrupted => Stop::Preempt,
        Switch::End | Switch::Gone => Stop::End,
    }
}

#[inline]
fn owned_p(m: &M) -> &'static P {
    match m.p() {
        Some(p) => p,
        None => unreachable!("a goroutine stops only with a P, except to ask for one"),
    }
}

/// Makes `g` the M's current goroutine; the switch to it follows at once.
#[inline(always)]
fn enter_goroutine(m: &'static M, g: &'static G) {
    g.set_status(Status::Running);
    g.set_m(m);
    m.set_current(Some(g));
    m.use_tls_of(g);
}
