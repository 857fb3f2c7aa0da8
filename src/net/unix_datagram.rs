//! [`UnixDatagram`]: a Unix datagram socket for goroutines.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::accept;
use crate::io::core::{Found, Io, WaitMode};
use crate::netpoll::Direction;

/// A datagram socket between processes of one machine: [`std::os::unix::net::UnixDatagram`] for goroutines.
///
/// ```
/// gort::run(|| {
///     let (a, b) = gort::net::UnixDatagram::pair()?;
///     a.send(b"one")?;
///     let mut buf = [0; 8];
///     assert_eq!(b.recv(&mut buf)?, 3);
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct UnixDatagram {
    io: Io<net::UnixDatagram>,
}

impl UnixDatagram {
    /// Makes a socket at `path`, which must not exist yet.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        net::UnixDatagram::bind(path).map(UnixDatagram::blocking)
    }

    /// Like [`bind`](UnixDatagram::bind), at an address that may be abstract.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        net::UnixDatagram::bind_addr(address).map(UnixDatagram::blocking)
    }

    /// Makes a socket without an address.
    pub fn unbound() -> io::Result<UnixDatagram> {
        net::UnixDatagram::unbound().map(UnixDatagram::blocking)
    }

    /// Makes two sockets that are connected to each other.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (a, b) = net::UnixDatagram::pair()?;
        Ok((UnixDatagram::blocking(a), UnixDatagram::blocking(b)))
    }

    fn blocking(socket: net::UnixDatagram) -> UnixDatagram {
        UnixDatagram { io: Io::new(socket, Found::Blocking) }
    }

    /// Sets the address to send to and to receive from.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.io.inner().connect(path)
    }

    /// Waits for a datagram. The part that does not fit into `buf` is lost.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.run(Direction::Read, |inner| inner.recv_from(buf))
    }

    /// Like [`recv_from`](UnixDatagram::recv_from), without the address.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.run(Direction::Read, |inner| inner.recv(buf))
    }

    /// Like [`recv`](UnixDatagram::recv), but leaves the datagram in the socket.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buf).map(|(length, _)| length)
    }

    /// Like [`recv_from`](UnixDatagram::recv_from), but leaves the datagram in the socket.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        // SAFETY: the slice covers the same bytes, and the call below writes only initialised ones into them.
        let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
        let (length, from) = self.io.run(Direction::Read, |inner| SockRef::from(inner).peek_from(buf))?;
        Ok((length, accept::unix_address(&from)?))
    }

    /// Sends a datagram to the socket at `path`, and waits while its queue is full.
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Like [`send_to`](UnixDatagram::send_to), to an address that may be abstract.
    pub fn send_to_addr(&self, buf: &[u8], address: &SocketAddr) -> io::Result<usize> {
        // The queue of a socket that this one is not connected to may be full. No edge tells when it has room
        // again.
        self.io.run_with(Direction::Write, WaitMode::NoEdges, |inner| inner.send_to_addr(buf, address))
    }

    /// Sends a datagram to the address that the socket is connected to.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.run(Direction::Write, |inner| inner.send(buf))
    }

    delegate! {
        /// Sets the address to send to and to receive from.
        fn connect_addr(&self, address: &SocketAddr) -> ();
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// The address it is connected to.
        fn peer_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both, on all clones. Calls that wait for that return.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Returns and clears the error that is pending on the socket.
        fn take_error(&self) -> Option<io::Error>;
    }
}

descriptor_traits!(UnixDatagram, net::UnixDatagram);
timeouts!(UnixDatagram, net::UnixDatagram);
