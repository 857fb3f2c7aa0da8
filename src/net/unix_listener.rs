//! [`UnixListener`]: accepts Unix socket connections in goroutines.

use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::time::Instant;

use super::{UnixStream, accept};
use crate::io::core::{Found, Io};
use crate::netpoll::Direction;

/// A Unix socket that listens: [`std::os::unix::net::UnixListener`] for goroutines.
///
/// ```
/// use gort::net::{UnixListener, UnixStream};
/// gort::run(|| {
///     let path = std::env::temp_dir().join(format!("gort-doc-{}.sock", std::process::id()));
///     let listener = UnixListener::bind(&path)?;
///     let client = gort::spawn({
///         let path = path.clone();
///         move || UnixStream::connect(path)
///     });
///     listener.accept()?;
///     client.join().unwrap()?;
///     std::fs::remove_file(path)
/// })
/// .unwrap();
/// ```
pub struct UnixListener {
    io: Io<net::UnixListener>,
}

impl UnixListener {
    /// Listens at `path`, which must not exist yet.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Like [`bind`](UnixListener::bind), at an address that may be abstract.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let socket = net::UnixListener::bind_addr(address)?;
        Ok(UnixListener { io: Io::new(socket, Found::Blocking) })
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (socket, address) = accept::accept(&self.io)?;
        Ok((UnixStream::fresh(socket), accept::unix_address(&address)?))
    }

    /// An endless iterator over the connections: each step waits for the next one.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
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
    }

    fn adopt(socket: net::UnixListener) -> UnixListener {
        UnixListener { io: Io::new(socket, Found::Somehow) }
    }
}

/// The iterator of [`UnixListener::incoming`].
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedIterator for UnixIncoming<'_> {}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = UnixIncoming<'a>;

    fn into_iter(self) -> UnixIncoming<'a> {
        self.incoming()
    }
}

descriptor_traits!(UnixListener, net::UnixListener);
