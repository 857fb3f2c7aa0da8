//! Runs hyper on gort (feature `hyper`): implements hyper's traits for I/O, timers and executors.
//!
//! A connection is a future that a goroutine polls: with [`block_on`](crate::future::block_on), or because
//! [`Executor`] started it. Handlers and middleware inside that future may block like any code in a
//! goroutine; they delay only their own connection. For HTTP/2, where many requests share a connection, give
//! hyper the [`Executor`]: it runs each request in a goroutine of its own.
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # fn main() -> std::io::Result<()> {
//! use gort::hyper::{Stream, Timer};
//! use hyper::service::service_fn;
//!
//! let listener = gort::net::TcpListener::bind("127.0.0.1:8080")?;
//! for stream in listener.incoming() {
//!     let stream = Stream::new(stream?);
//!     gort::spawn(move || {
//!         let service = service_fn(|_request| async {
//!             std::thread::sleep(std::time::Duration::from_millis(5)); // delays only this connection
//!             Ok::<_, std::convert::Infallible>(hyper::Response::new(String::from("hello")))
//!         });
//!         let connection = hyper::server::conn::http1::Builder::new()
//!             .timer(Timer)
//!             .serve_connection(stream, service);
//!         gort::future::block_on(connection)
//!     });
//! }
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "http"))]
//! # fn main() {}
//! ```

mod executor;
mod stream;
mod timer;

pub use executor::Executor;
pub use stream::Stream;
pub use timer::Timer;
