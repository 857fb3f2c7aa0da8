//! epoll and eventfd, as raw system calls: they run on g0, which must not touch errno.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::syscall::{returned, syscall6};

/// One readiness event, as the kernel writes it.
pub(crate) use libc::epoll_event as Event;

/// The events of a registration: both directions, the peer's half-close and urgent data, all edge-triggered.
const INTEREST: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET;
/// Events after which a read may succeed or report a failure.
const READABLE: i32 = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
/// Events that tell of more than data; see [`is_special`].
const SPECIAL: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLPRI;
/// Events after which a write may succeed or report a failure.
const WRITABLE: i32 = libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR;

/// Set once `epoll_pwait2` has failed: the kernel is older than 5.11, or a sandbox forbids the call.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

/// An empty event, to fill an argument that the kernel ignores.
const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// Whether the event tells that a read, and that a write, may now succeed or fail without blocking.
pub(crate) fn directions(event: &Event) -> (bool, bool) {
    let events = event.events as i32;
    (events & READABLE != 0, events & WRITABLE != 0)
}

/// Whether the event tells of more than data: the end of the stream, an error, or urgent data.
pub(crate) fn is_special(event: &Event) -> bool {
    event.events as i32 & SPECIAL != 0
}

/// Creates an epoll instance.
pub(crate) fn create() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed, and nobody else owns the descriptor that the call returns.
    unsafe {
        let fd = returned(syscall6(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Creates a non-blocking eventfd with a count of 0.
pub(crate) fn create_eventfd() -> io::Result<OwnedFd> {
    let flags = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as usize;
    // SAFETY: as in `create`.
    unsafe {
        let fd = returned(syscall6(libc::SYS_eventfd2, 0, flags, 0, 0, 0, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Adds 1 to the eventfd's count, which wakes the thread that polls it.
pub(crate) fn signal_eventfd(fd: i32) {
    let one = 1u64;
    // SAFETY: `one` has eight readable bytes. (The count cannot overflow: that would take 2^64 writes.)
    unsafe { syscall6(libc::SYS_write, fd as usize, &raw const one as usize, 8, 0, 0, 0) };
}

/// Registers `fd` for both directions; its events carry `data`.
pub(crate) fn add(epoll: i32, fd: BorrowedFd<'_>, data: u64) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, &mut Event { events: INTEREST as u32, u64: data })
}

/// The events of a registration for reading, for writing, or for both, edge-triggered.
#[cfg(feature = "transparent")]
fn interest((read, write): (bool, bool)) -> u32 {
    let read = if read { libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI } else { 0 };
    let write = if write { libc::EPOLLOUT } else { 0 };
    (libc::EPOLLET | read | write) as u32
}

/// Registers `fd` for reading, for writing, or for both; its events carry `data`.
#[cfg(feature = "transparent")]
pub(crate) fn add_for(epoll: i32, fd: BorrowedFd<'_>, data: u64, directions: (bool, bool)) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, &mut Event { events: interest(directions), u64: data })
}

/// Changes what a registered `fd` is registered for. If it is ready for that now, there is an event. The
/// error ENOENT means that it is not registered, or that its number is of another open file now.
#[cfg(feature = "transparent")]
pub(crate) fn modify(epoll: i32, fd: BorrowedFd<'_>, data: u64, directions: (bool, bool)) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_MOD, fd, &mut Event { events: interest(directions), u64: data })
}

/// Undoes [`add`].
pub(crate) fn remove(epoll: i32, fd: BorrowedFd<'_>) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_DEL, fd, &mut { NO_EVENT })
}

fn control(epoll: i32, operation: i32, fd: BorrowedFd<'_>, event: &mut Event) -> io::Result<()> {
    let (epoll, operation, fd) = (epoll as usize, operation as usize, fd.as_raw_fd() as usize);
    // SAFETY: the kernel reads exactly one event.
    let result =
        unsafe { syscall6(libc::SYS_epoll_ctl, epoll, operation, fd, &raw mut *event as usize, 0, 0) };
    returned(result).map(drop)
}

/// Blocks the thread until an event comes or the timeout is over; without a timeout it may wait forever.
/// Returns no events if a signal interrupts the wait.
pub(crate) fn wait(epoll: i32, events: &mut [MaybeUninit<Event>], timeout_nanos: Option<u64>) -> &[Event] {
    let result = match timeout_nanos {
        Some(nanos) if nanos != 0 && !NO_PWAIT2.load(Ordering::Relaxed) => {
            let spec = libc::timespec {
                tv_sec: (nanos / 1_000_000_000) as i64,
                tv_nsec: (nanos % 1_000_000_000) as i64,
            };
            let result = wait_call(libc::SYS_epoll_pwait2, epoll, events, &raw const spec as usize);
            if result == -(libc::ENOSYS as isize) || result == -(libc::EPERM as isize) {
                // EPERM comes from a sandbox that does not know the call.
                NO_PWAIT2.store(true, Ordering::Relaxed);
            }
            result
        }
        // Rounded up: a timer must not fire early.
        Some(nanos) => {
            let millis = nanos.div_ceil(1_000_000).min(i32::MAX as u64);
            wait_call(libc::SYS_epoll_pwait, epoll, events, millis as usize)
        }
        None => wait_call(libc::SYS_epoll_pwait, epoll, events, -1i32 as usize),
    };
    // SAFETY: the kernel has initialised the first `result` events.
    unsafe { &*(&raw const events[..result.max(0) as usize] as *const [Event]) }
}

fn wait_call(number: libc::c_long, epoll: i32, events: &mut [MaybeUninit<Event>], timeout: usize) -> isize {
    // SAFETY: the kernel writes at most `events.len()` events and reads the timeout; the signal mask is null.
    unsafe { syscall6(number, epoll as usize, events.as_mut_ptr() as usize, events.len(), timeout, 0, 0) }
}
