//! One connection: reads requests and sends answers, one after the other, within limits of time.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::listener::Shared;
use super::request::{self, LARGEST_HEAD};
use super::{Answer, Out, Refusal, Request};

/// A whole request must arrive within this time after its first byte.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// An answer must be taken within this time. Streams have limits of their own.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A connection without requests is closed after this time.
const IDLE: Duration = Duration::from_secs(15);
/// After a refusal, what the client still sends is read for at most this time and this many bytes: if the
/// server closed at once, the client's kernel would drop the refusal.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 1 << 20);

pub(super) fn run(stream: &Arc<TcpStream>, shared: &Shared) {
    // Without this, a small answer may wait for the client's acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(1 << 10);
    loop {
        let (answer, request) = match next(stream, &mut buffer, shared) {
            Ok(Some(request)) => (respond(&request, shared), request),
            Ok(None) => return,
            Err(refusal) => {
                refuse(stream, refusal, shared);
                return;
            }
        };
        let out = Out::new(stream.clone(), ANSWER_WITHIN, shared.stop.clone());
        match out.send(answer, request.head_only, request.knows_chunks, request.keep_alive) {
            Ok(true) => {}
            _ => return,
        }
    }
}

/// Sends a refusal, and closes the connection.
pub(super) fn refuse(stream: &Arc<TcpStream>, refusal: Refusal, shared: &Shared) {
    let out = Out::new(stream.clone(), LINGER.0, shared.stop.clone());
    if out.send(refusal.into(), false, false, false).is_err() || stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let (until, mut left) = (Instant::now() + LINGER.0, LINGER.1);
    let mut bytes = [0; 4096];
    while left > 0 {
        match read(stream, &mut bytes, until) {
            Ok(1..) => left = left.saturating_sub(bytes.len()),
            _ => return,
        }
    }
}

fn respond(request: &Request, shared: &Shared) -> Answer {
    let checked = shared.access.check(request).and_then(|answer| match answer {
        Some(answer) => Ok(answer),
        None if !request.method_is_known => {
            Err(Refusal::new(405, "this server has answers to GET and HEAD only").with("Allow", "GET, HEAD"))
        }
        None => (shared.route)(request),
    });
    checked.unwrap_or_else(Answer::from)
}

/// The next request. `None`: the client has closed the connection, or is silent.
fn next(stream: &TcpStream, buffer: &mut Vec<u8>, shared: &Shared) -> Result<Option<Request>, Refusal> {
    let idle_until = Instant::now() + IDLE;
    let mut until = None;
    loop {
        if !buffer.is_empty()
            && let Some((request, length)) = request::parse(buffer)?
        {
            buffer.drain(..length);
            return Ok(Some(request));
        }
        if !buffer.is_empty() {
            until.get_or_insert_with(|| Instant::now() + REQUEST_WITHIN);
        }
        if shared.stops() {
            return Ok(None);
        }
        let mut bytes = [0; 4096];
        let room = bytes.len().min(LARGEST_HEAD + 1 - buffer.len().min(LARGEST_HEAD));
        match read(stream, &mut bytes[..room], until.unwrap_or(idle_until)) {
            Ok(0) => return Ok(None),
            Ok(count) => buffer.extend_from_slice(&bytes[..count]),
            Err(error) if until.is_some() && error.kind() == ErrorKind::TimedOut => {
                let limit = REQUEST_WITHIN.as_secs();
                return Err(Refusal::new(408, format!("the request did not arrive within {limit} seconds")));
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Reads some bytes before `until`, or fails with `TimedOut`.
fn read(mut stream: &TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<usize> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(bytes) {
            // The leak search stops all threads with a signal.
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            result => return result,
        }
    }
}
