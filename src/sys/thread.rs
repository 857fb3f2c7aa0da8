//! OS threads: their ids, CPU times and states, how the kernel schedules them, and starting one.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::syscall::syscall6;
use super::{cgroup, mem};

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> u32 {
    // SAFETY: no preconditions.
    (unsafe { syscall6(libc::SYS_gettid, 0, 0, 0, 0, 0, 0) }) as u32
}

/// The CPU on which the calling thread runs. On a thread's own TLS this takes a few nanoseconds, because the
/// kernel keeps the number there (rseq). A goroutine's TLS block is not registered with the kernel for this
/// (`tls/block.rs`), so glibc makes a system call there.
pub(crate) fn cpu() -> usize {
    // SAFETY: no preconditions.
    (unsafe { libc::sched_getcpu() }) as usize
}

/// The clock that shows the CPU time that the thread `tid` of this process has used.
pub(crate) fn cpu_clock(tid: u32) -> libc::clockid_t {
    // The low bits of the kernel's clock id for the CPU time of one thread (per thread, scheduler clock).
    const PER_THREAD_SCHED: u32 = 4 | 2;
    ((!tid << 3) | PER_THREAD_SCHED) as libc::clockid_t
}

/// Nanoseconds of CPU time that the thread `tid` of this process has used.
pub(crate) fn cpu_nanos(tid: u32) -> Option<u64> {
    let clock = cpu_clock(tid);
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the timespec.
    let result =
        unsafe { syscall6(libc::SYS_clock_gettime, clock as usize, &raw mut time as usize, 0, 0, 0, 0) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Whether the thread `tid` of this process is asleep: it waits for something other than a CPU. `None` if
/// that cannot be read (no free descriptor, or no /proc); the caller then has to judge by the CPU clock
/// alone. Allocates nothing.
pub(crate) fn is_asleep(tid: u32) -> Option<bool> {
    let mut path = [0u8; 48];
    let mut rest = &mut path[..47];
    write!(rest, "/proc/self/task/{tid}/stat").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let mut text = [0u8; 128];
    let length = cgroup::read_into(path, &mut text).ok()?;
    // "tid (name) S ...": the name may contain anything, so find the state behind the last parenthesis.
    let text = &text[..length];
    let state = text.iter().rposition(|&b| b == b')').and_then(|end| text.get(end + 2));
    Some(matches!(state, Some(b'S' | b'D')))
}

/// The ids of all threads of this process.
pub(crate) fn all() -> Option<Vec<u32>> {
    let entries = std::fs::read_dir("/proc/self/task").ok()?;
    entries.map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether [`set_wakeup_preemption`] may be used. It may not if the user has chosen a scheduling policy for
/// the process (`chrt`). Makes the call once, without effect: if a seccomp filter kills the process for it,
/// that happens at start-up and not later under load.
pub(crate) fn can_set_wakeup_preemption() -> bool {
    // SAFETY: no preconditions.
    let ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
    ordinary && set_wakeup_preemption(true)
}

/// Sets whether the calling thread, when it wakes up, may take the CPU from a running thread (SCHED_OTHER).
/// Otherwise (SCHED_BATCH) it waits until a CPU is free or a running thread's time slice ends. Returns false
/// if the kernel refused.
pub(crate) fn set_wakeup_preemption(yes: bool) -> bool {
    let policy = if yes { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
    // SAFETY: all zeroes is a valid `sched_param`.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, policy, &raw const parameters) == 0
    }
}

/// Bytes that a thread's thread-locals take from its stack.
static THREAD_LOCALS: AtomicUsize = AtomicUsize::new(0);

/// Makes [`start`] add `bytes` to each stack, as room for the program's thread-locals. Called at start-up.
pub(crate) fn leave_room_for_thread_locals(bytes: usize) {
    THREAD_LOCALS.store(bytes, Ordering::Relaxed);
}

/// Starts a detached thread with `stack` bytes of stack in addition to its thread-locals. It carries `name`,
/// if the kernel can set it.
pub(crate) fn start(name: &str, stack: usize, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let stack = stack + THREAD_LOCALS.load(Ordering::Relaxed);
    std::thread::Builder::new().name(name.into()).stack_size(stack).spawn(main).map(drop)
}

/// Starts a detached thread with `stack` bytes of stack in addition to its thread-locals, which calls
/// `main(argument)`. Uses libc's malloc, but not the program's global allocator.
pub(crate) fn start_without_allocator(
    stack: usize,
    main: extern "C" fn(usize),
    argument: usize,
) -> io::Result<()> {
    let stack = (stack + THREAD_LOCALS.load(Ordering::Relaxed)).next_multiple_of(mem::PAGE);
    // SAFETY: a thread's function takes and returns a word; what it returns is not used. The attributes are
    // initialised, used and destroyed.
    let error = unsafe {
        let main =
            std::mem::transmute::<extern "C" fn(usize), extern "C" fn(*mut c_void) -> *mut c_void>(main);
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread = 0;
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack);
        let error = libc::pthread_create(&raw mut thread, &attributes, main, argument as *mut c_void);
        libc::pthread_attr_destroy(&raw mut attributes);
        error
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// The name of the thread `tid` of this process.
#[cfg(feature = "debug")]
pub(crate) fn name(tid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Whether a signal that was sent to the thread `tid` of this process has not arrived.
#[cfg(feature = "debug")]
pub(crate) fn has_pending(tid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status"));
    let pending = |line: &str| u64::from_str_radix(line.strip_prefix("SigPnd:")?.trim(), 16).ok();
    status
        .is_ok_and(|status| status.lines().find_map(pending).is_some_and(|set| set >> (signal - 1) & 1 != 0))
}

/// Sets the name of the calling thread, which the kernel cuts off after 15 bytes.
pub(crate) fn set_name(name: fmt::Arguments<'_>) {
    let mut text = [0u8; 16];
    let _cut_off = (&mut text[..15]).write_fmt(name);
    // SAFETY: the text ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr()) };
}

/// The address of the calling thread's list of robust mutexes, as the kernel knows it.
pub(crate) fn robust_list() -> usize {
    let (mut head, mut length) = (0usize, 0usize);
    // SAFETY: the kernel writes the two words.
    unsafe {
        syscall6(libc::SYS_get_robust_list, 0, &raw mut head as usize, &raw mut length as usize, 0, 0, 0)
    };
    head
}

/// The address of the word that the kernel sets to 0 when the calling thread ends. `None` if the kernel does
/// not tell (it was built without CONFIG_CHECKPOINT_RESTORE).
pub(crate) fn word_cleared_at_end() -> Option<usize> {
    let mut address = 0usize;
    // SAFETY: the kernel writes one word.
    let result = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut address) };
    (result == 0 && address != 0).then_some(address)
}

/// The stack of the calling thread.
pub(crate) fn own_stack() -> Option<std::ops::Range<usize>> {
    // SAFETY: the attributes are initialised by the call, read, and destroyed.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        libc::pthread_attr_getstack(&attributes, &mut start, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        Some(start as usize..start as usize + size)
    }
}
