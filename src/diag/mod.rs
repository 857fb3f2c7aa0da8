//! Reports: dumps, deadlocks, leaked goroutines, schedtrace, SIGQUIT, stack overflows. They use all other
//! layers; the core calls them only through `sched/hooks.rs`.

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

/// The program's settings for reports. For a setting that is `None`, the environment's value holds, or the
/// default.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) on_deadlock: Option<OnDeadlock>,
    pub(crate) sigquit: Option<bool>,
}

/// The program's settings, until the runtime starts; and the state of the reports that the housekeeper makes.
static STATE: Mutex<State> = Mutex::new(State { choices: None, detective: Detective::new(), trace: None });

struct State {
    choices: Option<Choices>,
    detective: Detective,
    trace: Option<Trace>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the program's settings. It has an effect only before the runtime starts.
pub(crate) fn choose(choices: Choices) {
    state().choices = Some(choices);
}

/// Called at boot: installs handlers and applies the settings.
pub(crate) fn boot(settings: &Settings) {
    let mut state = state();
    let choices = state.choices.take().unwrap_or_default();
    stack_overflow::init();
    if choices.sigquit.unwrap_or(true) && settings.debug.sigquit {
        sigquit::init();
    }
    dump::show_runtime_frames(settings.debug.runtimeframes);
    deadlock::init(match choices.on_deadlock {
        _ if !settings.debug.deadlock => OnDeadlock::Ignore,
        action => action.unwrap_or_default(),
    });
    state.trace = settings.debug.schedtrace.map(|every| Trace::new(every, settings.debug.scheddetail));
}

/// Called when every P is idle, or when a foreign thread is about to wait while all are.
pub(crate) fn all_idle() {
    deadlock::all_idle();
}

/// Called on the housekeeper's thread: serves requests. Returns when it wants to be called again.
pub(crate) fn housekeep() -> Option<Instant> {
    sigquit::serve();
    let mut state = state();
    let (looking, found) = state.detective.serve();
    let printing = state.trace.as_mut().map(Trace::print_if_due);
    drop(state);
    if found {
        deadlock::report();
    }
    looking.into_iter().chain(printing).min()
}
