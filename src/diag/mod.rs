//! Reports: dumps, deadlocks, stalls, long calls, leaks, schedtrace, SIGQUIT, stack overflows, gdb. They use
//! all other layers; the core calls them only through `sched/hooks.rs`.

pub(crate) mod blocking_calls;
pub(crate) mod deadlock;
pub(crate) mod dump;
mod gdb;
pub(crate) mod leak;
mod report_thread;
mod schedtrace;
mod sigquit;
mod stack_overflow;
pub(crate) mod stall;
pub(crate) mod unwind_copy;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::env::Settings;
use crate::sys::stderr;
use deadlock::{Detective, OnDeadlock};
use schedtrace::Trace;
use stall::OnStall;

/// The program's settings for reports. For a setting that is `None`, the environment's value holds, or the
/// default.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) on_deadlock: Option<OnDeadlock>,
    pub(crate) sigquit: Option<bool>,
    pub(crate) stall_after: Option<Duration>,
    pub(crate) on_stall: Option<OnStall>,
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
    dump::unwind::init();
    stack_overflow::init();
    gdb::keep();
    if choices.sigquit.unwrap_or(true) && settings.debug.sigquit {
        sigquit::init();
    }
    dump::show_runtime_frames(settings.debug.runtimeframes);
    deadlock::init(match choices.on_deadlock {
        _ if !settings.debug.deadlock => OnDeadlock::Ignore,
        action => action.unwrap_or_default(),
    });
    match (choices.stall_after, choices.on_stall) {
        (Some(after), on_stall) => stall::start(after, on_stall),
        (None, Some(_)) => stderr::write_short(format_args!(
            "gort: Config::on_stall has no effect: call Config::stall_after, which says what a stall is\n"
        )),
        (None, None) => {}
    }
    state.trace = settings.debug.schedtrace.map(|every| Trace::new(every, settings.debug.scheddetail));
}

/// Called when every P is idle, or when a foreign thread is about to wait while all are.
pub(crate) fn all_idle() {
    deadlock::all_idle();
}

/// Called on the housekeeper's thread: serves requests. Returns when it wants to be called again.
pub(crate) fn housekeep() -> Option<Instant> {
    sigquit::serve();
    let calls = blocking_calls::serve();
    let mut state = state();
    let (looking, found) = state.detective.serve();
    let printing = state.trace.as_mut().map(Trace::print_if_due);
    drop(state);
    if found {
        deadlock::report();
    }
    looking.into_iter().chain(printing).chain(calls).min()
}
