//! Starting the one runtime of the process, on first use.
//!
//! This is the only file of the core that refers to a layer above it, and only to `wiring.rs`, which returns
//! the table of hooks.

use std::sync::Once;
use std::sync::atomic::Ordering;

use super::block::{setxid, thread_id, thread_state};
use super::gomaxprocs::{self, QuotaFollower};
use super::machine::SCHED;
use super::monitor::{housekeeper, signal_handler, starter, sysmon};
use super::types::current;
use super::types::wait_times::WAIT_ENDED;
use crate::base::throw;
use crate::sys::env::Settings;
use crate::sys::topology::Topology;
use crate::sys::{cpus, env, mem, membarrier, process, stderr, thread};
use crate::{netpoll, stack, tls, wiring};

/// Stack size (bytes) of the threads that run no goroutines: sysmon, the starter and the housekeeper.
const SERVICE_STACK: usize = 128 << 10;

/// Starts the runtime unless it runs.
#[inline]
pub(crate) fn ensure() {
    // Acquire pairs with the store in `start_with`.
    if !SCHED.platform.boot.started.load(Ordering::Acquire) {
        start();
    }
}

/// The program's settings. For a setting that is `None`, the environment's value holds, or the default.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) max_procs: Option<usize>,
    pub(crate) max_threads: Option<usize>,
    /// In nanoseconds.
    pub(crate) timer_slack: Option<u64>,
    pub(crate) preempt_by_signal: Option<bool>,
    /// What packed stacks promise (bytes), and how deep growable ones go: see `stack/size.rs`.
    pub(crate) stack_size: Option<usize>,
    pub(crate) max_stack: Option<usize>,
}

/// Whether the runtime runs.
#[cfg(feature = "transparent")]
pub(crate) fn has_started() -> bool {
    SCHED.platform.boot.started.load(Ordering::Acquire)
}

/// Whether this process was forked from one in which the runtime ran.
pub(crate) fn is_forked() -> bool {
    SCHED.platform.boot.forked.load(Ordering::Relaxed)
}

#[cold]
fn start() {
    start_with(Choices::default(), || ());
}

/// Starts the runtime; calls `before` first. False: it runs already, and nothing was done.
pub(crate) fn start_with(choices: Choices, before: impl FnOnce()) -> bool {
    static ONCE: Once = Once::new();
    assert!(
        !is_forked(),
        "gort: the runtime was started before this process was forked, and its threads are missing here: \
         call exec, or start the runtime after the fork"
    );
    let mut started = false;
    // After a panic (for example, no thread could be started) the next caller tries again.
    ONCE.call_once_force(|_| {
        before();
        boot(&choices);
        started = true;
    });
    SCHED.platform.boot.started.store(true, Ordering::Release);
    started
}

extern "C" fn in_forked_child() {
    let boot = &SCHED.platform.boot;
    if boot.started.swap(false, Ordering::Relaxed) {
        boot.forked.store(true, Ordering::Relaxed);
    }
}

fn boot(choices: &Choices) {
    let offset = current::current_offset();
    let private_tls = tls::self_check(offset);
    if private_tls.is_ok() {
        current::init(offset);
    }
    let machine = &SCHED.platform;
    let _set_once = machine.boot.private_tls.set(private_tls);
    let _set_once = machine.boot.hooks.set(wiring::hooks());
    if let Some(wait_ended) = wiring::hooks().wait_ended {
        let _set_once = WAIT_ENDED.set(wait_ended);
    }
    let settings = env::read();
    stack::size::init(choices.stack_size.or(settings.stack_size), choices.max_stack.or(settings.max_stack));
    for warning in &settings.warnings {
        stderr::write(&format!("{warning}\n"));
    }
    if settings.guard_by_mprotect {
        mem::guard_by_mprotect();
    }
    process::at_fork_in_child(in_forked_child);
    setxid::init();
    thread_id::init();
    thread_state::init();
    membarrier::register();
    (wiring::hooks().boot)(&settings);
    let by_signal = choices.preempt_by_signal.unwrap_or(true) && !settings.debug.asyncpreemptoff;
    signal_handler::init(by_signal);
    if let Some(slack) = choices.timer_slack {
        machine.poll.chosen_slack.store(slack, Ordering::Relaxed);
    }
    if let Some(max) = choices.max_threads {
        machine.starter.max_threads.store(max.max(1), Ordering::Relaxed);
    }
    let topology = Topology::read();
    let _set_once = machine.topology.set(topology.is_uneven().then_some(topology));
    gomaxprocs::start(first_procs(choices, &settings));
    let _tried_again_at_the_first_registration = netpoll::init();
    start_service_threads(settings.eager_sysmon);
}

/// The initial number of Ps.
fn first_procs(choices: &Choices, settings: &Settings) -> usize {
    let chosen = choices.max_procs.or(settings.max_procs);
    if chosen.is_some() || !settings.debug.updatemaxprocs {
        gomaxprocs::choose();
    }
    chosen.unwrap_or_else(|| {
        let mut limits = cpus::read();
        if !settings.debug.containermaxprocs {
            limits.quota = None;
        }
        cpus::default_procs(&limits)
    })
}

fn start_service_threads(eager_sysmon: bool) {
    let mut quota = QuotaFollower::new();
    let housekeeper = move || housekeeper::run(move || quota.look());
    if let Err(error) = thread::start("gort-housekeep", SERVICE_STACK, housekeeper) {
        throw("boot", format_args!("could not start the runtime's first thread: {error}"));
    }
    if let Err(error) = thread::start("gort-start", SERVICE_STACK, starter::run) {
        throw("boot", format_args!("could not start the runtime's second thread: {error}"));
    }
    if let Err(error) = thread::start("gort-sysmon", SERVICE_STACK, move || sysmon::run(eager_sysmon)) {
        throw("boot", format_args!("could not start the runtime's third thread: {error}"));
    }
}
