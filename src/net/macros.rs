//! Macros for the methods and trait implementations that the socket types share.

/// Conversions from and to descriptors and std's types, std's `Debug` output, and the methods of every
/// socket.
macro_rules! descriptor_traits {
    ($type:ident, $std:ty) => {
        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_fd().as_raw_fd()
            }
        }

        impl IntoRawFd for $type {
            fn into_raw_fd(self) -> RawFd {
                self.io.into_inner().into_raw_fd()
            }
        }

        impl FromRawFd for $type {
            unsafe fn from_raw_fd(fd: RawFd) -> $type {
                // SAFETY: passed on to the caller.
                unsafe { <$std>::from_raw_fd(fd) }.into()
            }
        }

        /// Sets the descriptor to O_NONBLOCK, and with it its duplicates. To the user, timeouts and mode stay
        /// as they were.
        impl From<$std> for $type {
            fn from(socket: $std) -> $type {
                $type::adopt(socket)
            }
        }

        /// The std socket has the mode that `set_nonblocking` chose, and the same timeouts. All clones share
        /// the mode: if it is blocking, calls on the remaining clones block their threads from then on, and
        /// deadlines and `close` no longer end such calls.
        impl From<$type> for $std {
            fn from(socket: $type) -> $std {
                socket.io.into_inner()
            }
        }

        impl From<OwnedFd> for $type {
            fn from(fd: OwnedFd) -> $type {
                <$std>::from(fd).into()
            }
        }

        impl From<$type> for OwnedFd {
            fn from(socket: $type) -> OwnedFd {
                socket.io.into_inner().into()
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.inner().fmt(f)
            }
        }

        impl $type {
            /// Makes another handle to the same socket, with its own descriptor. As with std, dropping one
            /// handle does not affect the other: calls that wait there keep waiting.
            pub fn try_clone(&self) -> io::Result<$type> {
                Ok($type { io: self.io.duplicate(self.io.inner().try_clone()?)? })
            }

            /// Sets whether calls that would have to wait fail with `WouldBlock` instead, for all clones.
            /// (The descriptor itself is O_NONBLOCK in any case, because goroutines wait in the netpoller.)
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.io.set_nonblocking(nonblocking)
            }

            /// Makes every call that waits on this handle, and every later call, fail with
            /// `ConnectionAborted`. The descriptor is closed when the handle is dropped. Clones are not
            /// affected.
            pub fn close(&self) {
                self.io.close();
            }
        }
    };
}

/// Methods that call std's method of the same name, because they never wait.
macro_rules! delegate {
    ($($(#[$meta:meta])* fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(
            $(#[$meta])*
            pub fn $name(&self $(, $argument: $type)*) -> io::Result<$result> {
                self.io.inner().$name($($argument),*)
            }
        )*
    };
}

/// Timeouts, which std has, and deadlines, which Go has.
macro_rules! timeouts {
    ($type:ident, $std:ty) => {
        impl $type {
            delegate! {
                /// The longest time that a read waits; `None` if it may wait forever.
                fn read_timeout(&self) -> Option<Duration>;
                /// The longest time that a write waits; `None` if it may wait forever.
                fn write_timeout(&self) -> Option<Duration>;
            }

            /// Sets the longest time that each later read waits, on all clones. A read whose time is over
            /// fails with `WouldBlock`, as with std on Linux. A time of zero is an error.
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.io.inner().set_read_timeout(timeout)?;
                self.io.set_timeout(Direction::Read, timeout);
                Ok(())
            }

            /// Like [`set_read_timeout`](Self::set_read_timeout), for writes.
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.io.inner().set_write_timeout(timeout)?;
                self.io.set_timeout(Direction::Write, timeout);
                Ok(())
            }

            /// Takes over a std socket with its timeouts.
            fn adopt(socket: $std) -> $type {
                let io = Io::new(socket, Found::Somehow);
                io.set_timeout(Direction::Read, io.inner().read_timeout().unwrap_or(None));
                io.set_timeout(Direction::Write, io.inner().write_timeout().unwrap_or(None));
                $type { io }
            }
        }

        impl $type {
            /// Sets the moment after which reads on this handle fail with `TimedOut`. Unlike a timeout, it
            /// also applies to reads that are already waiting.
            pub fn set_read_deadline(&self, deadline: Option<Instant>) {
                self.io.set_deadline(Direction::Read, deadline);
            }

            /// Like [`set_read_deadline`](Self::set_read_deadline), for writes.
            pub fn set_write_deadline(&self, deadline: Option<Instant>) {
                self.io.set_deadline(Direction::Write, deadline);
            }

            /// Sets both the read and the write deadline.
            pub fn set_deadline(&self, deadline: Option<Instant>) {
                self.set_read_deadline(deadline);
                self.set_write_deadline(deadline);
            }
        }
    };
}

/// `Read` and `Write`, for the type and for references to it. `$read` is the method of `Io` to read with.
macro_rules! stream_traits {
    ($type:ident, $read:ident) => {
        impl Read for &$type {
            #[inline]
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.io.$read(buf.len(), |inner| crate::sys::fd::recv(inner.as_fd(), buf))
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.io.run(Direction::Read, |mut inner| inner.read_vectored(bufs))
            }
        }

        impl Read for $type {
            #[inline]
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }

        impl Write for &$type {
            #[inline]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.io.run(Direction::Write, |inner| crate::sys::fd::send(inner.as_fd(), buf))
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.io.run(Direction::Write, |mut inner| inner.write_vectored(bufs))
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Write for $type {
            #[inline]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}
