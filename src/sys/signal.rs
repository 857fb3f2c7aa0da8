//! Signals: installing and chaining handlers, alternate signal stacks, masks, and sending a signal to a
//! thread.
//!
//! A handler may call only what is async-signal-safe and touches no thread-local storage: the functions of
//! this file, of `restart.rs`, `futex.rs`, `clock.rs` and `syscall.rs`, atomics, and runtime locks that the
//! interrupted code cannot hold.

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::mem as memory;
use super::syscall::syscall6;
use crate::arch::SignalFrame;

/// What the kernel tells a handler about a signal.
pub(crate) use libc::siginfo_t as SigInfo;

/// The signal that preempts goroutines. Harmless by default, and hardly used.
pub(crate) const SIGURG: i32 = libc::SIGURG;
/// Quit, with a report (Ctrl-\ on a terminal).
pub(crate) const SIGQUIT: i32 = libc::SIGQUIT;
/// The two signals of an access to memory that is not there.
pub(crate) const MEMORY_FAULTS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The type of a handler installed with SA_SIGINFO.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// The handler that a signal had before gort installed its own.
pub(crate) struct Previous {
    action: AtomicUsize,
    flags: AtomicUsize,
}

impl Previous {
    pub(crate) const fn new() -> Previous {
        Previous { action: AtomicUsize::new(libc::SIG_DFL), flags: AtomicUsize::new(0) }
    }

    /// Passes a signal on to the previous handler. Returns false if there was none: the signal had its
    /// default action or was ignored.
    pub(crate) fn call(&self, signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        let action = self.action.load(Ordering::Acquire);
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            return false;
        }
        // SAFETY: `flags` decides the handler's signature, as it would for the kernel.
        unsafe {
            if self.flags.load(Ordering::Relaxed) & libc::SA_SIGINFO as usize != 0 {
                mem::transmute::<usize, Handler>(action)(signal, info, context);
            } else {
                mem::transmute::<usize, extern "C" fn(i32)>(action)(signal);
            }
        }
        true
    }
}

/// Installs `handler` for `signal`, with the flags and mask of [`our_action`]. Stores the old handler in
/// `previous`. Does nothing if `handler` is installed already.
pub(crate) fn install(signal: i32, handler: Handler, previous: &Previous) {
    remember(handler as usize);
    // SAFETY: both structures are plain data; the handler has the right type.
    unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut old);
        if old.sa_sigaction == handler as usize {
            return;
        }
        previous.flags.store(old.sa_flags as usize, Ordering::Relaxed);
        previous.action.store(old.sa_sigaction, Ordering::Release);
        let mut action = our_action(signal, handler);
        if FAULTS.contains(&signal) {
            // Keep a previous handler's SA_NODEFER: it may leave by a long jump, which unblocks nothing.
            action.sa_flags |= old.sa_flags & libc::SA_NODEFER;
        }
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// The action for `handler`: it runs on the alternate stack, and the kernel restarts interrupted calls.
///
/// The handler blocks other signals while it runs. Otherwise the frames of signals that arrive together would
/// pile up on one signal stack, and the one that std gives a thread has room for only two. Three kinds are
/// not blocked:
///
/// - faults, because the kernel ends the process without a report if a blocked fault occurs;
/// - SIGABRT, which another handler may want to see;
/// - libc's own signals, which `sigfillset` leaves out (`setuid` waits until all threads have answered one).
///
/// A fault's own handler blocks nothing, because the previous handler to which it passes the fault may jump
/// out.
fn our_action(signal: i32, handler: Handler) -> libc::sigaction {
    // SAFETY: plain data.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        if !FAULTS.contains(&signal) {
            libc::sigfillset(&mut action.sa_mask);
            for passed in FAULTS.into_iter().chain([libc::SIGABRT]) {
                libc::sigdelset(&mut action.sa_mask, passed);
            }
        }
        action
    }
}

/// The signal with which glibc makes all threads take part in `setuid`, `setgid` and the like. It is the
/// second of the two signals that glibc reserves for itself.
pub(crate) const SIGSETXID: i32 = 33;

/// Puts `handler` in front of libc's handler for one of libc's own signals. Flags, mask and restorer stay as
/// libc set them. Does nothing if libc has no handler for it.
pub(crate) fn wrap_libc_handler(signal: i32, handler: Handler, previous: &Previous) {
    /// The kernel's `struct sigaction`. The raw call is needed because libc's functions refuse these signals.
    #[repr(C)]
    #[derive(Default)]
    struct Action {
        handler: usize,
        flags: usize,
        restorer: usize,
        mask: u64,
    }
    let mut old = Action::default();
    let size = size_of::<u64>();
    // SAFETY: `Action` has the layout that the kernel reads and writes; the handler has the right type.
    unsafe {
        let asked = syscall6(libc::SYS_rt_sigaction, signal as usize, 0, &raw mut old as usize, size, 0, 0);
        let no_handler = old.handler == libc::SIG_DFL || old.handler == libc::SIG_IGN;
        if asked != 0 || no_handler || old.handler == handler as usize {
            return;
        }
        previous.flags.store(old.flags, Ordering::Relaxed);
        previous.action.store(old.handler, Ordering::Release);
        let new = Action { handler: handler as usize, ..old };
        syscall6(libc::SYS_rt_sigaction, signal as usize, &raw const new as usize, 0, size, 0, 0);
    }
}

/// Whether the signal has no handler: it has its default action (SIG_DFL) or is ignored (SIG_IGN).
pub(crate) fn has_no_handler(signal: i32) -> bool {
    matches!(action_of(signal), Some(libc::SIG_DFL | libc::SIG_IGN))
}

fn action_of(signal: i32) -> Option<usize> {
    whole_action_of(signal).map(|action| action.sa_sigaction)
}

fn whole_action_of(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: the struct is plain data, and the call fills it in.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &mut action) == 0).then_some(action)
    }
}

/// The handler that the program has installed for the signal, and its flags.
#[cfg(feature = "transparent")]
pub(crate) fn programs_handler(signal: i32) -> Option<(usize, i32)> {
    let action = whole_action_of(signal)?;
    let handler = action.sa_sigaction;
    let none = handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_ours(handler);
    (!none).then_some((handler, action.sa_flags))
}

/// The addresses of gort's own handlers; 0 marks a free place.
static OURS: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

fn is_ours(handler: usize) -> bool {
    OURS.iter().any(|place| place.load(Ordering::Relaxed) == handler)
}

fn remember(handler: usize) {
    for place in &OURS {
        let before = place.compare_exchange(0, handler, Ordering::Relaxed, Ordering::Relaxed);
        if before.is_ok() || before == Err(handler) {
            return;
        }
    }
}

/// Signals that a thread's own instructions cause. They arrive at once, and never while all threads sleep.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Whether the program has installed a handler for any signal that may arrive at any time (any but
/// [`FAULTS`]).
pub(crate) fn program_has_handlers() -> bool {
    (1..=libc::SIGRTMAX())
        .filter(|signal| !FAULTS.contains(signal))
        .filter_map(action_of)
        .any(|action| action != libc::SIG_DFL && action != libc::SIG_IGN && !is_ours(action))
}

/// Restores the default action, so that a fault that occurs again ends the process in the usual way.
pub(crate) fn reset_to_default(signal: i32) {
    // SAFETY: plain data.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// An alternate signal stack of the calling thread. Dropping it disables and unmaps it.
pub(crate) struct SignalStack {
    start: usize,
    size: usize,
}

/// What the kernel keeps for a thread about signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadSignals {
    /// Start and size of its alternate stack.
    pub(crate) stack: (usize, usize),
    /// The signals that it blocks; bit 0 is signal 1.
    pub(crate) blocked: u64,
}

impl SignalStack {
    /// What the kernel keeps for the calling thread, whose alternate stack this is.
    pub(crate) fn of_thread(&self) -> ThreadSignals {
        ThreadSignals { stack: (self.start + memory::PAGE, self.size - memory::PAGE), blocked: blocked() }
    }
}

/// Sets the calling thread's mask of blocked signals. Safe in a signal handler.
pub(crate) fn set_blocked(mask: u64) {
    let _cannot_fail = change_mask(libc::SIG_SETMASK, Some(&mask));
}

/// The calling thread's mask of blocked signals.
pub(crate) fn blocked() -> u64 {
    change_mask(libc::SIG_BLOCK, None).unwrap_or(0)
}

/// The system call behind `pthread_sigmask`: changes the mask, unless `set` is `None`. Returns what it was
/// before, or an error number.
pub(crate) fn change_mask(how: i32, set: Option<&u64>) -> Result<u64, i32> {
    let mut before = 0u64;
    let new = set.map_or(ptr::null(), ptr::from_ref) as usize;
    let (old, size) = (&raw mut before as usize, size_of::<u64>());
    // SAFETY: the kernel reads one set, if there is one, and writes the other.
    match unsafe { syscall6(libc::SYS_rt_sigprocmask, how as usize, new, old, size, 0, 0) } {
        0 => Ok(before),
        error => Err(-error as i32),
    }
}

/// The smallest usable size of a signal stack, in bytes. WebAssembly engines replace a smaller one by their
/// own, and unmap that when the goroutine that first used the engine ends, although the thread lives on. The
/// size costs little: only the pages that are touched take memory.
const ENOUGH_FOR_OTHERS: usize = 256 << 10;

/// Prepares the calling thread for the runtime: gives it an alternate signal stack that has room for any
/// register set, unblocks the preemption signal (SIGURG), and sets the timer slack to 1 ns so that timed
/// waits end on time.
pub(crate) fn prepare_thread() -> Option<SignalStack> {
    // SAFETY: getauxval only reads; prctl takes plain numbers.
    let minimum = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::getauxval(libc::AT_MINSIGSTKSZ) as usize
    };
    let size = (minimum + (48 << 10)).max(ENOUGH_FOR_OTHERS).next_multiple_of(memory::PAGE) + memory::PAGE;
    let start = memory::reserve(size).ok()?;
    // SAFETY: the mapping is new, so nobody else uses the memory; its first page becomes a guard.
    unsafe {
        let _ = memory::guard(start, memory::PAGE);
        let stack = libc::stack_t {
            ss_sp: (start + memory::PAGE) as *mut c_void,
            ss_flags: 0,
            ss_size: size - memory::PAGE,
        };
        libc::sigaltstack(&stack, ptr::null_mut());
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGURG);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
    }
    Some(SignalStack { start, size })
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: SS_DISABLE detaches the stack from the thread before the memory is unmapped.
        unsafe {
            let stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&stack, ptr::null_mut());
            memory::release(self.start, self.size);
        }
    }
}

/// The address whose access caused a fault.
///
/// # Safety
/// `info` is what the kernel passed to the handler of one of [`MEMORY_FAULTS`].
pub(crate) unsafe fn fault_address(info: *const SigInfo) -> usize {
    // SAFETY: the kernel passes a valid record; faults have an address.
    unsafe { (*info).si_addr() as usize }
}

/// The alternate stack that a signal handler runs on, if it does.
///
/// # Safety
/// `context` is what the kernel passed to a handler that has not returned.
pub(crate) unsafe fn alternate_stack(context: *const c_void) -> Option<Range<usize>> {
    // SAFETY: the caller's promise.
    let stack = unsafe { (*context.cast::<libc::ucontext_t>()).uc_stack };
    let start = stack.ss_sp as usize;
    let addresses = start..start + stack.ss_size;
    addresses.contains(&(context as usize)).then_some(addresses)
}

/// Runs `wait` inside the handler of `own` with the signal mask of the interrupted code, plus `own`. For a
/// handler that waits long: other signals are delivered meanwhile. Only for a thread with a large signal
/// stack ([`prepare_thread`]).
///
/// # Safety
/// `context` is what the kernel passed to the calling handler.
pub(crate) unsafe fn let_others_through(own: i32, context: *mut c_void, wait: impl FnOnce()) {
    // SAFETY: the caller's promise.
    let interrupted = unsafe { SignalFrame::new(context) }.blocked_signals();
    let held_back = blocked();
    set_blocked(interrupted | 1 << (own - 1));
    wait();
    set_blocked(held_back);
}

/// Sends `signal` to the thread `tid` of this process. `value` lets the handler tell gort's signals from
/// others ([`sent_value`]). Returns whether the kernel accepted it.
pub(crate) fn send(tid: u32, signal: i32, value: usize) -> bool {
    // The start of the kernel's siginfo for queued signals.
    #[repr(C)]
    struct Queued {
        signo: i32,
        errno: i32,
        code: i32,
        pad: i32,
        pid: i32,
        uid: u32,
        value: usize,
        rest: [u8; 96],
    }
    // SAFETY: getpid has no preconditions; the record has the size of the kernel's siginfo.
    unsafe {
        let pid = libc::getpid();
        let info = Queued {
            signo: signal,
            errno: 0,
            code: libc::SI_QUEUE,
            pad: 0,
            pid,
            uid: libc::getuid(),
            value,
            rest: [0; 96],
        };
        syscall6(
            libc::SYS_rt_tgsigqueueinfo,
            pid as usize,
            tid as usize,
            signal as usize,
            &raw const info as usize,
            0,
            0,
        ) == 0
    }
}

/// The value that [`send`] attached to the signal. `None` if this process did not send it.
pub(crate) fn sent_value(info: *const libc::siginfo_t) -> Option<usize> {
    // SAFETY: the kernel passes a valid record, which has pid and value for queued signals.
    unsafe {
        ((*info).si_code == libc::SI_QUEUE && (*info).si_pid() == libc::getpid())
            .then(|| (*info).si_value().sival_ptr as usize)
    }
}

/// A signal's action before [`take_over`] replaced it.
pub(crate) struct Saved(libc::sigaction);

/// Installs `handler` for `signal` until [`give_back`], with the flags and mask of [`our_action`]. Fails with
/// the kernel's error if the signal does not exist or cannot be handled.
pub(crate) fn take_over(signal: i32, handler: Handler) -> io::Result<Saved> {
    remember(handler as usize);
    // SAFETY: both structures are plain data; the handler has the right type.
    unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        match libc::sigaction(signal, &our_action(signal, handler), &mut old) {
            0 => Ok(Saved(old)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// As [`give_back`], and discards signals that were sent and have not arrived: the action before may be the
/// default one, which ends the process.
#[cfg(feature = "debug")]
pub(crate) fn give_back_without_pending(signal: i32, handler: Handler, saved: &Saved) {
    if action_of(signal) != Some(handler as usize) {
        return;
    }
    // SAFETY: plain data. To ignore a signal discards it in all threads; then `saved` holds the action
    // exactly as `take_over` read it.
    unsafe {
        let mut ignore: libc::sigaction = mem::zeroed();
        ignore.sa_sigaction = libc::SIG_IGN;
        libc::sigaction(signal, &ignore, ptr::null_mut());
        libc::sigaction(signal, &saved.0, ptr::null_mut());
    }
}

/// Whether `handler` is the signal's handler.
#[cfg(feature = "debug")]
pub(crate) fn is_handled_by(signal: i32, handler: Handler) -> bool {
    action_of(signal) == Some(handler as usize)
}

/// Undoes [`take_over`], unless the program has installed another handler since.
pub(crate) fn give_back(signal: i32, handler: Handler, saved: &Saved) {
    if action_of(signal) == Some(handler as usize) {
        // SAFETY: `saved` holds the action exactly as `take_over` read it.
        unsafe { libc::sigaction(signal, &saved.0, ptr::null_mut()) };
    }
}
