//! Starting the one runtime of the process, on first use.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::steward::Trace;
use super::{deadlock, detach, near, overflow, preempt, procs, quit, section, setxid, steward, sysmon};
use crate::runtime::OnDeadlock;
use crate::sys::{cpus, env, mem, stderr, thread};
use crate::{stack, tls};

static STARTED: AtomicBool = AtomicBool::new(false);
/// The runtime ran in the process from which this one was forked, and its threads are not here.
static FORKED: AtomicBool = AtomicBool::new(false);
static BOOT: OnceLock<Result<(), String>> = OnceLock::new();

/// Starts the runtime unless it runs.
#[inline]
pub(crate) fn ensure() {
    // Acquire pairs with the store in `boot`.
    if !STARTED.load(Ordering::Acquire) {
        start();
    }
}

/// What the program wants; where it says nothing, the environment does, or the defaults hold.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) max_procs: Option<usize>,
    pub(crate) max_threads: Option<usize>,
    pub(crate) max_preempted: Option<usize>,
    pub(crate) preempt_by_signal: Option<bool>,
    pub(crate) on_deadlock: Option<OnDeadlock>,
    pub(crate) sigquit: Option<bool>,
}

/// Whether this process was forked from one in which the runtime ran.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[cold]
fn start() {
    start_with(Choices::default());
}

/// Starts the runtime. False: it runs already, and nothing was done.
pub(crate) fn start_with(choices: Choices) -> bool {
    assert!(
        !is_forked(),
        "gort: the runtime was started before this process was forked, and its threads are missing here: call exec, or \
         start the runtime after the fork"
    );
    let mut choices = Some(choices);
    BOOT.get_or_init(|| boot(choices.take().unwrap_or_default()));
    STARTED.store(true, Ordering::Release);
    choices.is_none()
}

extern "C" fn in_forked_child() {
    if STARTED.swap(false, Ordering::Relaxed) {
        FORKED.store(true, Ordering::Relaxed);
    }
}

fn boot(choices: Choices) -> Result<(), String> {
    let current = section::current_offset();
    let private_tls = tls::self_check(current);
    if private_tls.is_ok() {
        section::init(current);
    }
    stack::size::init();
    crate::goroutine::panic::install_hook();
    let settings = env::read();
    for warning in &settings.warnings {
        stderr::write(&format!("{warning}\n"));
    }
    if std::env::var_os("GORT_GUARD").is_some_and(|value| value == "mprotect") {
        mem::guard_by_mprotect();
    }
    // SAFETY: the function only writes two flags.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    overflow::init();
    setxid::init();
    detach::init();
    let max_procs = choices.max_procs.or(settings.max_procs);
    let by_signal = choices.preempt_by_signal.unwrap_or(true) && !settings.debug.asyncpreemptoff;
    preempt::init(by_signal, choices.max_preempted);
    if choices.sigquit.unwrap_or(true) && settings.debug.sigquit {
        quit::init();
    }
    deadlock::init(match choices.on_deadlock {
        _ if !settings.debug.deadlock => OnDeadlock::Ignore,
        action => action.unwrap_or_default(),
    });
    steward::limit_threads(choices.max_threads);
    if max_procs.is_some() || !settings.debug.updatemaxprocs {
        procs::choose();
    }
    let container_limit = || {
        let mut limits = cpus::read();
        if !settings.debug.containermaxprocs {
            limits.quota = None;
        }
        cpus::default_procs(&limits)
    };
    near::init();
    procs::start(max_procs.unwrap_or_else(container_limit));
    let trace = settings.debug.schedtrace.map(|every| Trace::new(every, settings.debug.scheddetail));
    // Out of descriptors, say: then each registration tries again and reports why.
    let _later = crate::netpoll::init();
    if let Err(error) = thread::start("gort-steward", 128 << 10, move || steward::run(trace)) {
        super::throw("boot", format_args!("could not start the runtime's first thread: {error}"));
    }
    if let Err(error) = thread::start("gort-sysmon", 128 << 10, sysmon::run) {
        super::throw("boot", format_args!("could not start the runtime's second thread: {error}"));
    }
    private_tls
}

/// Whether goroutines can have thread-local storage of their own; the error says what is missing.
#[inline]
pub(crate) fn private_tls_available() -> io::Result<()> {
    match BOOT.get() {
        Some(Err(missing)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("goroutines cannot have private thread-local storage here: {missing}"),
        )),
        _ => Ok(()),
    }
}
