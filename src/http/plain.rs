//! A connection whose client asks for nothing but answers: most, most of the time.
//!
//! Its requests are read and answered here, in one poll each, without hyper's state machine: nothing is kept for the connection
//! between them but the socket and this small task, so thousands of them find room in the CPU's cache, and idle ones cost
//! next to nothing. The request is read to the goroutine's stack. Whatever is not plain (`head.rs`, `answer.rs`), or does not
//! come in one piece, goes to hyper with all that was read, and with the answer if the handler was asked already
//! (`connection.rs`); and the connection comes back from there when its client has been quiet for a while.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Instant;

use hyper::body::Bytes;
use hyper::rt::Write;

use super::connection::{Start, call};
use super::handler::Handler;
use super::patience::{Alarm, Ending, Limits};
use super::{Response, answer, head};
use crate::context::Context;
use crate::future::sleep_until;
use crate::hyper::Stream;
use crate::net::TcpStream;
use crate::time::clock;

/// So much is read at once. What does not end there is left to hyper.
const ROOM: usize = 4 << 10;

/// After so many answers in one poll others have their turn.
const IN_A_ROW: u32 = 8;

pub(super) struct Plain {
    stream: Stream<TcpStream>,
    /// When the last request was answered, or the connection began.
    since: Instant,
    /// How many were answered since there was last nothing to read.
    in_a_row: u32,
}

/// What hyper has to see to: what was read, and the answer, if there is one.
type NotPlain = (Bytes, Option<Response>);

impl Plain {
    /// A new connection.
    pub(super) fn new(stream: TcpStream) -> Plain {
        let _only_slower = stream.set_nodelay(true);
        Plain { stream: Stream::new(stream), since: clock::now(), in_a_row: 0 }
    }

    /// One that hyper has had, which waits for it no longer.
    pub(super) fn anew(stream: Stream<TcpStream>, since: Instant) -> Plain {
        Plain { stream: Stream::new(stream.into_inner()), since, in_a_row: 0 }
    }

    /// Serves it to its end, or until something comes that is not plain.
    pub(super) async fn serve<H: Handler>(
        mut self,
        handler: &H,
        limits: &Limits,
        ctx: &Context,
    ) -> Option<Start> {
        let mut ending = Ending::new(ctx);
        let sleep = pin!(sleep_until(self.since));
        let mut alarm = Alarm::new(sleep);
        let (unread, answer) = loop {
            let bytes =
                poll_fn(|context| self.poll_receive(context, limits, &mut ending, &mut alarm)).await?;
            match self.answer(bytes, handler, limits) {
                Ok(out) => self.send(&out, limits, &mut ending).await?,
                Err(not_plain) => break *not_plain,
            }
        };
        let stream = Stream::new(self.stream.into_inner());
        Some(Start { stream, since: self.since, unread, answer })
    }

    /// The answer to a plain request, to be sent.
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

    /// What comes next. `None`: the connection is over, because its client's time is, or the client has gone, or the server
    /// ends.
    fn poll_receive(
        &mut self,
        context: &mut TaskContext<'_>,
        limits: &Limits,
        ending: &mut Ending<'_>,
        alarm: &mut Alarm<'_>,
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
        // Right after an answer the time is known.
        let now = if self.in_a_row == 0 { clock::now() } else { self.since };
        self.in_a_row = 0;
        alarm.poll(self.since.checked_add(limits.head_timeout), now, context).map(|()| None)
    }

    /// What there is to read; nothing at the end.
    fn poll_bytes(&mut self, context: &mut TaskContext<'_>) -> Poll<io::Result<Bytes>> {
        let mut room = [const { MaybeUninit::uninit() }; ROOM];
        let bytes = ready!(self.stream.poll_receive(context, &mut room))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(bytes)))
    }

    /// `None`: the client has gone, or does not take it.
    async fn send(&mut self, out: &[u8], limits: &Limits, ending: &mut Ending<'_>) -> Option<()> {
        let first = poll_fn(|context| Poll::Ready(self.poll_send(out, context))).await;
        match first {
            Poll::Ready(Ok(length)) if length == out.len() => Some(()),
            Poll::Ready(Err(_)) => None,
            // Rarely: not in the task of each connection.
            Poll::Ready(Ok(length)) => Box::pin(self.send_rest(&out[length..], limits, ending)).await,
            Poll::Pending => Box::pin(self.send_rest(out, limits, ending)).await,
        }
    }

    fn poll_send(&mut self, out: &[u8], context: &mut TaskContext<'_>) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, out)
    }

    async fn send_rest(&mut self, mut out: &[u8], limits: &Limits, ending: &mut Ending<'_>) -> Option<()> {
        let (mut taken_at, mut ends_at) = (clock::now(), None);
        let sleep = pin!(sleep_until(taken_at));
        let mut alarm = Alarm::new(sleep);
        poll_fn(|context| {
            let now = clock::now();
            if ends_at.is_none() && ending.poll(context) {
                ends_at = now.checked_add(limits.shutdown_timeout);
            }
            while !out.is_empty() {
                let Poll::Ready(sent) = self.poll_send(out, context) else {
                    let over = taken_at.checked_add(limits.write_timeout).into_iter().chain(ends_at).min();
                    return alarm.poll(over, now, context).map(|()| None);
                };
                let Ok(length) = sent else { return Poll::Ready(None) };
                (out, taken_at) = (&out[length..], now);
            }
            Poll::Ready(Some(()))
        })
        .await?;
        self.since = clock::now();
        Some(())
    }
}
