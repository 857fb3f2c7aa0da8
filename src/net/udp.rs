//! [`UdpSocket`]: a UDP socket for goroutines.

use std::fmt;
use std::io;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::{Builder, resolve};
use crate::io::core::{Found, Io};
use crate::netpoll::Direction;

/// A UDP socket: [`std::net::UdpSocket`] for goroutines.
///
/// ```
/// use gort::net::UdpSocket;
/// gort::run(|| {
///     let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
///     a.send_to(b"ping", b.local_addr()?)?;
///     let mut buf = [0; 16];
///     let (length, from) = b.recv_from(&mut buf)?;
///     assert_eq!((&buf[..length], from), (&b"ping"[..], a.local_addr()?));
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct UdpSocket {
    pub(super) io: Io<net::UdpSocket>,
}

impl UdpSocket {
    /// Makes a socket at the first of the addresses that can be bound.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<UdpSocket> {
        Builder::new().bind_udp(address)
    }

    /// Sets the only address to send to and to receive from.
    pub fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        resolve::each_address(address, |address| self.io.inner().connect(address))
    }

    /// Waits for a datagram. The part that does not fit into `buf` is lost.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.run(Direction::Read, |inner| inner.recv_from(buf))
    }

    /// Like [`recv_from`](UdpSocket::recv_from), but leaves the datagram in the socket.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.run(Direction::Read, |inner| inner.peek_from(buf))
    }

    /// Sends a datagram to the first address of `address`.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], address: A) -> io::Result<usize> {
        let mut to = None;
        let first = resolve::each_address(address, |address| {
            to = Some(*address);
            Ok(())
        });
        match to {
            Some(to) => self.io.run(Direction::Write, |inner| inner.send_to(buf, to)),
            None => first.map(|()| 0),
        }
    }

    /// Waits for a datagram from the address that the socket is connected to.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.run(Direction::Read, |inner| inner.recv(buf))
    }

    /// Like [`recv`](UdpSocket::recv), but leaves the datagram in the socket.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.run(Direction::Read, |inner| inner.peek(buf))
    }

    /// Sends a datagram to the address that the socket is connected to.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.run(Direction::Write, |inner| inner.send(buf))
    }

    delegate! {
        /// The address it is connected to.
        fn peer_addr(&self) -> SocketAddr;
        /// The address it is bound to.
        fn local_addr(&self) -> SocketAddr;
        /// Whether it may send to broadcast addresses (`SO_BROADCAST`).
        fn broadcast(&self) -> bool;
        /// Sets `SO_BROADCAST`.
        fn set_broadcast(&self, broadcast: bool) -> ();
        /// Whether it receives its own multicasts (`IP_MULTICAST_LOOP`).
        fn multicast_loop_v4(&self) -> bool;
        /// Sets `IP_MULTICAST_LOOP`.
        fn set_multicast_loop_v4(&self, multicast_loop: bool) -> ();
        /// The time to live of its multicasts (`IP_MULTICAST_TTL`).
        fn multicast_ttl_v4(&self) -> u32;
        /// Sets `IP_MULTICAST_TTL`.
        fn set_multicast_ttl_v4(&self, ttl: u32) -> ();
        /// Whether it receives its own multicasts (`IPV6_MULTICAST_LOOP`).
        fn multicast_loop_v6(&self) -> bool;
        /// Sets `IPV6_MULTICAST_LOOP`.
        fn set_multicast_loop_v6(&self, multicast_loop: bool) -> ();
        /// The time to live of its packets.
        fn ttl(&self) -> u32;
        /// Sets the time to live of its packets.
        fn set_ttl(&self, ttl: u32) -> ();
        /// Joins a multicast group.
        fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        /// Joins a multicast group.
        fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> ();
        /// Leaves a multicast group.
        fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        /// Leaves a multicast group.
        fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> ();
        /// Returns and clears the error that is pending on the socket.
        fn take_error(&self) -> Option<io::Error>;
    }
}

descriptor_traits!(UdpSocket, net::UdpSocket);
timeouts!(UdpSocket, net::UdpSocket);
