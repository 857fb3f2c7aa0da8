//! The HTTP server: its limits, its accept loop and its graceful shutdown.

use std::io;
use std::net::ToSocketAddrs;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::connection;
use super::handler::Handler;
use super::handover::Start;
use super::plain::Plain;
use super::timeouts::Limits;
use crate::context::Context;
use crate::future::crew;
use crate::net::TcpListener;
use crate::sync::{Semaphore, WaitGroup};
use crate::sys::mem;
use crate::time::{Timer, after_func};

/// An HTTP/1 server: set its limits, then call [`serve`](Server::serve).
///
/// ```no_run
/// use std::time::Duration;
/// gort::http::Server::new()
///     .max_connections(10_000)
///     .max_body(1 << 20)
///     .head_timeout(Duration::from_secs(10))
///     .serve("0.0.0.0:8080", |_request: gort::http::Request| "hello\n")
///     .unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a server starts with `serve`"]
pub struct Server {
    limits: Limits,
    max_connections: usize,
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl Server {
    /// A server with default limits. Each method below states the default of its limit.
    #[track_caller]
    pub fn new() -> Server {
        Server {
            limits: Limits {
                max_head: 64 << 10,
                max_body: 16 << 20,
                head_timeout: Duration::from_secs(60),
                body_timeout: Duration::from_secs(30),
                write_timeout: Duration::from_secs(60),
                keep_alive: true,
                shutdown_timeout: Duration::from_secs(30),
                stack_size: None,
                site: Location::caller(),
            },
            max_connections: 65_536,
        }
    }

    /// The largest number of connections open at once. Default: 65,536. Further clients wait to be accepted.
    pub fn max_connections(mut self, connections: usize) -> Server {
        self.max_connections = connections.max(1);
        self
    }

    /// How much stack, in bytes, a handler can use at least, however many goroutines there are; up to 1 GiB.
    /// Without this a handler has what any goroutine has: 256 KiB in a crowd, and up to 64 MiB otherwise. The
    /// goroutines that serve requests are shared by all servers of the process, so the largest size counts.
    pub fn stack_size(mut self, bytes: usize) -> Server {
        self.limits.stack_size = Some(bytes);
        self
    }

    /// The largest size of request line and headers together, in bytes. Default: 64 kB; the minimum is 8 kB.
    /// The server answers larger requests with 431.
    pub fn max_head(mut self, bytes: usize) -> Server {
        self.limits.max_head = bytes.max(8 << 10);
        self
    }

    /// The largest size of a request's body, in bytes. Default: 16 MB. If the declared length is larger, the
    /// server answers 413. If a body of undeclared length turns out to be larger, reading it fails.
    pub fn max_body(mut self, bytes: u64) -> Server {
        self.limits.max_body = bytes;
        self
    }

    /// The longest time from the beginning of the connection, or from the last answer, until the headers of
    /// the next request are complete. Default: 60 s. It ends idle connections, and those of clients that send
    /// their headers byte by byte.
    pub fn head_timeout(mut self, timeout: Duration) -> Server {
        self.limits.head_timeout = timeout;
        self
    }

    /// How long the server waits for the next part of a request's body. Default: 30 s.
    pub fn body_timeout(mut self, timeout: Duration) -> Server {
        self.limits.body_timeout = timeout;
        self
    }

    /// How long a client may go without taking any bytes of an answer. Default: 60 s. What counts is what the
    /// client's side has acknowledged, and not what the kernel has accepted for it; so a slow client is
    /// served as long as it takes some bytes in each such time. The server looks eight times in each timeout.
    pub fn write_timeout(mut self, timeout: Duration) -> Server {
        self.limits.write_timeout = timeout;
        self
    }

    /// Whether a connection serves several requests. Default: true.
    pub fn keep_alive(mut self, keep_alive: bool) -> Server {
        self.limits.keep_alive = keep_alive;
        self
    }

    /// How long requests that are in progress when the server begins to shut down may still take. Default:
    /// 30 s. After that the server cuts them off, and does not wait for handlers that still run.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Server {
        self.limits.shutdown_timeout = timeout;
        self
    }

    /// Serves at `address`. Returns only with an error.
    ///
    /// # Errors
    /// If the listener cannot be bound to `address`, or fails later.
    #[track_caller]
    pub fn serve(&self, address: impl ToSocketAddrs, handler: impl Handler) -> io::Result<()> {
        self.serve_until(&Context::background(), TcpListener::bind(address)?, handler)
    }

    /// Serves until `ctx` ends. Then the server accepts no further connections, closes the idle ones, and
    /// finishes the requests that are in progress. See the [module](super) for an example, and
    /// [`signal::notify_context`](crate::signal::notify_context) for a context that ends with Ctrl-C.
    ///
    /// # Errors
    /// The listener's error if it failed; `InvalidInput` if no goroutine can have a stack of
    /// [`stack_size`](Server::stack_size); otherwise `TimedOut` if the server had to cut off some requests.
    #[track_caller]
    pub fn serve_until(&self, ctx: &Context, listener: TcpListener, handler: impl Handler) -> io::Result<()> {
        self.limits.stack_size.map_or(Ok(()), crew::need_stack)?;
        let listener = Arc::new(listener);
        // The connections end with the caller's context, and also when the accept loop ends because of an
        // error.
        let (ending, end) = ctx.with_cancel();
        let limits = Limits { site: Location::caller(), ..self.limits.clone() };
        let open = Open::new(handler, limits, self.max_connections, ending);
        let closing = listener.clone();
        let at_end = ctx.after_func(move || closing.close());
        let result = loop {
            match open.places.acquire_ctx(ctx, 1) {
                Ok(place) => place.forget(),
                Err(_) => break Ok(()),
            }
            open.running.add(1);
            let connection = Connection(open.clone());
            match listener.accept() {
                Ok((stream, _)) => connection.attend(Plain::new(stream)),
                Err(_) if ctx.err().is_some() => break Ok(()),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => break Err(error),
            }
        };
        end.cancel();
        at_end.stop();
        drop(listener);
        open.trimmer.stop();
        if open.running.wait_for(self.limits.shutdown_timeout) {
            return result;
        }
        result
            .and(Err(io::Error::new(io::ErrorKind::TimedOut, "some requests took too long and were cut off")))
    }
}

/// The state that all connections of a server share.
struct Open<H: Handler> {
    handler: Arc<H>,
    limits: Limits,
    ctx: Context,
    /// One permit for each connection that may still be accepted.
    places: Semaphore,
    running: WaitGroup,
    /// The number of times that a connection went quiet and returned its hyper buffers.
    slept: AtomicUsize,
    /// Returns the freed memory of quiet connections to the kernel.
    trimmer: Timer,
}

/// The heap is trimmed after every 64 connections that went quiet: by then there may be pages worth
/// returning.
const MANY: usize = 64;
/// The delay of the trim. More connections may go quiet in the meantime, and one trim serves them all.
const SOON: Duration = Duration::from_secs(1);

impl<H: Handler> Open<H> {
    fn new(handler: H, limits: Limits, max_connections: usize, ctx: Context) -> Arc<Open<H>> {
        Arc::new(Open {
            handler: Arc::new(handler),
            limits,
            ctx,
            places: Semaphore::new(max_connections),
            running: WaitGroup::new(),
            slept: AtomicUsize::new(0),
            // The allocator keeps free pages that lie between allocations in use; only a trim returns them.
            trimmer: after_func(Duration::MAX, || crate::blocking(mem::trim_heap)),
        })
    }
}

/// One open connection, busy or quiet. Dropping it returns its place.
struct Connection<H: Handler>(Arc<Open<H>>);

impl<H: Handler> Connection<H> {
    /// Lets the crew serve the connection until it ends or needs hyper. If there is no memory for it, the
    /// connection is closed and the others continue.
    fn attend(self, plain: Plain) {
        let _served = crew::spawn(self.0.limits.site, async move {
            let open = &self.0;
            if let Some(start) = plain.serve(&*open.handler, &open.limits, &open.ctx).await {
                self.leave_to_hyper(start);
            }
        });
    }

    /// Continues the connection with hyper. This is a separate future because it is much larger than the
    /// plain one.
    fn leave_to_hyper(self, start: Start) {
        let _served = crew::spawn(self.0.limits.site, async move {
            let open = &self.0;
            let quiet = connection::run(start, &open.handler, &open.limits, &open.ctx).await;
            if let Some(quiet) = quiet {
                if open.slept.fetch_add(1, Ordering::Relaxed) % MANY == MANY - 1 {
                    open.trimmer.reset(SOON);
                }
                self.attend(Plain::anew(quiet));
            }
        });
    }
}

impl<H: Handler> Drop for Connection<H> {
    fn drop(&mut self) {
        self.0.places.add_permits(1);
        self.0.running.done();
    }
}

/// Whether `accept` failed because of one client only, so that the loop may accept the next.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | ConnectionRefused)
}
