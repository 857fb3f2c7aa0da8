//! Signals. A handler may call only what is async-signal-safe and touches no thread-local storage: the functions of
//! this file, of `futex.rs`, `clock.rs`, `syscall.rs`, atomics, and runtime locks that the interrupted code cannot hold.

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::mem as memory;
use super::syscall::syscall6;

/// A handler's arguments.
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// A handler that was there before ours.
pub(crate) struct Previous {
    action: AtomicUsize,
    flags: AtomicUsize,
}

impl Previous {
    pub(crate) const fn new() -> Previous {
        Previous { action: AtomicUsize::new(libc::SIG_DFL), flags: AtomicUsize::new(0) }
    }

    /// Passes a signal on. False: there was no handler, only the default or "ignore".
    pub(crate) fn call(&self, signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        let action = self.action.load(Ordering::Acquire);
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            return false;
        }
        // SAFETY: the kernel would have called it this way, by its flags.
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

/// Makes `handler` handle `signal`, as [`our_action`] says. Remembers what was there, unless that is `handler` itself.
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
            // Who jumps out of a handler does not unblock the signal, if it asked for that.
            action.sa_flags |= old.sa_flags & libc::SA_NODEFER;
        }
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// `handler` on the alternate stack, with interrupted calls restarted.
///
/// Other signals wait until it is done: those that come together would lie on top of each other, and the signal stack that
/// std gives a thread has room for two. Some do not: faults, for which the kernel would end the process without a report;
/// SIGABRT, which a handler may want to see; and those of libc itself, which `sigfillset` leaves out (`setuid` waits for
/// all threads to answer). And a fault's own handler holds nothing back: the one it passes the fault on to may jump away.
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

/// glibc's own signal for `setuid` and its kin: the second of the two that it keeps from programs.
pub(crate) const SIGSETXID: i32 = 33;

/// Puts `handler` before the one that libc has for a signal of its own, with everything else as libc has it. Nothing is
/// done if there is none.
pub(crate) fn wrap_libc_handler(signal: i32, handler: Handler, previous: &Previous) {
    /// What the kernel wants. libc's functions refuse these signals.
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
    // SAFETY: the record is what the kernel fills in and reads; the handler has the right type.
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

/// Whether the signal has its default action.
pub(crate) fn is_default(signal: i32) -> bool {
    action_of(signal) == Some(libc::SIG_DFL)
}

fn action_of(signal: i32) -> Option<usize> {
    // SAFETY: plain data, which the call fills in.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &mut action) == 0).then_some(action.sa_sigaction)
    }
}

/// Our handlers.
static OURS: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

fn remember(handler: usize) {
    for place in &OURS {
        let before = place.compare_exchange(0, handler, Ordering::Relaxed, Ordering::Relaxed);
        if before.is_ok() || before == Err(handler) {
            return;
        }
    }
}

/// Signals of the code that runs: they come at once, and not while all sleep.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Whether a signal that may come at any time has a handler that is not ours.
pub(crate) fn program_has_handlers() -> bool {
    let is_ours = |action: usize| OURS.iter().any(|place| place.load(Ordering::Relaxed) == action);
    (1..=libc::SIGRTMAX())
        .filter(|signal| !FAULTS.contains(signal))
        .filter_map(action_of)
        .any(|action| action != libc::SIG_DFL && action != libc::SIG_IGN && !is_ours(action))
}

/// Puts the default action back, so that a fault that comes again ends the process as usual.
pub(crate) fn reset_to_default(signal: i32) {
    // SAFETY: plain data.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

/// An alternate signal stack; given back when dropped.
pub(crate) struct SignalStack {
    start: usize,
    size: usize,
}

/// Engines that run WebAssembly put a signal stack of their own in place of one that is smaller than this, and unmap it when
/// the goroutine that first used them ends, while its thread goes on. Only what is touched is memory.
const ENOUGH_FOR_OTHERS: usize = 256 << 10;

/// Gives the calling thread an alternate signal stack that is large enough for any register set, unblocks the
/// preemption signal, and lets timed waits end on time.
pub(crate) fn prepare_thread() -> Option<SignalStack> {
    // SAFETY: getauxval only reads; prctl takes plain numbers.
    let minimum = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::getauxval(libc::AT_MINSIGSTKSZ) as usize
    };
    let size = (minimum + (48 << 10)).max(ENOUGH_FOR_OTHERS).next_multiple_of(memory::PAGE) + memory::PAGE;
    let start = memory::reserve(size).ok()?;
    // SAFETY: the first page becomes a guard; the memory belongs to this stack alone.
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
        // SAFETY: the thread stops using the stack before its memory goes.
        unsafe {
            let stack = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&stack, ptr::null_mut());
            memory::release(self.start, self.size);
        }
    }
}

/// In the handler of `own`, which stays in it for long: lets through meanwhile what the interrupted code lets through, but for
/// `own`. Only on a thread whose signal stack is large ([`prepare_thread`]).
///
/// # Safety
/// `context` is what the kernel passed to the handler that calls.
pub(crate) unsafe fn let_others_through(own: i32, context: *const c_void, wait: impl FnOnce()) {
    let set_mask = |mask: &u64| {
        let mut before = 0u64;
        // SAFETY: the kernel reads one set and writes the other.
        unsafe {
            syscall6(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK as usize,
                ptr::from_ref(mask) as usize,
                &raw mut before as usize,
                size_of::<u64>(),
                0,
                0,
            );
        }
        before
    };
    // SAFETY: the caller's promise; the kernel fills in the first 64 bits of the set.
    let interrupted =
        unsafe { (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read() };
    let held_back = set_mask(&(interrupted | 1 << (own - 1)));
    wait();
    set_mask(&held_back);
}

/// In a handler: if it interrupted a system call that fails with EINTR because of that (SA_RESTART does not help those that
/// wait with a timeout), lets the call begin again when the handler returns. The code that called it never asked for a
/// signal. Its timeout begins again, too, so if signals may come often, `even_timed` says no: then calls whose timeout would
/// not go on are left to fail, as with any program that handles signals.
///
/// The kernel does not say which call it was: it is read from the code, if the call was made as
/// `mov eax, number; syscall`, which is what the C library does up to glibc 2.40.
///
/// # Safety
/// `context` is what the kernel passed to the handler that calls.
pub(crate) unsafe fn restart_call(context: *mut c_void, even_timed: bool) {
    // SAFETY: the caller's promise.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let (result, address) = (registers[libc::REG_RAX as usize], registers[libc::REG_RIP as usize] as usize);
    if result != -i64::from(libc::EINTR) {
        return;
    }
    // SAFETY: it has just been executed.
    if let Some(number) = unsafe { call_before(address) }
        && RESTARTABLE.contains(&number)
        && (even_timed || keeps_its_time(number, registers))
    {
        registers[libc::REG_RAX as usize] = number;
        registers[libc::REG_RIP as usize] -= 2;
    }
}

/// Calls that only wait, or have done nothing yet when they fail with EINTR. Not those that wait for signals.
const RESTARTABLE: [libc::c_long; 15] = [
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_semtimedop,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_read,
];

/// Whether that call, with these arguments, has no timeout, or one that goes on when it is begun again: the kernel has written
/// down what is left of it, or it is a moment. (What the kernel breaks off although it could go on after a handler has
/// a timeout: sockets with SO_RCVTIMEO.)
fn keeps_its_time(number: libc::c_long, registers: &[libc::greg_t]) -> bool {
    let argument = |name: libc::c_int| registers[name as usize] as usize;
    let [first, second, third, fourth] =
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10].map(argument);
    match number {
        libc::SYS_poll => (third as i32) < 0,
        libc::SYS_epoll_wait => (fourth as i32) < 0,
        libc::SYS_select | libc::SYS_pselect6 => true,
        libc::SYS_nanosleep => second == first,
        libc::SYS_clock_nanosleep => second & libc::TIMER_ABSTIME as usize != 0 || fourth == third,
        libc::SYS_futex => fourth == 0 || second as i32 & FUTEX_COMMANDS != libc::FUTEX_WAIT,
        libc::SYS_semtimedop => fourth == 0,
        _ => false,
    }
}

/// Without the flags. Of those that wait, only FUTEX_WAIT has a time that is not a moment.
const FUTEX_COMMANDS: i32 = 0x7f;

/// The system call that the code before `address` made, if it says so: `mov eax, number; syscall`.
///
/// # Safety
/// There is code, which ends at `address`.
unsafe fn call_before(address: usize) -> Option<libc::c_long> {
    const MOV_EAX: u8 = 0xb8;
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    if address % memory::PAGE < 7 {
        return None;
    }
    // SAFETY: the bytes before the address, on the same page.
    let [opcode, a, b, c, d, rest @ ..] = unsafe { *((address - 7) as *const [u8; 7]) };
    let number = libc::c_long::from(u32::from_le_bytes([a, b, c, d]));
    (opcode == MOV_EAX && rest == SYSCALL).then_some(number)
}

/// Whether the system call `number`, in which a thread of this process waits and which ends at `address`, goes on after a
/// signal of ours: the kernel begins it again, or [`restart_call`] does. A futex may end at any time for any reason; all its
/// users look again.
pub(crate) fn is_restarted(number: libc::c_long, address: usize) -> bool {
    const BY_THE_KERNEL: [libc::c_long; 8] = [
        libc::SYS_futex,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_readv,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_flock,
        libc::SYS_openat,
    ];
    // SAFETY: a thread will go on there, so there is code.
    BY_THE_KERNEL.contains(&number)
        || (RESTARTABLE.contains(&number) && unsafe { call_before(address) } == Some(number))
}

/// Sends `signal` to the thread `tid` of this process, with a value that tells our signals from others'.
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

/// The value of a signal that [`send`] of this process sent.
pub(crate) fn sent_value(info: *const libc::siginfo_t) -> Option<usize> {
    // SAFETY: the kernel passes a valid record; pid and value are there for queued signals.
    unsafe {
        ((*info).si_code == libc::SI_QUEUE && (*info).si_pid() == libc::getpid())
            .then(|| (*info).si_value().sival_ptr as usize)
    }
}

/// An action as it was before [`take_over`].
pub(crate) struct Saved(libc::sigaction);

/// Makes `handler` handle `signal`, as [`install`], for a while. The error is the kernel's: a signal that does not exist or
/// cannot be handled.
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

/// Undoes [`take_over`], unless somebody else has taken the signal since.
pub(crate) fn give_back(signal: i32, handler: Handler, saved: &Saved) {
    if action_of(signal) == Some(handler as usize) {
        // SAFETY: the kernel's own record, unchanged.
        unsafe { libc::sigaction(signal, &saved.0, ptr::null_mut()) };
    }
}
