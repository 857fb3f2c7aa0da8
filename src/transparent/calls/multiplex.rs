//! Waiting for several descriptors: poll, select, epoll_wait.
//!
//! First the call is made with a timeout of 0. If nothing is ready, the goroutine waits in the netpoller. An
//! epoll instance is a descriptor that is readable when one of its own is ready: `epoll_wait` waits for that,
//! and the others make an instance for the length of the call. A call with a signal mask, and one for which
//! there is no descriptor left, is made in a marked section.

use std::ffi::c_int;

use super::real::define;
use super::sleep::{nanos_of, sleep_for};
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sched::park::clock;
use crate::sched::types::g::G;
use crate::sys::syscall::syscall6;
use crate::timer::NEVER;
use crate::transparent::descriptor::{Mode, close_quietly, wait_for};
use crate::transparent::who::caller::{Outcome, of_libc, outcome};

/// An epoll instance for one call.
struct Instance(c_int);

impl Instance {
    fn new() -> Outcome<Instance> {
        // SAFETY: no memory is passed.
        let fd = outcome(unsafe {
            syscall6(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0)
        })?;
        Ok(Instance(fd as c_int))
    }

    /// Watches `fd`. If it is watched already, then for `all`. A regular file cannot be watched, and is
    /// always ready.
    fn add(&self, fd: c_int, events: u32, all: impl FnOnce() -> u32) -> Outcome<()> {
        match self.control(libc::EPOLL_CTL_ADD, fd, events) {
            Err(libc::EEXIST) => self.control(libc::EPOLL_CTL_MOD, fd, all()),
            Err(libc::EPERM) => Ok(()),
            result => result,
        }
    }

    fn control(&self, operation: c_int, fd: c_int, events: u32) -> Outcome<()> {
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: the kernel reads one event.
        outcome(unsafe {
            let event = &raw mut event as usize;
            syscall6(libc::SYS_epoll_ctl, self.0 as usize, operation as usize, fd as usize, event, 0, 0)
        })
        .map(drop)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        close_quietly(self.0);
    }
}

/// The time (ns) at which a timeout of `timeout` ns, from now on, is over. `None`: never.
fn deadline(timeout: Option<u64>) -> u64 {
    timeout.map_or(NEVER, |nanos| clock::nanos().saturating_add(nanos))
}

fn of_millis(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|millis| millis * 1_000_000)
}

/// Waits until `attempt`, the call with a timeout of 0, returns something other than 0. `watch` adds the
/// descriptors to an instance. `whole` is the whole call, which blocks.
fn wait_for_any(
    g: &'static G,
    timeout: Option<u64>,
    mut attempt: impl FnMut() -> Outcome<isize>,
    watch: impl FnOnce(&Instance) -> Outcome<bool>,
    whole: impl FnOnce() -> Outcome<isize>,
) -> Outcome<isize> {
    let now = attempt();
    if now != Ok(0) || timeout == Some(0) {
        return now;
    }
    let deadline = deadline(timeout);
    let Ok(instance) = Instance::new() else { return blocking(whole) };
    match watch(&instance) {
        Err(_) => return blocking(whole),
        Ok(false) => match timeout {
            // Nothing to wait for but the time.
            Some(nanos) => {
                sleep_for(g, nanos);
                return attempt();
            }
            None => return blocking(whole),
        },
        Ok(true) => {}
    }
    let mut whole = Some(whole);
    let result = wait_for(instance.0, Direction::Read, deadline, |_, mode| match (mode, whole.take()) {
        // epoll calls something ready that this call does not ask for: it waits as on a thread.
        (Mode::Block, Some(whole)) => whole(),
        (_, untouched) => {
            whole = untouched;
            some_or_again(attempt())
        }
    });
    none_or(result)
}

/// Nothing is ready: then the wait goes on.
fn some_or_again(result: Outcome<isize>) -> Outcome<isize> {
    if result == Ok(0) { Err(libc::EAGAIN) } else { result }
}

/// At the end of the time, nothing is ready.
fn none_or(result: Outcome<isize>) -> Outcome<isize> {
    if result == Err(libc::EAGAIN) { Ok(0) } else { result }
}

fn millis_of(timeout: Option<u64>) -> c_int {
    timeout.map_or(-1, |nanos| nanos.div_ceil(1_000_000).min(c_int::MAX as u64) as c_int)
}

fn poll_them(
    g: &'static G,
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: Option<u64>,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = |millis: usize| unsafe {
        outcome(syscall6(libc::SYS_poll, fds as usize, count as usize, millis, 0, 0, 0))
    };
    // SAFETY: the caller vouches for an array of one.
    if let Some(only) = (count == 1).then(|| unsafe { &mut *fds })
        && only.fd >= 0
        && let Some(direction) = one_direction(only.events)
    {
        return poll_one(only, direction, timeout);
    }
    let watch = |instance: &Instance| {
        let fds: &[libc::pollfd] = match count {
            0 => &[],
            // SAFETY: the kernel has just read and written the array.
            _ => unsafe { std::slice::from_raw_parts(fds, count as usize) },
        };
        for entry in fds.iter().filter(|entry| entry.fd >= 0) {
            // A number that is there twice is watched for what both want.
            let all = || {
                let same = fds.iter().filter(|other| other.fd == entry.fd);
                same.fold(0, |all, other| all | u32::from(other.events as u16))
            };
            instance.add(entry.fd, u32::from(entry.events as u16), all)?;
        }
        Ok(fds.iter().any(|entry| entry.fd >= 0))
    };
    wait_for_any(g, timeout, || call(0), watch, || call(millis_of(timeout) as usize))
}

/// The direction that a poll for these events waits in, if it is one.
fn one_direction(events: libc::c_short) -> Option<Direction> {
    const READ: libc::c_short = libc::POLLIN | libc::POLLRDNORM | libc::POLLPRI | libc::POLLRDHUP;
    const WRITE: libc::c_short = libc::POLLOUT | libc::POLLWRNORM;
    match events {
        0 => None,
        _ if events & !READ == 0 => Some(Direction::Read),
        _ if events & !WRITE == 0 => Some(Direction::Write),
        _ => None,
    }
}

/// `poll` for one descriptor, in one direction: needs no instance.
fn poll_one(only: &mut libc::pollfd, direction: Direction, timeout: Option<u64>) -> Outcome<isize> {
    let mut call = |fd: c_int, timeout: Option<u64>| {
        let mut entry = libc::pollfd { fd, ..*only };
        let millis = millis_of(timeout) as usize;
        // SAFETY: the kernel reads and writes one entry.
        let result =
            outcome(unsafe { syscall6(libc::SYS_poll, &raw mut entry as usize, 1, millis, 0, 0, 0) });
        only.revents = entry.revents;
        result
    };
    let number = only.fd;
    let now = call(number, Some(0));
    if now != Ok(0) || timeout == Some(0) {
        return now;
    }
    none_or(wait_for(number, direction, deadline(timeout), |fd, mode| match mode {
        Mode::First | Mode::Try => some_or_again(call(fd, Some(0))),
        Mode::Block => call(fd, timeout),
    }))
}

/// The three sets of a `select`.
type Sets = [*mut libc::fd_set; 3];

fn select_from(g: &'static G, count: c_int, sets: Sets, timeout: Option<u64>) -> Outcome<isize> {
    let words = usize::try_from(count).map_err(|_| libc::EINVAL)?.div_ceil(64);
    if words > WORDS {
        // Larger sets than libc's, or a count that the kernel reduces.
        return blocking(|| select_call(count, sets, &mut timespec_or_null(timeout)));
    }
    // The kernel overwrites the sets; each attempt begins with what the caller wants. Not on the stack, of
    // which a goroutine that waits keeps as little as can be.
    let wanted = sets.map(|set| match set.is_null() {
        true => Vec::new(),
        // SAFETY: the caller vouches for sets of at least `count` bits, in whole words.
        false => unsafe { std::slice::from_raw_parts(set.cast::<u64>(), words) }.to_vec(),
    });
    let call = |timeout: Option<u64>| {
        for (set, wanted) in sets.iter().zip(&wanted).filter(|(set, _)| !set.is_null()) {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(wanted.as_ptr(), set.cast(), words) };
        }
        select_call(count, sets, &mut timespec_or_null(timeout))
    };
    let watch = |instance: &Instance| {
        let events = [libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLPRI];
        let mut any = false;
        for fd in 0..words * 64 {
            let in_set = |set: &Vec<u64>| set.get(fd / 64).is_some_and(|word| word >> (fd % 64) & 1 != 0);
            let wanted = wanted.iter().zip(events).filter(|(set, _)| in_set(set));
            let wanted = wanted.fold(0, |all, (_, event)| all | event);
            if wanted != 0 && (fd as c_int) < count {
                instance.add(fd as c_int, wanted as u32, || wanted as u32)?;
                any = true;
            }
        }
        Ok(any)
    };
    wait_for_any(g, timeout, || call(Some(0)), watch, || call(timeout))
}

/// Words of an `fd_set`.
const WORDS: usize = libc::FD_SETSIZE / 64;

/// The system call. The kernel may write the time that is left.
fn select_call(count: c_int, sets: Sets, time: &mut Option<libc::timespec>) -> Outcome<isize> {
    let [read, write, special] = sets.map(|set| set as usize);
    let time = time.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the caller of libc's function vouches for the sets.
    outcome(unsafe { syscall6(libc::SYS_pselect6, count as usize, read, write, special, time as usize, 0) })
}

/// A timeout in nanoseconds; `None` is forever.
fn timespec_or_null(timeout: Option<u64>) -> Option<libc::timespec> {
    timeout.map(|nanos| libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as i64,
    })
}

/// `select` writes the time that is left, as Linux does; here always at the end of the call.
fn select_by_timeval(g: &'static G, count: c_int, sets: Sets, time: *mut libc::timeval) -> Outcome<isize> {
    // SAFETY: the caller vouches for it, or it is null.
    let Some(time) = (unsafe { time.as_mut() }) else { return select_from(g, count, sets, None) };
    let (Ok(seconds), Ok(micros)) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)) else {
        return Err(libc::EINVAL);
    };
    let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000));
    let end = clock::nanos().saturating_add(nanos);
    let result = select_from(g, count, sets, Some(nanos));
    let left = end.saturating_sub(clock::nanos()) / 1000;
    (time.tv_sec, time.tv_usec) = ((left / 1_000_000) as i64, (left % 1_000_000) as i64);
    result
}

fn wait_for_events(
    instance: c_int,
    (events, most): (*mut libc::epoll_event, c_int),
    timeout: Option<u64>,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = |instance: c_int, timeout: Option<u64>| unsafe {
        let (instance, events, most) = (instance as usize, events as usize, most as usize);
        let millis = millis_of(timeout) as usize;
        outcome(syscall6(libc::SYS_epoll_pwait, instance, events, most, millis, 0, 8))
    };
    let now = call(instance, Some(0));
    if now != Ok(0) || timeout == Some(0) {
        return now;
    }
    none_or(wait_for(instance, Direction::Read, deadline(timeout), |instance, mode| match mode {
        Mode::First | Mode::Try => some_or_again(call(instance, Some(0))),
        Mode::Block => call(instance, timeout),
    }))
}

/// A timeout as a timespec: `Ok(None)` is forever.
fn timeout_of(time: *const libc::timespec) -> Outcome<Option<u64>> {
    if time.is_null() {
        return Ok(None);
    }
    nanos_of(time).map(Some).ok_or(libc::EINVAL)
}

define! {
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int,
        |g| poll_them(g, fds, count, of_millis(timeout));
    fn ppoll(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        time: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int, |g| if mask.is_null() {
        timeout_of(time).and_then(|timeout| poll_them(g, fds, count, timeout))
    } else {
        // SAFETY: the caller vouches for the arguments.
        blocking(|| of_libc(unsafe { (real::ppoll.get())(fds, count, time, mask) } as isize))
    };
    // What C code calls that was compiled with _FORTIFY_SOURCE. An array that is too small is libc's affair.
    fn __poll_chk(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int, size: usize) -> c_int,
        |g| if size / size_of::<libc::pollfd>() < count as usize {
            // SAFETY: the caller vouches for the arguments.
            of_libc(unsafe { (real::__poll_chk.get())(fds, count, timeout, size) } as isize)
        } else {
            poll_them(g, fds, count, of_millis(timeout))
        };
    fn __ppoll_chk(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        time: *const libc::timespec,
        mask: *const libc::sigset_t,
        size: usize,
    ) -> c_int, |g| if mask.is_null() && size / size_of::<libc::pollfd>() >= count as usize {
        timeout_of(time).and_then(|timeout| poll_them(g, fds, count, timeout))
    } else {
        // SAFETY: the caller vouches for the arguments.
        blocking(|| of_libc(unsafe { (real::__ppoll_chk.get())(fds, count, time, mask, size) } as isize))
    };
    fn select(
        count: c_int,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        special: *mut libc::fd_set,
        time: *mut libc::timeval,
    ) -> c_int, |g| select_by_timeval(g, count, [read, write, special], time);
    fn pselect(
        count: c_int,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        special: *mut libc::fd_set,
        time: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int, |g| {
        if mask.is_null() {
            timeout_of(time).and_then(|timeout| select_from(g, count, [read, write, special], timeout))
        } else {
            blocking(|| {
                // SAFETY: the caller vouches for the arguments.
                of_libc(unsafe { (real::pselect.get())(count, read, write, special, time, mask) } as isize)
            })
        }
    };
    fn epoll_wait(instance: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int) -> c_int,
        |_g| wait_for_events(instance, (events, most), of_millis(timeout));
    fn epoll_pwait(
        instance: c_int,
        events: *mut libc::epoll_event,
        most: c_int,
        timeout: c_int,
        mask: *const libc::sigset_t,
    ) -> c_int, |_g| {
        if mask.is_null() {
            wait_for_events(instance, (events, most), of_millis(timeout))
        } else {
            blocking(|| {
                // SAFETY: the caller vouches for the arguments.
                of_libc(unsafe { (real::epoll_pwait.get())(instance, events, most, timeout, mask) } as isize)
            })
        }
    };
}
