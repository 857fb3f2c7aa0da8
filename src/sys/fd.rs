//! File descriptors: the O_NONBLOCK flag, readiness, reading, receiving and sending.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use super::syscall::{returned, syscall6};

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether O_NONBLOCK is set.
pub(crate) fn is_nonblocking(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: no memory is passed.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    Ok(flags & libc::O_NONBLOCK != 0)
}

/// Sets or clears O_NONBLOCK. The flag belongs to the open file, so all duplicates of the descriptor see it.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut value = libc::c_int::from(nonblocking);
    // SAFETY: FIONBIO reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut value) }).map(drop)
}

/// As [`set_nonblocking`], with a raw system call. Returns whether it worked.
#[cfg(feature = "transparent")]
pub(crate) fn set_nonblocking_without_errno(fd: BorrowedFd<'_>, nonblocking: bool) -> bool {
    let value = libc::c_int::from(nonblocking);
    let (fd, value) = (fd.as_raw_fd() as usize, &raw const value as usize);
    // SAFETY: FIONBIO reads one int.
    unsafe { syscall6(libc::SYS_ioctl, fd, libc::FIONBIO as usize, value, 0, 0, 0) == 0 }
}

/// Whether a read (or, if `write` is set, a write) can be done right now without blocking.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, write: bool) -> bool {
    wait_until_ready(fd.as_raw_fd(), write, Duration::ZERO)
}

/// Blocks the thread until a read (or, if `write` is set, a write) would not block. Returns false if
/// `timeout` runs out first.
pub(crate) fn wait_until_ready(fd: RawFd, write: bool, timeout: Duration) -> bool {
    let events = if write { libc::POLLOUT } else { libc::POLLIN };
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    let millis = timeout.as_nanos().div_ceil(1_000_000);
    let millis = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
    // SAFETY: the count of 1 matches the single entry.
    unsafe { syscall6(libc::SYS_poll, &raw mut entry as usize, 1, millis as usize, 0, 0, 0) != 0 }
}

/// Locks the file for this process, until it closes a descriptor of the file or ends; children that it forks
/// do not have the lock. False: another process has locked it. A file system without locks counts as success.
pub(crate) fn lock_for_process(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: all zeros are a value of it: the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
    // SAFETY: F_SETLK reads a flock.
    match check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLK, &raw const lock) }) {
        Ok(_) => true,
        Err(error) => !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)),
    }
}

/// Reads from any kind of descriptor, with one system call.
pub(crate) fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let (fd, address) = (fd.as_raw_fd() as usize, buf.as_mut_ptr() as usize);
    // SAFETY: the buffer is writable for its length.
    returned(unsafe { syscall6(libc::SYS_read, fd, address, buf.len(), 0, 0, 0) })
}

/// Receives from a socket.
///
/// `recv`, `recv_uninit` and `send` make raw system calls. libc's versions are cancellation points: they
/// update the thread's cancellation state twice, in thread-local storage, which is cold for a goroutine that
/// has just waited. (`recvfrom` also avoids the file-system layer that `read` goes through.)
#[inline]
pub(crate) fn recv(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: initialised bytes stay initialised.
    let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    recv_uninit(fd, buf)
}

/// Like [`recv`], into memory that may be uninitialised. The first `n` bytes are initialised if it returns
/// `Ok(n)`.
#[inline]
pub(crate) fn recv_uninit(fd: BorrowedFd<'_>, buf: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (fd, address) = (fd.as_raw_fd() as usize, buf.as_mut_ptr() as usize);
    // SAFETY: the buffer is writable for its length.
    returned(unsafe { syscall6(libc::SYS_recvfrom, fd, address, buf.len(), 0, 0, 0) })
}

/// How many bytes of those sent to a TCP socket the other side has not acknowledged yet; 0 if unknown.
#[cfg(feature = "http")]
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes one int.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } == 0;
    if done { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Sends to a connected socket. A broken connection gives an error (EPIPE), not SIGPIPE.
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    let (fd, address) = (fd.as_raw_fd() as usize, buf.as_ptr() as usize);
    // SAFETY: the buffer is readable for its length.
    returned(unsafe { syscall6(libc::SYS_sendto, fd, address, buf.len(), libc::MSG_NOSIGNAL as usize, 0, 0) })
}
