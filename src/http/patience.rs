//! How long a connection waits: the limits, the end of the server, and the timer for both.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use crate::chan::RecvFuture;
use crate::context::Context;
use crate::future::Sleep;
use crate::time::clock;

/// What a client may do.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) max_head: usize,
    pub(super) max_body: u64,
    pub(super) head_timeout: Duration,
    pub(super) body_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) keep_alive: bool,
    pub(super) shutdown_timeout: Duration,
}

/// The end of the server, as a connection hears of it.
pub(super) struct Ending<'a> {
    ctx: &'a Context,
    told: RecvFuture<'a, ()>,
    listens: bool,
}

impl Ending<'_> {
    pub(super) fn new(ctx: &Context) -> Ending<'_> {
        Ending { ctx, told: ctx.done().recv_async(), listens: false }
    }

    /// Whether it has come. If not, the connection will be polled then: always with the same waker.
    pub(super) fn poll(&mut self, context: &mut TaskContext<'_>) -> bool {
        if self.listens && self.ctx.err().is_none() {
            return false; // without a look at memory that is in nobody's cache
        }
        self.listens = true;
        Pin::new(&mut self.told).poll(context).is_ready()
    }
}

/// One timer for all that a connection waits for. It is not set anew for each request: it is left where it is as long as it
/// comes early enough, and then the connection looks what it is to wait for by now.
pub(super) struct Alarm<'a> {
    sleep: Pin<&'a mut Sleep>,
    at: Option<Instant>,
}

impl Alarm<'_> {
    pub(super) fn new(sleep: Pin<&mut Sleep>) -> Alarm<'_> {
        Alarm { sleep, at: None }
    }

    /// Sees to it that the connection is polled at `next` or earlier. False: that time has come meanwhile.
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

    /// Waits until `over`, if that is ever.
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
