//! An HTTP/1 server for plain, blocking handlers (feature `http`), over hyper.
//!
//! The goroutine that polls a connection also calls the handler. There is no hand-over between two
//! goroutines, and a handler that blocks delays only its own connection. Most requests are plain ones: the
//! server answers them without hyper's state machine, with the same bytes that hyper would send. Handlers
//! read and write bodies with [`Read`](std::io::Read) and [`Write`](std::io::Write).
//!
//! A connection that waits for its client needs neither a goroutine nor buffers: thousands of idle
//! connections cost little more than their sockets. The server uses only as many goroutines as are busy at a
//! time. Each of them serves the next request of any connection, like a thread of a pool, so a handler may
//! find thread-locals that another request has already used.
//!
//! A client that shuts down its sending side after a request still gets the answer. The server notices that a
//! client has disconnected altogether when it writes to it, or when the answer is complete.
//!
//! ```
//! use gort::http::{Request, Server};
//! use gort::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! gort::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let (ctx, cancel) = gort::context::Context::background().with_cancel();
//!     let hello = |request: Request| format!("hello from {}", request.uri().path());
//!     let server = gort::spawn(move || Server::new().serve_until(&ctx, listener, hello));
//!
//!     let mut client = TcpStream::connect(address)?;
//!     client.write_all(b"GET /here HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
//!     let mut answer = String::new();
//!     client.read_to_string(&mut answer)?;
//!     assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello from /here"));
//!     cancel.cancel();
//!     server.join().unwrap()
//! })
//! .unwrap();
//! ```

mod answer;
mod body;
mod connection;
mod delivery;
mod handler;
mod handover;
mod head;
mod length;
mod plain;
mod server;
mod timeouts;

use std::io;
use std::net::ToSocketAddrs;

pub use body::{Body, BodyWriter};
pub use handler::{Handler, IntoResponse};
pub use server::Server;

pub use hyper::body::Bytes;
pub use hyper::header;
pub use hyper::{HeaderMap, Method, StatusCode, Uri, Version};

/// A request, with a body that can be read.
pub type Request = hyper::Request<Body>;
/// A response.
pub type Response = hyper::Response<Body>;

/// Serves HTTP at `address` with the default limits of [`Server`]. Returns only with an error.
///
/// ```no_run
/// gort::http::serve("0.0.0.0:8080", |_request: gort::http::Request| "hello\n").unwrap();
/// ```
///
/// # Errors
/// If the listener cannot be bound to `address`, or fails later.
#[track_caller]
pub fn serve(address: impl ToSocketAddrs, handler: impl Handler) -> io::Result<()> {
    Server::new().serve(address, handler)
}
