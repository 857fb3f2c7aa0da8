//! Sleeping and yielding.

use std::ffi::c_int;

use super::real::define;
use crate::sched::park::clock;
use crate::sched::park::park_ready::yield_now;
use crate::sched::park::timers::sleep_goroutine;
use crate::sched::types::g::G;
use crate::sys::clock as system_clock;

/// The longest wait (ns) until a moment of a clock that may be set: then it is read again.
pub(in crate::transparent) const SLICE: u64 = 1_000_000_000;

/// Nanoseconds of a timespec; `None` if it is not valid.
pub(in crate::transparent) fn nanos_of(time: *const libc::timespec) -> Option<u64> {
    // SAFETY: the caller of libc's function passes a valid one, or null.
    let time = unsafe { time.as_ref() }?;
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

pub(in crate::transparent) fn sleep_for(g: &'static G, nanos: u64) {
    if nanos == 0 {
        return yield_now();
    }
    sleep_goroutine(g, clock::nanos().saturating_add(nanos));
}

/// Sleeps until `clock` shows `at`. In a bubble, time that is left passes at once.
fn sleep_until(g: &'static G, clock: libc::clockid_t, at: u64) {
    while let Some(left) = at.checked_sub(system_clock::nanos_of(clock)).filter(|&left| left != 0) {
        let may_be_set = clock == libc::CLOCK_REALTIME && g.bubble.get() == 0;
        sleep_for(g, if may_be_set { left.min(SLICE) } else { left });
        if !may_be_set {
            break;
        }
    }
}

/// `clock_nanosleep`: returns an error number.
fn sleep_by_clock(
    g: &'static G,
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    let known = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME);
    match nanos_of(time) {
        Some(nanos) if known => {
            if flags & libc::TIMER_ABSTIME == 0 {
                sleep_for(g, nanos);
            } else {
                sleep_until(g, clock, nanos);
            }
            0
        }
        // SAFETY: the caller vouches for the arguments.
        _ => unsafe { (real::clock_nanosleep.get())(clock, flags, time, left) },
    }
}

define! {
    fn clock_nanosleep(
        clock: libc::clockid_t,
        flags: c_int,
        time: *const libc::timespec,
        left: *mut libc::timespec,
    ) -> c_int, |g| Ok(sleep_by_clock(g, clock, flags, time, left) as isize);

    fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int,
        |g| match sleep_by_clock(g, libc::CLOCK_MONOTONIC, 0, time, left) {
            0 => Ok(0),
            error => Err(error),
        };

    fn usleep(micros: libc::c_uint) -> c_int, |g| { sleep_for(g, u64::from(micros) * 1000); Ok(0) };

    fn sleep(amount: libc::c_uint) -> libc::c_uint,
        |g| { sleep_for(g, u64::from(amount) * 1_000_000_000); Ok(0) };

    fn sched_yield() -> c_int, |_g| { yield_now(); Ok(0) };
}
