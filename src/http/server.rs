//! The server: limits, the accept loop, the orderly end.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::connection::{self, Start};
use super::handler::Handler;
use super::patience::Limits;
use super::plain::Plain;
use crate::context::Context;
use crate::future::crew;
use crate::net::TcpListener;
use crate::sync::{Semaphore, WaitGroup};
use crate::sys::mem;
use crate::time::{Timer, after_func};

/// An HTTP/1 server: limits first, then [`serve`](Server::serve).
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
    /// The defaults, which each method tells.
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
            },
            max_connections: 65_536,
        }
    }

    /// How many connections there may be at once: 65,536. Others wait to be accepted.
    pub fn max_connections(mut self, connections: usize) -> Server {
        self.max_connections = connections.max(1);
        self
    }

    /// How large the request line and headers may be together, in bytes: 64 kB (8 kB is the least). The answer to larger
    /// ones is 431.
    pub fn max_head(mut self, bytes: usize) -> Server {
        self.limits.max_head = bytes.max(8 << 10);
        self
    }

    /// How large a request's body may be, in bytes: 16 MB. The answer to one that says that it is larger is 413; reading one
    /// that turns out to be is an error.
    pub fn max_body(mut self, bytes: u64) -> Server {
        self.limits.max_body = bytes;
        self
    }

    /// How long a client may take from the beginning of the connection, or from the last answer, until its next request's
    /// headers are complete: 60 s. This ends idle connections, and those that send their headers byte by byte.
    pub fn head_timeout(mut self, timeout: Duration) -> Server {
        self.limits.head_timeout = timeout;
        self
    }

    /// How long to wait for the next part of a request's body: 30 s.
    pub fn body_timeout(mut self, timeout: Duration) -> Server {
        self.limits.body_timeout = timeout;
        self
    }

    /// How long a client may take nothing of an answer: 60 s.
    pub fn write_timeout(mut self, timeout: Duration) -> Server {
        self.limits.write_timeout = timeout;
        self
    }

    /// Whether a connection serves several requests: yes.
    pub fn keep_alive(mut self, keep_alive: bool) -> Server {
        self.limits.keep_alive = keep_alive;
        self
    }

    /// How long requests may take that are under way when the server is to end: 30 s. Then they are cut off; nobody waits
    /// for a handler that still runs.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Server {
        self.limits.shutdown_timeout = timeout;
        self
    }

    /// Serves at `address`. Returns only with an error.
    ///
    /// # Errors
    /// If the address cannot be bound to.
    pub fn serve(&self, address: impl ToSocketAddrs, handler: impl Handler) -> io::Result<()> {
        self.serve_until(&Context::background(), TcpListener::bind(address)?, handler)
    }

    /// Serves until `ctx` ends: then no connection is accepted any more, idle ones are closed, and requests that are under
    /// way are answered. See the [module](super) for an example, and [`signal::notify_context`](crate::signal::notify_context)
    /// for a context that ends with Ctrl-C.
    ///
    /// # Errors
    /// `TimedOut` if some requests had to be cut off, and errors of the listener.
    pub fn serve_until(&self, ctx: &Context, listener: TcpListener, handler: impl Handler) -> io::Result<()> {
        let listener = Arc::new(listener);
        // The connections end with the context, or because there is no listener any more.
        let (ending, end) = ctx.with_cancel();
        let open = Open::new(handler, self, ending);
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

/// What the connections of a server share.
struct Open<H: Handler> {
    handler: Arc<H>,
    limits: Limits,
    ctx: Context,
    /// How many more may be accepted.
    places: Semaphore,
    running: WaitGroup,
    /// How many went to sleep so far.
    slept: AtomicUsize,
    /// Gives the memory that they left back to the system.
    trimmer: Timer,
}

/// After so many connections have gone to sleep there may be memory to give back.
const MANY: usize = 64;
/// So long after that. More may follow.
const SOON: Duration = Duration::from_secs(1);

impl<H: Handler> Open<H> {
    fn new(handler: H, server: &Server, ctx: Context) -> Arc<Open<H>> {
        Arc::new(Open {
            handler: Arc::new(handler),
            limits: server.limits.clone(),
            ctx,
            places: Semaphore::new(server.max_connections),
            running: WaitGroup::new(),
            slept: AtomicUsize::new(0),
            // The allocator keeps what was freed between pieces that are in use, page by page.
            trimmer: after_func(Duration::MAX, || crate::blocking(mem::trim_heap)),
        })
    }
}

/// One of the connections that are open, awake or not.
struct Connection<H: Handler>(Arc<Open<H>>);

impl<H: Handler> Connection<H> {
    /// Serves it, until it ends or hyper is needed. Without memory it is closed; the others go on.
    fn attend(self, plain: Plain) {
        let _served = crew::spawn(async move {
            let open = &self.0;
            if let Some(start) = plain.serve(&*open.handler, &open.limits, &open.ctx).await {
                self.leave_to_hyper(start);
            }
        });
    }

    /// Another task, for it is much larger.
    fn leave_to_hyper(self, start: Start) {
        let _served = crew::spawn(async move {
            let open = &self.0;
            let plain = connection::run(start, &open.handler, &open.limits, &open.ctx).await;
            if let Some(plain) = plain {
                if open.slept.fetch_add(1, Ordering::Relaxed) % MANY == MANY - 1 {
                    open.trimmer.reset(SOON);
                }
                self.attend(plain);
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

/// The next one may well be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | ConnectionRefused)
}
