//! A connection that serves plain requests without hyper's state machine. Most connections are plain most of
//! the time.
//!
//! Each request is read and answered in one poll; it is read to the stack of the goroutine that polls.
//! Between two requests the connection consists of the socket and one small future. So thousands of
//! connections fit into the CPU's cache, and idle ones cost next to nothing.
//!
//! A request or an answer that is not plain (`head.rs` and `answer.rs` say what is), or a request that does
//! not arrive in one piece, goes to hyper (`connection.rs`). Hyper gets everything that was read, and the
//! answer if the handler has already been called. The connection comes back when its client has been quiet
//! for a while.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Instant;

use hyper::body::Bytes;
use hyper::rt::Write;

use super::delivery::Delivery;
use super::handler::Handler;
use super::handover::{Quiet, Start, call};
use super::timeouts::{ConnectionTimer, Ending, Limits};
use super::{Response, answer, head};
use crate::context::Context;
use crate::future::sleep_until;
use crate::hyper::Stream;
use crate::net::TcpStream;
use crate::sched::park::clock;

/// The size, in bytes, of the buffer on the stack for one request. Larger requests go to hyper.
const ROOM: usize = 4 << 10;

/// The number of answers in one poll after which the connection yields to others.
const IN_A_ROW: u32 = 8;

/// A connection between two plain requests.
pub(super) struct Plain {
    stream: Stream<TcpStream>,
    /// When the last request was answered, or the connection began.
    since: Instant,
    /// The number of requests received since the socket was last empty, or since the connection last yielded.
    in_a_row: u32,
}

/// What hyper has to process: the bytes that were read, and the answer if there is one already.
type NotPlain = (Bytes, Option<Response>);

impl Plain {
    /// A new connection.
    pub(super) fn new(stream: TcpStream) -> Plain {
        let _only_slower = stream.set_nodelay(true);
        Plain { stream: Stream::new(stream), since: clock::now(), in_a_row: 0 }
    }

    /// A connection that comes back from hyper. `into_inner` withdraws the waits that hyper has registered.
    pub(super) fn anew(quiet: Quiet) -> Plain {
        Plain { stream: Stream::new(quiet.stream.into_inner()), since: quiet.since, in_a_row: 0 }
    }

    /// Serves the connection until it ends (`None`), or until it needs hyper.
    pub(super) async fn serve<H: Handler>(
        mut self,
        handler: &H,
        limits: &Limits,
        ctx: &Context,
    ) -> Option<Start> {
        let mut ending = Ending::new(ctx);
        let sleep = pin!(sleep_until(self.since));
        let mut timer = ConnectionTimer::new(sleep);
        let (unread, answer) = loop {
            let bytes =
                poll_fn(|context| self.poll_receive(context, limits, &mut ending, &mut timer)).await?;
            match self.answer(bytes, handler, limits) {
                Ok(out) => self.send(&out, limits, &mut ending).await?,
                Err(not_plain) => break *not_plain,
            }
        };
        let stream = Stream::new(self.stream.into_inner());
        Some(Start { stream, since: self.since, unread, answer })
    }

    /// The formatted answer to a plain request.
    fn answer<H: Handler>(
        &mut self,
        bytes: Bytes,
        handler: &H,
        limits: &Limits,
    ) -> Result<Vec<u8>, Box<NotPlain>> {
        let request = if limits.keep_alive { head::read(&bytes) } else { None };
        let Some(request) = request else { return Err(Box::new((bytes, None))) };
        let answer = call(handler, request);
        self.since = clock::now();
        answer::write(&answer, self.since).ok_or_else(|| Box::new((bytes, Some(answer))))
    }

    /// Waits for the next request. `None` ends the connection: its client took too long or has disconnected,
    /// or the server shuts down.
    fn poll_receive(
        &mut self,
        context: &mut TaskContext<'_>,
        limits: &Limits,
        ending: &mut Ending<'_>,
        timer: &mut ConnectionTimer<'_>,
    ) -> Poll<Option<Bytes>> {
        if ending.poll(context) {
            return Poll::Ready(None);
        }
        if self.in_a_row == IN_A_ROW {
            self.in_a_row = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Poll::Ready(received) = self.poll_bytes(context) {
            let Some(bytes) = received.ok().filter(|bytes| !bytes.is_empty()) else {
                return Poll::Ready(None);
            };
            self.in_a_row += 1;
            return Poll::Ready(Some(bytes));
        }
        // Right after an answer, `since` is the current time.
        let now = if self.in_a_row == 0 { clock::now() } else { self.since };
        self.in_a_row = 0;
        timer.poll(self.since.checked_add(limits.head_timeout), now, context).map(|()| None)
    }

    /// Reads what the socket has; empty at the end of the stream.
    fn poll_bytes(&mut self, context: &mut TaskContext<'_>) -> Poll<io::Result<Bytes>> {
        let mut room = [const { MaybeUninit::uninit() }; ROOM];
        let bytes = ready!(self.stream.poll_receive(context, &mut room))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(bytes)))
    }

    /// Sends the answer. `None`: the client has disconnected, or does not accept the bytes in time.
    async fn send(&mut self, out: &[u8], limits: &Limits, ending: &mut Ending<'_>) -> Option<()> {
        let first = poll_fn(|context| Poll::Ready(self.poll_send(out, context))).await;
        match first {
            Poll::Ready(Ok(length)) if length == out.len() => Some(()),
            Poll::Ready(Err(_)) => None,
            // Boxed because it is rare: otherwise it would enlarge the future of every connection.
            Poll::Ready(Ok(length)) => Box::pin(self.send_rest(&out[length..], limits, ending)).await,
            Poll::Pending => Box::pin(self.send_rest(out, limits, ending)).await,
        }
    }

    fn poll_send(&mut self, out: &[u8], context: &mut TaskContext<'_>) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, out)
    }

    /// Waits until the client has accepted the rest of an answer, within the write and shutdown timeouts.
    async fn send_rest(&mut self, mut out: &[u8], limits: &Limits, ending: &mut Ending<'_>) -> Option<()> {
        let (mut delivery, mut ends_at) = (Delivery::default(), None);
        let sleep = pin!(sleep_until(clock::now()));
        let mut timer = ConnectionTimer::new(sleep);
        poll_fn(|context| {
            let mut now = clock::now();
            if ends_at.is_none() && ending.poll(context) {
                ends_at = now.checked_add(limits.shutdown_timeout);
            }
            while !out.is_empty() {
                let Poll::Ready(sent) = self.poll_send(out, context) else {
                    delivery.refused(self.stream.untaken(), now);
                    let over = delivery.deadline(limits.write_timeout).into_iter().chain(ends_at).min();
                    if over.is_some_and(|over| over <= now) {
                        return Poll::Ready(None);
                    }
                    let look = delivery.next_look(limits.write_timeout, now);
                    let next = over.into_iter().chain(look).min();
                    if next.is_none_or(|next| timer.covers(next, now, context)) {
                        return Poll::Pending;
                    }
                    now = clock::now();
                    continue;
                };
                let Ok(length) = sent else { return Poll::Ready(None) };
                delivery.accepted(length);
                out = &out[length..];
            }
            Poll::Ready(Some(()))
        })
        .await?;
        self.since = clock::now();
        Some(())
    }
}
