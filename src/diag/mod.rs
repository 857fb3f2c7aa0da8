//! Reports: dumps, deadlocks, leaked goroutines, schedtrace, SIGQUIT, stack overflows. They look down at
//! everything; the core reaches them only through `sched/hooks.rs`.

pub(crate) mod deadlock;
pub(crate) mod dump;
pub(crate) mod leak;
mod report_thread;
mod schedtrace;
mod sigquit;
mod stack_overflow;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::sys::env::Settings;
use deadlock::{Detective, OnDeadlock};
use schedtrace::Trace;

/// What the program wants of reports; where it says nothing, the environment does, or the defaults hold.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) on_deadlock: Option<OnDeadlock>,
    pub(crate) sigquit: Option<bool>,
}

/// What the program chose before the runtime starts, and what the housekeeper serves afterwards.
static STATE: Mutex<State> = Mutex::new(State { choices: None, detective: Detective::new(), trace: None });

struct State {
    choices: Option<Choices>,
    detective: Detective,
    trace: Option<Trace>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the program wants, before the runtime starts. Afterwards it has no effect.
pub(crate) fn choose(choices: Choices) {
    state().choices = Some(choices);
}

/// At boot.
pub(crate) fn boot(settings: &Settings) {
    let mut state = state();
    let choices = state.choices.take().unwrap_or_default();
    stack_overflow::init();
    if choices.sigquit.unwrap_or(true) && settings.debug.sigquit {
        sigquit::init();
    }
    deadlock::init(match choices.on_deadlock {
        _ if !settings.debug.deadlock => OnDeadlock::Ignore,
        action => action.unwrap_or_default(),
    });
    state.trace = settings.debug.schedtrace.map(|every| Trace::new(every, settings.debug.scheddetail));
}

/// Every P is idle, or a foreign thread is about to wait while all are.
pub(crate) fn all_idle() {
    deadlock::all_idle();
}

/// On the housekeeper's thread: serves what was asked for. Returns when it wants to be called again.
pub(crate) fn housekeep() -> Option<Instant> {
    sigquit::serve();
    let mut state = state();
    let looking = state.detective.serve();
    let printing = state.trace.as_mut().map(Trace::print_if_due);
    looking.into_iter().chain(printing).min()
}
