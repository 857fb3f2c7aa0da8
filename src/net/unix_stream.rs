//! [`UnixStream`]: a Unix stream socket for goroutines.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::io::core::{Found, Io};
use crate::netpoll::Direction;

/// A connection between processes of one machine: [`std::os::unix::net::UnixStream`] for goroutines.
///
/// ```
/// use std::io::{Read, Write};
/// gort::run(|| {
///     let (mut a, mut b) = gort::net::UnixStream::pair()?;
///     a.write_all(b"hi")?;
///     let mut buf = [0; 2];
///     b.read_exact(&mut buf)?;
///     assert_eq!(&buf, b"hi");
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct UnixStream {
    io: Io<net::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener at `path`. While the listener's queue is full, this blocks its thread inside
    /// [`gort::blocking`](crate::blocking), because the kernel does not tell a poller when there is room.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        crate::blocking(|| net::UnixStream::connect(path)).map(UnixStream::blocking)
    }

    /// Like [`connect`](UnixStream::connect), to an address that may be abstract.
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        crate::blocking(|| net::UnixStream::connect_addr(address)).map(UnixStream::blocking)
    }

    /// Makes two streams that are connected to each other.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (a, b) = net::UnixStream::pair()?;
        Ok((UnixStream::blocking(a), UnixStream::blocking(b)))
    }

    fn blocking(socket: net::UnixStream) -> UnixStream {
        UnixStream { io: Io::new(socket, Found::Blocking) }
    }

    /// A stream around a new non-blocking socket.
    pub(super) fn fresh(socket: OwnedFd) -> UnixStream {
        UnixStream { io: Io::new(socket.into(), Found::Nonblocking) }
    }

    /// Like `read`, but leaves the bytes in the socket.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the slice covers the same bytes, and the call below writes only initialised ones into them.
        let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
        self.io.run(Direction::Read, |inner| SockRef::from(inner).peek(buf))
    }

    delegate! {
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// The address of the other side.
        fn peer_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both, on all clones. Calls that wait for that return.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Returns and clears the error that is pending on the socket.
        fn take_error(&self) -> Option<io::Error>;
    }
}

descriptor_traits!(UnixStream, net::UnixStream);
timeouts!(UnixStream, net::UnixStream);
stream_traits!(UnixStream, read_some);

#[cfg(feature = "hyper")]
impl UnixStream {
    /// The descriptor, for `hyper`.
    pub(crate) fn io(&self) -> &Io<net::UnixStream> {
        &self.io
    }
}
