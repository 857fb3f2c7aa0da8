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
    // A new M spins: `find_runnable` knows what to do about that, `next_local` does not.
    let mut next = find_runnable(m);
    while let Some(g) = next {
        debug_assert!(!m.spinning.get(), "an M that runs a goroutine does not spin");
        match g.locked_m.get() {
            Some(owner) if !std::ptr::eq(owner, m) => locked::start_locked_m(m, owner),
            _ => {
                if execute(m, g) == Outcome::EndThread {
                    return;
                }
            }
        }
        next = next_local(m).or_else(|| {
            m.use_own_tls();
            find_runnable(m)
        });
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
pub(crate) fn execute(m: &'static M, mut g: &'static G) -> Outcome {
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
                owned_p(m).stats.preempted.add(1);
                g.set_status(Status::Runnable);
                global::lock().push_hog(g);
                Outcome::Next
            }
            Some(Switch::NeedP) => {
                g.set_status(Status::Runnable);
                let state = global::lock();
                if let Some(p) = state.take_idle_p() {
                    drop(state);
                    m.set_p(Some(p));
                    continue;
                }
                // No P is idle: whoever gives one up sees the queue.
                state.push(g);
                Outcome::Next
            }
            None => spawn::end(m, g),
        };
        if m.locked_g.get().is_some() && outcome == Outcome::Next {
            m.use_own_tls();
            g = locked::stop_locked_m(m);
            continue;
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
