//! An HTTP/1 server for plain, blocking handlers (feature `http`), over hyper.
//!
//! A request is answered by a goroutine, which polls the connection and calls the handler itself: there is no hand-over
//! between the two, and a handler that blocks keeps only its own connection waiting. Plain requests, as most are, are answered
//! without hyper's state machine, in the same words. Bodies are read and written with
//! [`Read`](std::io::Read) and [`Write`](std::io::Write). A connection that waits for its client needs no goroutine and no
//! buffers: thousands of idle ones cost little more than their sockets. The goroutines are as few as are at work at a time,
//! and take the next request of any connection, as the threads of a pool would: a handler's thread-locals may have been
//! used for others before.
//!
//! A client that ends its side of the connection after a request is answered. One that has gone altogether is noticed when
//! something is written to it, or when the answer is complete.
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
mod handler;
mod head;
mod patience;
mod plain;
mod server;

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

/// Serves HTTP at `address` with the defaults of [`Server`]. Returns only if the address cannot be used.
///
/// ```no_run
/// gort::http::serve("0.0.0.0:8080", |_request: gort::http::Request| "hello\n").unwrap();
/// ```
///
/// # Errors
/// If the address cannot be bound to.
pub fn serve(address: impl ToSocketAddrs, handler: impl Handler) -> io::Result<()> {
    Server::new().serve(address, handler)
}
