//! The composition root: fills the table of hooks through which the core calls the layers above it. Only
//! `sched/boot.rs` uses it.

use std::ffi::c_void;
use std::time::Instant;

use crate::diag;
use crate::goroutine;
use crate::sched::hooks::Hooks;
use crate::sched::types::m::M;
use crate::sys::env::Settings;
use crate::testing::bubble;
use crate::trace;

static HOOKS: Hooks = Hooks {
    boot,
    signal_on_any_thread: diag::leak::stop_all_threads::wait_if_asked,
    signal_on_m,
    all_idle: diag::all_idle,
    housekeep,
    #[cfg(feature = "transparent")]
    others_watch: crate::transparent::others_watch,
    #[cfg(feature = "transparent")]
    watch_changed: crate::transparent::watch_changed,
    sample_stack: diag::dump::unwind::sample,
    #[cfg(feature = "debug")]
    wait_ended: Some(crate::profile::wait_ended),
    #[cfg(not(feature = "debug"))]
    wait_ended: None,
    bubble: bubble::HOOKS,
};

/// The table of hooks.
pub(crate) fn hooks() -> &'static Hooks {
    &HOOKS
}

fn boot(settings: &Settings) {
    goroutine::panic::install_hook();
    diag::boot(settings);
    trace::start_at_boot(settings);
}

fn housekeep() -> Option<Instant> {
    #[cfg(feature = "transparent")]
    crate::transparent::make_late_wakes();
    diag::housekeep()
}

fn signal_on_m(m: &'static M, context: *mut c_void) {
    diag::dump::ask_running::answer(m, context);
}
