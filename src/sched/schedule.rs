//! The loop of an M on g0: find a goroutine, run it until it switches back, and do what it asked for.

use corosensei::CoroutineResult;

use super::find::{find_runnable, next_local};
use super::g::{G, Switch};
use super::m::M;
use super::p::P;
use super::status::Status;
use super::{global, locked, spawn, wake};

/// Runs goroutines until the thread shall end.
pub(crate) fn run(m: &'static M) {
    loop {
        let next = next_local(m).or_else(|| {
            m.use_own_tls();
            find_runnable(m)
        });
        let Some(g) = next else { return };
        let outcome = match g.locked_m.get() {
            Some(owner) if !std::ptr::eq(owner, m) => locked::start_locked_m(m, owner),
            _ => execute(m, g),
        };
        if outcome == Outcome::EndThread {
            return;
        }
    }
}

/// What an M does after a goroutine has left it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Looks for the next one.
    Next,
    /// Ends: the goroutine exited while bound to the thread.
    EndThread,
}

/// Runs `g` on `m` until it stops.
pub(crate) fn execute(m: &'static M, g: &'static G) -> Outcome {
    loop {
        let why = switch_to(m, g);
        // Here we are on g's thread pointer still, and `g` may be somebody else's as soon as it is published.
        let outcome = match why {
            Some(Switch::Park) => {
                owned_p(m).stats.parks.add(1);
                g.set_status(Status::Waiting);
                if !g.park.commit() {
                    continue; // readied while it was stopping
                }
                Outcome::Next
            }
            Some(Switch::Yield) => {
                let p = owned_p(m);
                p.stats.yields.add(1);
                g.set_status(Status::Runnable);
                wake::put_last(p, g);
                Outcome::Next
            }
            Some(Switch::Preempt) => {
                g.set_status(Status::Runnable);
                global::lock().push(g);
                // This M may go on with another goroutine.
                wake::wake_p();
                Outcome::Next
            }
            Some(Switch::NeedP) => {
                if acquire_idle_p(m) {
                    continue;
                }
                g.set_status(Status::Runnable);
                global::lock().push(g);
                // A P may have become idle since we looked.
                wake::wake_p();
                Outcome::Next
            }
            None => spawn::end(m, g),
        };
        if m.locked_g.get().is_some() && outcome == Outcome::Next {
            m.use_own_tls();
            let g = locked::stop_locked_m(m);
            return execute(m, g);
        }
        return outcome;
    }
}

fn owned_p(m: &M) -> &'static P {
    match m.p() {
        Some(p) => p,
        None => unreachable!("a goroutine switches to g0 only with a P, except to ask for one"),
    }
}

/// Switches to the goroutine and back. `None`: it has ended.
#[inline]
fn switch_to(m: &'static M, g: &'static G) -> Option<Switch> {
    g.set_status(Status::Running);
    g.set_m(m);
    m.set_current(Some(g));
    m.use_tls_of(g);
    // SAFETY: we own g (G2), so nobody else uses its context; a goroutine in a queue has one.
    let context = unsafe { (*g.context.get()).as_mut().unwrap_unchecked() };
    let result = context.resume(());
    m.set_current(None);
    if g.tp.get() == 0 {
        m.forget_current();
    }
    match result {
        CoroutineResult::Yield(why) => Some(why),
        CoroutineResult::Return(()) => None,
    }
}

fn acquire_idle_p(m: &'static M) -> bool {
    let p = global::lock().take_idle_p();
    m.set_p(p);
    p.is_some()
}
