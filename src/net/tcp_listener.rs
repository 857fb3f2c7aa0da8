//! [`TcpListener`]: accepts TCP connections in goroutines.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Instant;

use super::{Builder, TcpStream, accept};
use crate::io::core::{Found, Io};
use crate::netpoll::Direction;

/// A TCP socket that listens: [`std::net::TcpListener`] for goroutines.
///
/// ```
/// use gort::net::{TcpListener, TcpStream};
/// gort::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let client = TcpStream::connect(listener.local_addr()?)?;
///     let (connection, peer) = listener.accept()?;
///     assert_eq!(peer, client.local_addr()?);
///     assert_eq!(connection.peer_addr()?, peer);
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct TcpListener {
    pub(super) io: Io<net::TcpListener>,
}

impl TcpListener {
    /// Listens at the first of the addresses that can be bound, with `SO_REUSEADDR` and the longest backlog
    /// that the kernel allows. See [`Builder`] for other options.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        Builder::new().bind(address)
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = accept::accept(&self.io)?;
        match address.as_socket() {
            Some(address) => Ok((TcpStream::fresh(socket), address)),
            None => Err(io::Error::other("a TCP connection without an address")),
        }
    }

    /// An endless iterator over the connections: each step waits for the next one.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Sets the moment after which `accept` on this handle fails with `TimedOut`, including calls that are
    /// already waiting.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        self.io.set_deadline(Direction::Read, deadline);
    }

    delegate! {
        /// The address at which it listens.
        fn local_addr(&self) -> SocketAddr;
        /// Returns and clears the error that is pending on the socket.
        fn take_error(&self) -> Option<io::Error>;
        /// The time to live of its packets.
        fn ttl(&self) -> u32;
        /// Sets the time to live of its packets.
        fn set_ttl(&self, ttl: u32) -> ();
    }

    fn adopt(socket: net::TcpListener) -> TcpListener {
        TcpListener { io: Io::new(socket, Found::Somehow) }
    }
}

/// The iterator of [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

descriptor_traits!(TcpListener, net::TcpListener);
