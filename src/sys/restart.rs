//! Restarting system calls that a signal interrupted.
//!
//! SA_RESTART does not cover calls that wait with a timeout, and the code that made the call never asked
//! for a signal. So the handler makes such a call start again: it puts the call's number back into the
//! register that the kernel has overwritten with EINTR, and lets the thread repeat the instruction. The
//! arguments are still in place. The kernel does not say which call it was. There are three ways to know:
//!
//! - From experience: [`learn`] interrupts three different calls on purpose. Since glibc 2.41 all calls
//!   that wait pass one of two instructions, and the number is an argument: then `learn` finds the place on
//!   the stack that holds the number of each. Up to 2.40 each function has an instruction of its own, and
//!   `learn` remembers it.
//! - From the code, where the number is a constant right before the instruction, or before loads of arguments
//!   from the stack (`arch::call_before`). So it is in glibc up to 2.40.
//! - For `syscall(2)`, by a definition of our own that keeps the number (`arch/x86_64/libc_syscall.rs`).
//!
//! Elsewhere, as in other code that computes the number, the call fails with EINTR, as in any program with
//! signal handlers.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};

use super::signal::SIGURG;
use super::thread;
use crate::arch::{self, SignalFrame};

/// A system call instruction of which it is known where the call's number is.
struct Site {
    /// The address behind the instruction; 0 if there is none.
    end: AtomicUsize,
    /// Where the number is, in bytes from the stack pointer; 0 if all calls here have the same.
    offset: AtomicIsize,
    /// That number.
    number: AtomicUsize,
}

/// Two times three that [`learn`] finds, and the one of `syscall`.
const MOST_SITES: usize = 7;

static SITES: [Site; MOST_SITES] =
    [const { Site { end: AtomicUsize::new(0), offset: AtomicIsize::new(0), number: AtomicUsize::new(0) } };
        MOST_SITES];

impl Site {
    fn find(end: usize) -> Option<&'static Site> {
        // Acquire pairs with the release in `set`.
        SITES.iter().find(|site| site.end.load(Ordering::Acquire) == end)
    }

    /// Adds a site, unless it is there already.
    fn set(end: usize, offset: isize, number: usize) {
        if Site::find(end).is_none()
            && let Some(free) = Site::find(0)
        {
            free.offset.store(offset, Ordering::Relaxed);
            free.number.store(number, Ordering::Relaxed);
            // Release: whoever finds the site sees the rest of it.
            free.end.store(end, Ordering::Release);
        }
    }

    /// The number of the call that ended here with that stack pointer.
    fn number(&self, sp: usize) -> libc::c_long {
        match self.offset.load(Ordering::Relaxed) {
            0 => self.number.load(Ordering::Relaxed) as libc::c_long,
            // SAFETY: the interrupted code has its stack, or its red zone, there.
            offset => unsafe { *(sp.wrapping_add_signed(offset) as *const libc::c_long) },
        }
    }
}

/// The number of the call that ended at `frame`, if it can be known.
fn interrupted_call(frame: SignalFrame) -> Option<libc::c_long> {
    match Site::find(frame.pc()) {
        Some(site) => Some(site.number(frame.sp())),
        // SAFETY: the thread has just executed the code before this address.
        None => unsafe { arch::call_before(frame.pc()) },
    }
}

/// Called in a handler: if the signal made a system call fail with EINTR, makes the call start again when the
/// handler returns.
///
/// A restarted call may also start its timeout anew, so frequent signals could keep it waiting forever. With
/// `even_timed` false, only calls that keep their timeout are restarted (`keeps_its_time`); the others fail
/// with EINTR, as in any program that handles signals.
///
/// # Safety
/// `context` is what the kernel passed to the calling handler.
pub(crate) unsafe fn restart_call(context: *mut c_void, even_timed: bool) {
    // SAFETY: the caller's promise.
    let frame = unsafe { SignalFrame::new(context) };
    if !frame.failed_with_eintr() {
        return;
    }
    if PROBE.thread.load(Ordering::Relaxed) == thread::tid() {
        return PROBE.record(frame);
    }
    if let Some(number) = interrupted_call(frame)
        && RESTARTABLE.contains(&number)
        && (even_timed || keeps_its_time(number, frame.call_arguments()))
    {
        frame.restart_call(number);
    }
}

/// Calls that only wait, or have had no effect yet when they fail with EINTR. Calls that wait for signals are
/// left out: a signal is supposed to end them.
const RESTARTABLE: [libc::c_long; 24] = [
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Whether the call, with these arguments, can be restarted without starting its timeout anew. That holds
/// if it has no timeout, if the timeout is an absolute time, or if the kernel has written the remaining
/// time back to the arguments. For the socket calls, `read` and `write` the answer is no: the kernel
/// restarts those without a timeout by itself, so one that fails with EINTR has a timeout (SO_RCVTIMEO).
fn keeps_its_time(number: libc::c_long, [first, second, third, fourth]: [usize; 4]) -> bool {
    match number {
        libc::SYS_poll => (third as i32) < 0,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => (fourth as i32) < 0,
        libc::SYS_epoll_pwait2 => fourth == 0,
        libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 => true,
        libc::SYS_nanosleep => second == first,
        libc::SYS_clock_nanosleep => second & libc::TIMER_ABSTIME as usize != 0 || fourth == third,
        libc::SYS_futex => fourth == 0 || second as i32 & FUTEX_COMMANDS != libc::FUTEX_WAIT,
        libc::SYS_semop | libc::SYS_msgrcv | libc::SYS_msgsnd => true,
        libc::SYS_semtimedop => fourth == 0,
        _ => false,
    }
}

/// Mask for the command in a futex operation, without its flags. Of the commands that wait, only FUTEX_WAIT
/// has a relative timeout.
const FUTEX_COMMANDS: i32 = 0x7f;

/// Whether a blocked system call survives one of gort's signals. A thread of this process waits in the call
/// `number`, which returns to `address`. It survives if the kernel or [`restart_call`] restarts it. A futex
/// wait may end at any time for any reason, so all its users check their condition again.
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
    BY_THE_KERNEL.contains(&number)
        || (RESTARTABLE.contains(&number)
            // SAFETY: a thread will continue at `address`, so there is mapped code.
            && (Site::find(address).is_some() || unsafe { arch::call_before(address) } == Some(number)))
}

/// How many words of the stack [`learn`] searches.
const WORDS: usize = 48;

/// What a handler saw of a call that [`learn`] made to be interrupted.
struct Probe {
    /// The thread that makes the calls, or 0.
    thread: AtomicU32,
    end: AtomicUsize,
    words: [AtomicUsize; WORDS],
}

static PROBE: Probe = Probe {
    thread: AtomicU32::new(0),
    end: AtomicUsize::new(0),
    words: [const { AtomicUsize::new(0) }; WORDS],
};

impl Probe {
    fn record(&self, frame: SignalFrame) {
        for (n, word) in self.words.iter().enumerate() {
            // SAFETY: the probe is a function deep in the stack of its thread.
            word.store(
                unsafe { *((frame.sp() + n * size_of::<usize>()) as *const usize) },
                Ordering::Relaxed,
            );
        }
        self.end.store(frame.pc(), Ordering::Relaxed);
    }
}

/// Finds the [`SITES`]. Called once, at start-up, when the handler that calls [`restart_call`] is installed;
/// `send` sends its signal to a thread.
pub(crate) fn learn(send: impl Fn(u32) -> bool + Sync) {
    // It also makes the linker take our definition of `syscall`.
    Site::set(arch::libc_syscall_end(), arch::LIBC_SYSCALL_NUMBER, 0);
    std::thread::scope(|scope| {
        let probe = std::thread::Builder::new().name("gort-check".into()).spawn_scoped(scope, || {
            PROBE.thread.store(thread::tid(), Ordering::Relaxed);
            // glibc takes another way for threads that cannot be cancelled.
            for state in [CANCEL_ENABLE, CANCEL_DISABLE] {
                // SAFETY: changes the state of this thread, which nobody cancels.
                unsafe { pthread_setcancelstate(state, ptr::null_mut()) };
                let _on_refusal_no_site_is_known = find_sites(&send);
            }
            PROBE.thread.store(0, Ordering::Relaxed);
        });
        drop(probe); // without the thread no site is known
    });
}

/// Interrupts three calls, and learns from where they were. `None`: the kernel sends no signal.
fn find_sites(send: &impl Fn(u32) -> bool) -> Option<()> {
    /// A function that makes one call, with this mask of blocked signals. The limit is for the case that no
    /// signal comes.
    type Call = unsafe fn(*const libc::sigset_t);
    const LIMIT: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    // SAFETY: the memory that is passed is valid, and the caller passes a mask.
    let ppoll: Call = |mask| unsafe { drop_result(libc::ppoll(ptr::null_mut(), 0, &LIMIT, mask)) };
    // SAFETY: as above.
    let pselect: Call = |mask| unsafe {
        let none = ptr::null_mut();
        drop_result(libc::pselect(0, none, none, none, &LIMIT, mask));
    };
    // SAFETY: as above.
    let epoll: Call = |mask| unsafe {
        let poller = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        drop_result(libc::epoll_pwait(poller, &raw mut event, 1, 1000, mask));
        libc::close(poller);
    };
    let calls = [(libc::SYS_ppoll, ppoll), (libc::SYS_pselect6, pselect), (libc::SYS_epoll_pwait, epoll)];
    let mut seen = [(0, 0, [0; WORDS]); 3];
    for ((number, call), seen) in calls.into_iter().zip(&mut seen) {
        PROBE.end.store(0, Ordering::Relaxed);
        // SAFETY: the signal is blocked, and pending, when the call begins, and the call lets it through.
        unsafe {
            let mut blocked: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut blocked);
            libc::sigaddset(&raw mut blocked, SIGURG);
            libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &raw mut before);
            libc::sigdelset(&raw mut before, SIGURG);
            let sent = send(thread::tid());
            if sent {
                call(&before);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
            sent.then_some(())?;
        }
        let words = std::array::from_fn(|n| PROBE.words[n].load(Ordering::Relaxed));
        let end = PROBE.end.load(Ordering::Relaxed);
        (end != 0).then_some(())?;
        *seen = (number as usize, end, words);
    }
    let [(_, end, _), ..] = seen;
    if seen.iter().all(|&(_, other, _)| other == end) {
        let has_all = |n: usize| seen.iter().all(|(number, _, words)| words[n] == *number);
        // Word 0 is left out: offset 0 stands for a constant number.
        if let Some(place) = (1..WORDS).find(|&n| has_all(n)) {
            Site::set(end, (place * size_of::<usize>()) as isize, 0);
        }
    } else {
        seen.iter().for_each(|&(number, end, _)| Site::set(end, 0, number));
    }
    Some(())
}

/// The calls of [`find_sites`] always fail.
fn drop_result(_: i32) {}

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
}

/// pthread.h.
const CANCEL_ENABLE: i32 = 0;
const CANCEL_DISABLE: i32 = 1;
