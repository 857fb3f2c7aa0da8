//! OS threads.

use std::ffi::CStr;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cgroup;
use super::syscall::syscall6;

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> u32 {
    // SAFETY: no preconditions.
    (unsafe { syscall6(libc::SYS_gettid, 0, 0, 0, 0, 0, 0) }) as u32
}

/// The CPU that the calling thread runs on. Some nanoseconds: the kernel keeps the number in the thread's TLS. In the blocks of
/// goroutines it says that it does not (`tls/block.rs`), and then glibc asks.
pub(crate) fn cpu() -> usize {
    // SAFETY: no preconditions.
    (unsafe { libc::sched_getcpu() }) as usize
}

/// Nanoseconds of CPU time that the thread `tid` of this process has used.
pub(crate) fn cpu_nanos(tid: u32) -> Option<u64> {
    // How the kernel names the CPU clock of a thread (scheduler clock, one thread).
    const PER_THREAD_SCHED: u32 = 4 | 2;
    let clock = (!tid << 3) | PER_THREAD_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the timespec.
    let result =
        unsafe { syscall6(libc::SYS_clock_gettime, clock as usize, &raw mut time as usize, 0, 0, 0, 0) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Whether the kernel says that the thread `tid` of this process waits for something other than a CPU. `None`: it does not
/// say (there is no descriptor left to ask with, or no /proc), and the CPU clock has to be enough. Allocates nothing.
pub(crate) fn is_asleep(tid: u32) -> Option<bool> {
    let mut path = [0u8; 48];
    let mut rest = &mut path[..47];
    write!(rest, "/proc/self/task/{tid}/stat").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let mut text = [0u8; 128];
    let length = cgroup::read_into(path, &mut text).ok()?;
    // "tid (name) S ...": the name may contain anything, so look from its closing parenthesis.
    let text = &text[..length];
    let state = text.iter().rposition(|&b| b == b')').and_then(|end| text.get(end + 2));
    Some(matches!(state, Some(b'S' | b'D')))
}

/// The ids of all threads of this process.
pub(crate) fn all() -> Option<Vec<u32>> {
    let entries = std::fs::read_dir("/proc/self/task").ok()?;
    entries.map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether [`interrupt_others_when_woken`] may be used: not if the user chose how the process is scheduled (`chrt`), and
/// not with `GORT_SYSMON=eager`. The call is made once, without effect: where a filter of system calls ends the process for
/// it, that happens at the start, not under load.
pub(crate) fn may_choose_manners() -> bool {
    // SAFETY: no preconditions.
    let ordinary = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
    let eager = std::env::var_os("GORT_SYSMON").is_some_and(|value| value == "eager");
    ordinary && !eager && interrupt_others_when_woken(true)
}

/// Whether the calling thread, when it wakes up, may take the CPU from a thread that runs. Otherwise it waits until one is
/// free or somebody's time is over. False: the kernel refused.
pub(crate) fn interrupt_others_when_woken(yes: bool) -> bool {
    let policy = if yes { libc::SCHED_OTHER } else { libc::SCHED_BATCH };
    // SAFETY: a valid argument; all zeroes is one.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, policy, &raw const parameters) == 0
    }
}

/// What the thread-locals of a thread take from its stack.
static THREAD_LOCALS: AtomicUsize = AtomicUsize::new(0);

/// The program's thread-locals need so many bytes. At start-up.
pub(crate) fn leave_room_for_thread_locals(bytes: usize) {
    THREAD_LOCALS.store(bytes, Ordering::Relaxed);
}

/// Starts a thread that nobody joins, with `stack` bytes of stack beside its thread-locals and, if it goes, a name.
pub(crate) fn start(name: &str, stack: usize, main: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let stack = stack + THREAD_LOCALS.load(Ordering::Relaxed);
    std::thread::Builder::new().name(name.into()).stack_size(stack).spawn(main).map(drop)
}
