//! [`UnixDatagram`].

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
use crate::io::core::{Found, Io, Patience};
use crate::netpoll::Direction;

/// Datagrams between processes of one machine: [`std::os::unix::net::UnixDatagram`] for goroutines.
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
    /// A socket at `path`, which must not exist.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        net::UnixDatagram::bind(path).map(UnixDatagram::blocking)
    }

    /// As [`bind`](UnixDatagram::bind), at an address that may be abstract.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        net::UnixDatagram::bind_addr(address).map(UnixDatagram::blocking)
    }

    /// A socket without an address.
    pub fn unbound() -> io::Result<UnixDatagram> {
        net::UnixDatagram::unbound().map(UnixDatagram::blocking)
    }

    /// Two sockets that are connected to each other.
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

    /// Waits for a datagram. What does not fit into `buf` is lost.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.run(Direction::Read, |inner| inner.recv_from(buf))
    }

    /// As [`recv_from`](UnixDatagram::recv_from), without the address.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.run(Direction::Read, |inner| inner.recv(buf))
    }

    /// As [`recv`](UnixDatagram::recv), but leaves the datagram where it is.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.peek_from(buf).map(|(length, _)| length)
    }

    /// As [`recv_from`](UnixDatagram::recv_from), but leaves the datagram where it is.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        // SAFETY: the same bytes; the call below only writes initialised ones into them.
        let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
        let (length, from) = self.io.run(Direction::Read, |inner| SockRef::from(inner).peek_from(buf))?;
        Ok((length, accept::unix_address(&from)?))
    }

    /// Sends a datagram to the socket at `path`, and waits while its queue is full.
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// As [`send_to`](UnixDatagram::send_to), to an address that may be abstract.
    pub fn send_to_addr(&self, buf: &[u8], address: &SocketAddr) -> io::Result<usize> {
        // A full queue of somebody it is not connected to: no edge will tell when there is room.
        self.io.run_with(Direction::Write, Patience::NoEdges, |inner| inner.send_to_addr(buf, address))
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
        /// Ends reading, writing or both, on all clones; whoever waits for that is woken.
        fn shutdown(&self, how: Shutdown) -> ();
        /// The error that is pending on the socket, which this clears.
        fn take_error(&self) -> Option<io::Error>;
    }
}

descriptor_traits!(UnixDatagram, net::UnixDatagram);
timeouts!(UnixDatagram, net::UnixDatagram);
