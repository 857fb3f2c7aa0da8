//! How long a connection waits: the limits of the server, its shutdown signal, and one timer per connection.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use crate::chan::RecvFuture;
use crate::context::Context;
use crate::future::Sleep;
use crate::sched::park::clock;

/// The limits of a [`Server`](super::Server), which documents each of them.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) max_head: usize,
    pub(super) max_body: u64,
    pub(super) head_timeout: Duration,
    pub(super) body_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) keep_alive: bool,
    pub(super) shutdown_timeout: Duration,
    pub(super) stack_size: Option<usize>,
    /// Where the program started the server: reports name it for the server's goroutines.
    pub(super) site: &'static Location<'static>,
}

/// A connection's view of the server's shutdown.
pub(super) struct Ending<'a> {
    ctx: &'a Context,
    told: RecvFuture<'a, ()>,
    listens: bool,
}

impl Ending<'_> {
    pub(super) fn new(ctx: &Context) -> Ending<'_> {
        Ending { ctx, told: ctx.done().recv_async(), listens: false }
    }

    /// Whether the server shuts down. If not yet, the context wakes the connection when it does. All calls
    /// must come with the same waker, because only the first one registers it.
    pub(super) fn poll(&mut self, context: &mut TaskContext<'_>) -> bool {
        if self.listens && self.ctx.err().is_none() {
            return false; // does not touch the receive future's memory, which is rarely in the cache
        }
        self.listens = true;
        Pin::new(&mut self.told).poll(context).is_ready()
    }
}

/// One timer for all deadlines of a connection. It is not reset for each request: as long as it fires early
/// enough, it stays as it is. When it fires, the connection computes its current deadline and sets it again.
pub(super) struct ConnectionTimer<'a> {
    sleep: Pin<&'a mut Sleep>,
    at: Option<Instant>,
}

impl ConnectionTimer<'_> {
    pub(super) fn new(sleep: Pin<&mut Sleep>) -> ConnectionTimer<'_> {
        ConnectionTimer { sleep, at: None }
    }

    /// Makes the timer wake the connection at `next` or earlier. Returns false if `next` has passed in the
    /// meantime.
    pub(super) fn covers(&mut self, next: Instant, now: Instant, context: &mut TaskContext<'_>) -> bool {
        if self.at.is_some_and(|at| at <= next && at > now) {
            return true;
        }
        self.at = Some(next);
        self.sleep.as_mut().reset(next);
        if self.sleep.as_mut().poll(context).is_pending() {
            return true;
        }
        self.at = None;
        false
    }

    /// Waits until `over`; `None` means forever.
    pub(super) fn poll(
        &mut self,
        over: Option<Instant>,
        mut now: Instant,
        context: &mut TaskContext<'_>,
    ) -> Poll<()> {
        let Some(over) = over else { return Poll::Pending };
        while over > now {
            if self.covers(over, now, context) {
                return Poll::Pending;
            }
            now = clock::now();
        }
        Poll::Ready(())
    }
}
