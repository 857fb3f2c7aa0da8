//! [`Builder`]: socket options that must be set before a socket is bound.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

use super::{TcpListener, UdpSocket, resolve};
use crate::io::core::{Found, Io};

/// Options that must be set before a socket is bound.
///
/// ```
/// gort::run(|| {
///     let builder = gort::net::Builder::new().reuse_port(true).backlog(16);
///     let first = builder.bind("127.0.0.1:0")?;
///     let second = builder.bind(first.local_addr()?)?; // the kernel distributes the connections
///     assert_eq!(first.local_addr()?, second.local_addr()?);
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    reuse_address: bool,
    reuse_port: bool,
    only_v6: Option<bool>,
    backlog: i32,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// The default options: `SO_REUSEADDR` for listeners, and the longest backlog that the kernel allows
    /// (`net.core.somaxconn`).
    pub fn new() -> Builder {
        Builder { reuse_address: true, reuse_port: false, only_v6: None, backlog: i32::MAX }
    }

    /// Sets whether a listener may use a port on which old connections still linger (`SO_REUSEADDR`).
    #[must_use]
    pub fn reuse_address(mut self, reuse: bool) -> Builder {
        self.reuse_address = reuse;
        self
    }

    /// Sets whether several sockets may be bound to one address, each with its own queue (`SO_REUSEPORT`).
    #[must_use]
    pub fn reuse_port(mut self, reuse: bool) -> Builder {
        self.reuse_port = reuse;
        self
    }

    /// Sets whether an IPv6 socket refuses IPv4. Without this, the system's default (`net.ipv6.bindv6only`)
    /// applies.
    #[must_use]
    pub fn only_v6(mut self, only: bool) -> Builder {
        self.only_v6 = Some(only);
        self
    }

    /// Sets how many connections the kernel queues until they are accepted.
    #[must_use]
    pub fn backlog(mut self, backlog: u32) -> Builder {
        self.backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        self
    }

    /// Listens for TCP connections at the first of the addresses that can be bound.
    pub fn bind<A: ToSocketAddrs>(&self, address: A) -> io::Result<TcpListener> {
        resolve::each_address(address, |address| {
            let socket = self.socket(address, Type::STREAM, Protocol::TCP)?;
            socket.set_reuse_address(self.reuse_address)?;
            socket.bind(&(*address).into())?;
            socket.listen(self.backlog)?;
            Ok(TcpListener { io: Io::new(socket.into(), Found::Nonblocking) })
        })
    }

    /// Makes a UDP socket at the first of the addresses that can be bound.
    pub fn bind_udp<A: ToSocketAddrs>(&self, address: A) -> io::Result<UdpSocket> {
        resolve::each_address(address, |address| {
            let socket = self.socket(address, Type::DGRAM, Protocol::UDP)?;
            socket.bind(&(*address).into())?;
            Ok(UdpSocket { io: Io::new(socket.into(), Found::Nonblocking) })
        })
    }

    fn socket(&self, address: &SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(*address), kind.nonblocking(), Some(protocol))?;
        if let Some(only) = self.only_v6
            && address.is_ipv6()
        {
            socket.set_only_v6(only)?;
        }
        if self.reuse_port {
            socket.set_reuse_port(true)?;
        }
        Ok(socket)
    }
}
