//! Timers on the CPU clock of one thread: each time that the thread has used as much CPU time as the period
//! says, the kernel sends it a signal. A thread that sleeps gets none.

use std::{io, ptr};

use super::signal::SigInfo;
use super::thread;

/// The signal of the timers: the one that profilers use by convention, Go's among them. Its default action
/// ends the process.
pub(crate) const SIGPROF: i32 = libc::SIGPROF;

/// A timer. Dropping it deletes it; a signal that it has sent may still arrive.
pub(crate) struct CpuTimer(libc::timer_t);

// SAFETY: a timer belongs to the process; any thread may delete it.
unsafe impl Send for CpuTimer {}

impl CpuTimer {
    /// A timer on the CPU clock of the thread `tid` of this process. It fires when the clock shows `first`
    /// (ns), or at once if it is later than that, and then every `period` (ns).
    pub(crate) fn new(tid: u32, value: usize, first: u64, period: u64) -> io::Result<CpuTimer> {
        let time = |nanos: u64| libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the event is plain data and complete; the kernel writes the timer's id, and reads the
        // times.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = SIGPROF;
            event.sigev_value = libc::sigval { sival_ptr: ptr::without_provenance_mut(value) };
            event.sigev_notify_thread_id = tid as i32;
            let mut timer: libc::timer_t = ptr::null_mut();
            if libc::timer_create(thread::cpu_clock(tid), &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let timer = CpuTimer(timer);
            // The time 0 would disarm it.
            let times = libc::itimerspec { it_value: time(first.max(1)), it_interval: time(period) };
            match libc::timer_settime(timer.0, libc::TIMER_ABSTIME, &times, ptr::null_mut()) {
                0 => Ok(timer),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for CpuTimer {
    fn drop(&mut self) {
        // SAFETY: this value owns the timer.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// In a handler: how many periods ended since the last signal of the timer that sent this one. `None`: no
/// timer with that value did.
///
/// # Safety
/// `info` is what the kernel passed to the handler.
pub(crate) unsafe fn periods(info: *const SigInfo, value: usize) -> Option<u32> {
    /// What `siginfo_t` begins with for timers.
    #[repr(C)]
    struct OfTimer {
        signo: i32,
        errno: i32,
        code: i32,
        pad: i32,
        timer: i32,
        overrun: i32,
        value: usize,
    }
    // SAFETY: the kernel passes a valid record, which is larger than this.
    let info = unsafe { &*info.cast::<OfTimer>() };
    let ours = info.code == libc::SI_TIMER && info.value == value;
    ours.then(|| u32::try_from(info.overrun).unwrap_or(0).saturating_add(1))
}
