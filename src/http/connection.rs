//! A connection that needs hyper's state machine (`plain.rs` says when). A goroutine of the crew polls it and
//! also calls the handler.
//!
//! The handler runs inside the poll whenever it cannot need the connection in the meantime: when the request
//! has no body, or one so short that the connection collects it first. A long body must be received while the
//! handler reads it; then the handler runs in a goroutine of its own.
//!
//! Timeouts do not need a timer per request. The connection records what it waits for and since when. One
//! timer, set to the earliest time at which a wait may exceed its limit, makes the connection check.
//!
//! A connection whose client has been quiet for a while becomes a plain one again: only its socket is kept.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::body::{Body, Upload};
use super::delivery::Delivery;
use super::handler::{Handler, IntoResponse};
use super::handover::{Quiet, Start, call};
use super::timeouts::{ConnectionTimer, Ending, Limits};
use super::{Request, Response, StatusCode};
use crate::context::Context;
use crate::future::sleep_until;
use crate::hyper::Stream;
use crate::net::TcpStream;
use crate::sched::park::clock;

/// The longest body, in bytes, that the connection collects before it calls the handler.
const SHORT: u64 = 64 << 10;

/// What the connection waits for, and since when.
struct State {
    /// The number of requests being answered. Usually 0 or 1; it is 2 when the next request begins before
    /// hyper drops the body of the last response.
    busy: Cell<u32>,
    /// When the last request was answered. Set after the poll that answered it, so that one reading of the
    /// clock per poll is enough.
    idle_since: Cell<Instant>,
    /// A request was answered during the current poll.
    answered: Cell<bool>,
    /// What the client takes of what the server writes.
    delivery: Cell<Delivery>,
    /// The last request was read to its end, and nothing has been read since. Then hyper's state holds
    /// nothing that the next request needs.
    between_requests: Cell<bool>,
    /// The answer to the first request, if the handler was called before hyper took over.
    answer: Cell<Option<Response>>,
}

// SAFETY: the transport, the service and the bodies of responses share the state. All of them are part of one
// connection, and only one goroutine at a time polls a connection.
unsafe impl Sync for State {}

impl State {
    /// The exact time at which the current wait for the client exceeds its limit. `None` if the connection
    /// does not wait for its client.
    fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let delivery = self.delivery.get();
        if delivery.waits() {
            delivery.deadline(limits.write_timeout)
        } else if self.busy.get() == 0 {
            self.idle_since.get().checked_add(limits.head_timeout)
        } else {
            None
        }
    }

    /// Since when the connection has been idle between two requests. `None` if something is in progress.
    fn may_sleep(&self) -> Option<Instant> {
        let nothing = self.busy.get() == 0 && !self.delivery.get().waits() && self.between_requests.get();
        nothing.then(|| self.idle_since.get())
    }
}

/// A connection becomes a plain one this long after its last answer. Its buffers of 16 kB then soon serve
/// other connections. Starting hyper again costs some microseconds.
const QUIET: Duration = Duration::from_millis(250);

/// Serves a connection until it ends (`None`), or until its client goes quiet: then returns it as a plain
/// one.
pub(super) async fn run<H: Handler>(
    start: Start,
    handler: &Arc<H>,
    limits: &Limits,
    ctx: &Context,
) -> Option<Quiet> {
    let mut ending = Ending::new(ctx);
    let state = Arc::new(State {
        busy: Cell::new(0),
        idle_since: Cell::new(start.since),
        answered: Cell::new(false),
        delivery: Cell::default(),
        between_requests: Cell::new(false),
        answer: Cell::new(start.answer),
    });
    let mut transport = Transport { stream: start.stream, unread: start.unread, state: state.clone() };
    loop {
        transport = serve(transport, handler, &state, limits, &mut ending).await?;
        if transport.unread.is_empty() {
            return Some(Quiet { stream: transport.stream, since: state.idle_since.get() });
        }
    }
}

/// Serves a connection with one hyper state machine. Returns `None` when the connection ends. When its client
/// goes quiet, returns the transport, including what hyper has read of the next request.
async fn serve<H: Handler>(
    transport: Transport,
    handler: &Arc<H>,
    state: &Arc<State>,
    limits: &Limits,
    ending: &mut Ending<'_>,
) -> Option<Transport> {
    let service = service_fn(|request| {
        let (handler, state) = (handler.clone(), state.clone());
        async move {
            let busy = Busy::new(state);
            let response = answer(handler, limits, &busy.0, request).await;
            Ok::<_, Infallible>(response.map(|body| Sent { body, _busy: busy }))
        }
    });
    let mut connection = http1::Builder::new()
        .keep_alive(limits.keep_alive)
        .max_buf_size(limits.max_head)
        .header_read_timeout(None)
        // Otherwise hyper checks whether the client has disconnected before it calls the handler. The check
        // costs a buffer, and its result would not stop the handler.
        .half_close(true)
        .serve_connection(transport, service);
    let (mut closing, mut ends_at) = (false, None);
    let began = clock::now();
    let timer = pin!(sleep_until(began));
    let mut timer = ConnectionTimer::new(timer);
    let mut first = true;
    let sleeps = poll_fn(|context| {
        // A shutdown must not come before the first poll: hyper considers a connection from which it has read
        // nothing idle, and would close it.
        if std::mem::take(&mut first) && Pin::new(&mut connection).poll(context).is_ready() {
            return Poll::Ready(false);
        }
        if !closing && ending.poll(context) {
            closing = true;
            Pin::new(&mut connection).graceful_shutdown();
            ends_at = clock::now().checked_add(limits.shutdown_timeout);
        }
        if Pin::new(&mut connection).poll(context).is_ready() {
            // Errors are ignored: either the client disconnected, or it did not speak HTTP and hyper told it
            // so.
            return Poll::Ready(false);
        }
        let mut now = clock::now();
        if state.answered.take() {
            state.idle_since.set(now);
        }
        loop {
            let over = state.deadline(limits).into_iter().chain(ends_at).min();
            if over.is_some_and(|over| over <= now) {
                return Poll::Ready(false);
            }
            let quiet = state.may_sleep().filter(|_| !closing).map(|since| since.max(began) + QUIET);
            if quiet.is_some_and(|quiet| quiet <= now) {
                return Poll::Ready(true);
            }
            let look = state.delivery.get().next_look(limits.write_timeout, now);
            let Some(next) = over.into_iter().chain(quiet).chain(look).min() else { return Poll::Pending };
            if timer.covers(next, now, context) {
                return Poll::Pending;
            }
            now = clock::now();
        }
    })
    .await;
    if !sleeps {
        return None;
    }
    let parts = connection.into_parts();
    // Copied, because even an empty slice of `read_buf` keeps hyper's whole buffer alive.
    Some(Transport { unread: Bytes::copy_from_slice(&parts.read_buf), ..parts.io })
}

/// Answers one request: with the answer that `plain.rs` has already got, or by a call of the handler.
async fn answer<H: Handler>(
    handler: Arc<H>,
    limits: &Limits,
    state: &State,
    request: hyper::Request<Incoming>,
) -> Response {
    if let Some(answer) = state.answer.take() {
        state.between_requests.set(true);
        return answer;
    }
    let (parts, incoming) = request.into_parts();
    let length = incoming.size_hint().exact();
    if length == Some(0) || incoming.is_end_stream() {
        state.between_requests.set(true);
        return call(&*handler, Request::from_parts(parts, Body::empty()));
    }
    state.between_requests.set(false);
    if length.is_some_and(|length| length > limits.max_body) {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let upload = Upload::new(incoming, limits.max_body, limits.body_timeout);
    if length.is_some_and(|length| length <= SHORT) {
        return match collect(upload).await {
            Ok(bytes) => {
                state.between_requests.set(true);
                call(&*handler, Request::from_parts(parts, bytes.into()))
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                StatusCode::REQUEST_TIMEOUT.into_response()
            }
            Err(_) => StatusCode::BAD_REQUEST.into_response(),
        };
    }
    let request = Request::from_parts(parts, upload.into());
    let builder = limits.stack_size.map_or_else(crate::Builder::new, |n| crate::Builder::new().stack_size(n));
    let site = limits.site;
    match builder.spawn_at(site, move || call(&*handler, request).map(|body| body.read_elsewhere(site))) {
        Ok(handle) => handle.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn collect(mut upload: Upload) -> io::Result<Bytes> {
    let mut next = async || poll_fn(|context| upload.poll(context)).await;
    let Some(first) = next().await? else { return Ok(Bytes::new()) };
    let Some(second) = next().await? else { return Ok(first) };
    let mut all = [first, second].concat();
    while let Some(data) = next().await? {
        all.extend_from_slice(&data);
    }
    Ok(all.into())
}

/// Counts a request as being answered, until it is dropped.
struct Busy(Arc<State>);

impl Busy {
    fn new(state: Arc<State>) -> Busy {
        state.busy.set(state.busy.get() + 1);
        Busy(state)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
        self.0.answered.set(true);
    }
}

/// A response's body. hyper drops it after it has taken all of it, which marks the request as answered.
struct Sent {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream, which also records what the client takes. hyper tries to write in each poll of the connection
/// as long as it has something to write.
struct Transport {
    stream: Stream<TcpStream>,
    /// The bytes that were read from the stream before hyper got it.
    unread: Bytes,
    state: Arc<State>,
}

impl Transport {
    /// Records whether a write was accepted.
    fn note(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let mut delivery = self.state.delivery.get();
        match &poll {
            Poll::Ready(written) => delivery.accepted(written.as_ref().map_or(0, |written| *written)),
            Poll::Pending => delivery.refused(self.stream.untaken(), clock::now()),
        }
        self.state.delivery.set(delivery);
        poll
    }
}

impl hyper::rt::Read for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            self.state.between_requests.set(false);
            let length = self.unread.len().min(buf.remaining());
            buf.put_slice(&self.unread.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let poll = Pin::new(&mut self.stream).poll_read(context, buf);
        if poll.is_ready() {
            self.state.between_requests.set(false);
        }
        poll
    }
}

impl hyper::rt::Write for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, buf);
        self.note(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, bufs);
        self.note(poll)
    }
}
