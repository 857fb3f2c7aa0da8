//! Sockets with std's names, signatures and semantics, on which goroutines wait without blocking a thread.
//!
//! Replace `std::net` (and `std::os::unix::net`) by `gort::net`, and code that was written for threads works
//! in goroutines, even in a million of them. Plain threads can use the same sockets. What std does not have:
//!
//! - deadlines, as in Go: `set_read_deadline` and the like also end calls that are already waiting;
//! - `close(&self)`, which ends the calls that other goroutines make on a shared handle;
//! - [`Builder`], for `SO_REUSEPORT` and the backlog;
//! - an `accept` that waits while the process has no descriptors left, instead of failing.
//!
//! Several goroutines may read, write or accept on one socket at once. Each datagram or connection goes to
//! one of them.
//!
//! ```
//! use std::io::{Read, Write};
//! use gort::net::{TcpListener, TcpStream};
//!
//! gort::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     gort::spawn(move || {
//!         for connection in listener.incoming().flatten() {
//!             gort::spawn(move || std::io::copy(&mut &connection, &mut &connection));
//!         }
//!     });
//!     let mut client = TcpStream::connect(address)?;
//!     client.write_all(b"hello")?;
//!     let mut answer = [0; 5];
//!     client.read_exact(&mut answer)?;
//!     assert_eq!(&answer, b"hello");
//!     std::io::Result::Ok(())
//! })
//! .unwrap();
//! ```

#[macro_use]
mod macros;

mod accept;
mod builder;
mod resolve;
mod tcp_listener;
mod tcp_stream;
mod udp;
mod unix_datagram;
mod unix_listener;
mod unix_stream;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};
/// The address of a Unix socket.
pub use std::os::unix::net::SocketAddr as UnixSocketAddr;

pub use self::builder::Builder;
pub use self::tcp_listener::{Incoming, TcpListener};
pub use self::tcp_stream::TcpStream;
pub use self::udp::UdpSocket;
pub use self::unix_datagram::UnixDatagram;
pub use self::unix_listener::{UnixIncoming, UnixListener};
pub use self::unix_stream::UnixStream;
