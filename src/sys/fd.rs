//! Descriptors: flags, readiness, reading and sending.

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

/// Sets or clears O_NONBLOCK, which belongs to the open file and thus to all duplicates of the descriptor.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut value = libc::c_int::from(nonblocking);
    // SAFETY: FIONBIO reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut value) }).map(drop)
}

/// Whether a read (or a write) would not block right now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, write: bool) -> bool {
    wait_until_ready(fd.as_raw_fd(), write, Duration::ZERO)
}

/// Blocks the thread until a read (or a write) would not block. False: the time is over.
pub(crate) fn wait_until_ready(fd: RawFd, write: bool, patience: Duration) -> bool {
    let events = if write { libc::POLLOUT } else { libc::POLLIN };
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    let millis = patience.as_nanos().div_ceil(1_000_000);
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut entry, 1, millis.try_into().unwrap_or(libc::c_int::MAX)) != 0 }
}

/// Reads what is there.
pub(crate) fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let (fd, address) = (fd.as_raw_fd() as usize, buf.as_mut_ptr() as usize);
    // SAFETY: the buffer is writable for its length.
    returned(unsafe { syscall6(libc::SYS_read, fd, address, buf.len(), 0, 0, 0) })
}

/// Receives from a socket.
///
/// This and the next two by raw calls: libc's are cancellation points, so they change the thread's state twice, in
/// thread-local storage, which of a goroutine that waited is cold. (And `read` would go through the file system first.)
#[inline]
pub(crate) fn recv(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: initialised bytes stay initialised.
    let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    recv_uninit(fd, buf)
}

/// As [`recv`]: as many bytes as it says are initialised then.
#[inline]
pub(crate) fn recv_uninit(fd: BorrowedFd<'_>, buf: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (fd, address) = (fd.as_raw_fd() as usize, buf.as_mut_ptr() as usize);
    // SAFETY: the buffer is writable for its length.
    returned(unsafe { syscall6(libc::SYS_recvfrom, fd, address, buf.len(), 0, 0, 0) })
}

/// Sends to a connected socket; a broken connection is an error, not a signal.
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    let (fd, address) = (fd.as_raw_fd() as usize, buf.as_ptr() as usize);
    // SAFETY: the buffer is readable for its length.
    returned(unsafe { syscall6(libc::SYS_sendto, fd, address, buf.len(), libc::MSG_NOSIGNAL as usize, 0, 0) })
}
