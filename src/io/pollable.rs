//! [`Pollable`]: goroutines wait for any pollable descriptor without blocking a thread.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

use super::core::{Found, Io};
use crate::netpoll::Direction;
use crate::sys::fd;

/// Makes any descriptor usable without blocking a thread: a pipe, an eventfd, a signalfd, a terminal, a
/// child's stdio, a device.
///
/// While the descriptor is in a `Pollable`, it is set to O_NONBLOCK, and so are its duplicates, including
/// those in other processes. So if two `Pollable`s share an open file, drop them in reverse order of
/// creation. A descriptor that is O_NONBLOCK already stays so, and goroutines wait for it just the same.
///
/// Two kinds are treated differently. A terminal keeps its mode, because standard output is often a duplicate
/// of standard input; `Pollable` checks before each call whether the terminal is ready. A descriptor that
/// epoll cannot wait for (a regular file, a directory) is used inside [`gort::blocking`](crate::blocking).
///
/// ```
/// use std::io::{Read, Write};
/// gort::run(|| {
///     let (reader, writer) = std::io::pipe()?;
///     let (mut reader, mut writer) = (gort::io::Pollable::new(reader), gort::io::Pollable::new(writer));
///     let sender = gort::spawn(move || writer.write_all(b"through a pipe"));
///     let mut text = String::new();
///     reader.read_to_string(&mut text)?; // the goroutine waits, its thread does not
///     sender.join().unwrap()?;
///     assert_eq!(text, "through a pipe");
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct Pollable<T: AsFd> {
    io: Io<T>,
    terminal: bool,
}

impl<T: AsFd> Pollable<T> {
    /// Takes over a descriptor. One that cannot be polled works too, with blocking calls.
    pub fn new(inner: T) -> Pollable<T> {
        let terminal = inner.as_fd().is_terminal();
        Pollable { io: Io::new(inner, Found::Lent { as_it_is: terminal }), terminal }
    }

    /// Whether a goroutine that waits for this descriptor leaves its thread free. False for regular files.
    pub fn is_polled(&self) -> bool {
        self.io.is_polled()
    }

    /// The inner value. Do not read or write through it: that may fail with `WouldBlock`.
    pub fn get_ref(&self) -> &T {
        self.io.inner()
    }

    /// Returns the inner value, with the descriptor in its original mode.
    pub fn into_inner(self) -> T {
        self.io.into_inner()
    }

    /// Calls `attempt`, which reads, until it does not return [`WouldBlock`](ErrorKind::WouldBlock). Waits
    /// for readiness before each repetition.
    pub fn read_with<R>(&self, mut attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.io.run(Direction::Read, |inner| {
            self.ask(inner, Direction::Read)?;
            attempt(inner)
        })
    }

    /// Like [`read_with`](Pollable::read_with), for writing.
    pub fn write_with<R>(&self, mut attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.io.run(Direction::Write, |inner| {
            self.ask(inner, Direction::Write)?;
            attempt(inner)
        })
    }

    /// Sets the moment after which reads fail with [`TimedOut`](ErrorKind::TimedOut), including reads that
    /// are already waiting.
    pub fn set_read_deadline(&self, deadline: Option<Instant>) {
        self.io.set_deadline(Direction::Read, deadline);
    }

    /// Like [`set_read_deadline`](Pollable::set_read_deadline), for writes.
    pub fn set_write_deadline(&self, deadline: Option<Instant>) {
        self.io.set_deadline(Direction::Write, deadline);
    }

    /// Makes every current and later wait fail with [`ConnectionAborted`](ErrorKind::ConnectionAborted). The
    /// descriptor itself is closed when this value is dropped.
    pub fn close(&self) {
        self.io.close();
    }

    fn ask(&self, inner: &T, direction: Direction) -> io::Result<()> {
        ask(self.terminal && self.is_polled(), inner.as_fd(), direction)
    }

    fn run_mut<R>(
        &mut self,
        direction: Direction,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let terminal = self.terminal && self.is_polled();
        self.io.run_mut(direction, |inner| {
            ask(terminal, inner.as_fd(), direction)?;
            attempt(inner)
        })
    }
}

/// Stands in for O_NONBLOCK on terminals: fails with `WouldBlock` if the terminal is not ready.
fn ask(terminal: bool, fd: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
    if terminal && !fd::is_ready(fd, direction == Direction::Write) {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok(())
}

impl<T: AsFd + Read> Read for Pollable<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.run_mut(Direction::Read, |inner| inner.read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.run_mut(Direction::Read, |inner| inner.read_vectored(bufs))
    }
}

impl<T: AsFd + Write> Write for Pollable<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.run_mut(Direction::Write, |inner| inner.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.run_mut(Direction::Write, |inner| inner.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.run_mut(Direction::Write, T::flush)
    }
}

impl<T: AsFd> Read for &Pollable<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_with(|mut inner| inner.read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|mut inner| inner.read_vectored(bufs))
    }
}

impl<T: AsFd> Write for &Pollable<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_with(|mut inner| inner.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|mut inner| inner.write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|mut inner| inner.flush())
    }
}

impl<T: AsFd> AsFd for Pollable<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Pollable<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Pollable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pollable").field(self.io.inner()).finish()
    }
}
