//! [`TcpStream`]: a TCP connection for goroutines.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{self, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::resolve;
use crate::io::core::{Found, Io, WaitMode};
use crate::netpoll::Direction;
use crate::sched::park::clock;
use crate::timer::NEVER;

/// A TCP connection: [`std::net::TcpStream`] for goroutines.
///
/// ```
/// use std::io::{Read, Write};
/// use gort::net::{Shutdown, TcpListener, TcpStream};
/// gort::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let mut client = TcpStream::connect(listener.local_addr()?)?;
///     let (mut server, _) = listener.accept()?;
///     client.write_all(b"all there is")?;
///     client.shutdown(Shutdown::Write)?;
///     let mut text = String::new();
///     server.read_to_string(&mut text)?;
///     assert_eq!(text, "all there is");
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct TcpStream {
    io: Io<net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first address that answers.
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        resolve::each_address(address, |address| TcpStream::connect_until(address, NEVER))
    }

    /// Connects to `address`; fails with `TimedOut` if that takes longer than `timeout`. A time of zero is an
    /// error.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a timeout of zero would never succeed"));
        }
        let deadline = clock::now().checked_add(timeout).map_or(NEVER, clock::nanos_at);
        TcpStream::connect_until(address, deadline)
    }

    fn connect_until(address: &SocketAddr, deadline: u64) -> io::Result<TcpStream> {
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(*address), kind, Some(Protocol::TCP))?;
        match socket.connect(&(*address).into()) {
            Ok(()) => return Ok(TcpStream::fresh(socket.into())),
            // After a signal (EINTR) the kernel also goes on connecting.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        let stream = TcpStream::fresh(socket.into());
        stream.io.run_with(Direction::Write, WaitMode::Until(deadline), |socket| {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Err(error) if error.kind() == ErrorKind::NotConnected => Err(ErrorKind::WouldBlock.into()),
                result => result,
            }
        })?;
        Ok(stream)
    }

    /// A stream around a new non-blocking socket.
    pub(super) fn fresh(socket: OwnedFd) -> TcpStream {
        TcpStream { io: Io::new(socket.into(), Found::Nonblocking) }
    }

    /// Like `read`, but leaves the bytes in the socket.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.run(Direction::Read, |inner| inner.peek(buf))
    }

    delegate! {
        /// The address of the other side.
        fn peer_addr(&self) -> SocketAddr;
        /// The address of this side.
        fn local_addr(&self) -> SocketAddr;
        /// Ends reading, writing or both, on all clones. Calls that wait for that return.
        fn shutdown(&self, how: Shutdown) -> ();
        /// Whether small packets are sent at once (`TCP_NODELAY`).
        fn nodelay(&self) -> bool;
        /// Sets `TCP_NODELAY`.
        fn set_nodelay(&self, nodelay: bool) -> ();
        /// The time to live of its packets.
        fn ttl(&self) -> u32;
        /// Sets the time to live of its packets.
        fn set_ttl(&self, ttl: u32) -> ();
        /// Returns and clears the error that is pending on the socket.
        fn take_error(&self) -> Option<io::Error>;
    }

    /// How long closing the socket may take to deliver what is still unsent (`SO_LINGER`).
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self.io.inner()).linger()
    }

    /// Sets `SO_LINGER`. With a time of zero, closing the socket resets the connection. With a longer time,
    /// closing it blocks its thread.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        SockRef::from(self.io.inner()).set_linger(linger)
    }
}

descriptor_traits!(TcpStream, net::TcpStream);
timeouts!(TcpStream, net::TcpStream);
stream_traits!(TcpStream, read_stream);

#[cfg(feature = "hyper")]
impl TcpStream {
    /// The descriptor, for `hyper`.
    pub(crate) fn io(&self) -> &Io<net::TcpStream> {
        &self.io
    }
}
