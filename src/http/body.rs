//! Bodies of requests and responses.
//!
//! If a request's body is long or of unknown length, hyper receives it while the handler reads it. Then the
//! handler runs in a goroutine of its own, and the goroutines of the crew keep polling hyper. All other
//! request bodies are in memory before the handler starts.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, Read, Write};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Buf, Bytes, Frame, Incoming, SizeHint};

use super::length::Left;
use crate::Builder;
use crate::chan::{Receiver, Sender, bounded};
use crate::future::{Sleep, block_on, sleep};

/// The body of a request, which the handler reads, or of a response, made from bytes, from a reader, or from
/// a function that writes it.
///
/// ```
/// use gort::http::Body;
/// use std::io::{Read, Write};
/// let known = Body::from("some text");
/// let read = Body::from_reader(std::io::repeat(b'x').take(1 << 20));
/// let written = Body::from_writer(|out| (0..1000).try_for_each(|n| writeln!(out, "line {n}")));
/// # let _ = (known, read, written);
/// let mut text = String::new();
/// Body::from("abc").read_to_string(&mut text).unwrap();
/// assert_eq!(text, "abc");
/// ```
#[derive(Default)]
pub struct Body(Kind);

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Bytes(Bytes),
    Request(Box<Upload>),
    Reader(Box<dyn Read + Send>),
    Pieces(Box<Pieces>),
    Writer(Option<WriteFn>, &'static Location<'static>),
    /// A response's body of unknown length, and the length that the handler has set for it.
    Declared(Box<(Body, Left)>),
}

type WriteFn = Box<dyn FnOnce(&mut BodyWriter) -> io::Result<()> + Send>;

/// A request's body that hyper is still receiving.
pub(super) struct Upload {
    incoming: Incoming,
    rest: Bytes,
    /// How many more bytes the server's limit allows.
    left: u64,
    /// How long to wait for the next bytes.
    body_timeout: Duration,
    /// The timer of the current wait.
    timeout: Option<Pin<Box<Sleep>>>,
}

/// A response's body that a goroutine writes, piece by piece.
struct Pieces {
    receiver: Receiver<io::Result<Bytes>>,
    /// The part of the last piece that `Read` has not consumed yet.
    rest: Bytes,
    waiting: Option<crate::chan::RecvFuture<'static, io::Result<Bytes>>>,
}

/// The size, in bytes, of the buffer for one read, and the amount that a [`BodyWriter`] collects before it
/// sends.
const PIECE: usize = 16 << 10;

impl Body {
    /// No body.
    #[must_use]
    pub fn empty() -> Body {
        Body(Kind::Empty)
    }

    /// A response body that is read from `reader` while it is sent, by the goroutine that polls the
    /// connection.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Body {
        Body(Kind::Reader(Box::new(reader)))
    }

    /// A response body that `write` writes, in a goroutine of its own, as fast as the client accepts it. If
    /// `write` fails or panics, the server cuts the connection off, so that the client does not mistake the
    /// part that it has received for the whole.
    #[track_caller]
    pub fn from_writer(write: impl FnOnce(&mut BodyWriter) -> io::Result<()> + Send + 'static) -> Body {
        Body(Kind::Writer(Some(Box::new(write)), Location::caller()))
    }

    /// The body, of which at most `length` bytes are sent; fewer are an error.
    pub(super) fn declared(self, length: u64) -> Body {
        Body(Kind::Declared(Box::new((self, Left::new(length)))))
    }

    /// Reads the whole body into memory.
    ///
    /// # Errors
    /// If reading the body fails.
    pub fn into_bytes(mut self) -> io::Result<Bytes> {
        match self.0 {
            Kind::Empty => Ok(Bytes::new()),
            Kind::Bytes(bytes) => Ok(bytes),
            _ => {
                let mut bytes = Vec::new();
                self.read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }

    /// The body, if all of it is in memory.
    pub(super) fn in_memory(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Empty => Some(&[]),
            Kind::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Moves the reading of a `Reader` body to a goroutine of its own. The handler of a request whose body is
    /// still being received may return a reader of that very body. Such a read makes progress only while the
    /// connection is polled, so the goroutine that polls the connection must not block in it. `site` is where
    /// reports say that the goroutine was started.
    pub(super) fn read_elsewhere(self, site: &'static Location<'static>) -> Body {
        match self.0 {
            Kind::Reader(mut reader) => {
                let write: WriteFn = Box::new(move |out| {
                    // Sends the result of each read at once, like `poll_frame` does.
                    while let piece @ [_, ..] = &*read_piece(&mut reader)? {
                        out.write_all(piece)?;
                        out.flush()?;
                    }
                    Ok(())
                });
                Body(Kind::Writer(Some(write), site))
            }
            Kind::Declared(declared) => {
                let (body, left) = *declared;
                Body(Kind::Declared(Box::new((body.read_elsewhere(site), left))))
            }
            _ => self,
        }
    }

    /// The pieces of a body that a function writes. The first call starts the goroutine that runs the
    /// function.
    fn pieces(&mut self) -> Option<&mut Pieces> {
        if let Kind::Writer(write, site) = &mut self.0 {
            let write = write.take()?;
            let (sender, receiver) = bounded(2);
            let failed = sender.clone();
            if let Err(error) = Builder::new().spawn_at(site, move || BodyWriter::run(sender, write)) {
                let _fits = failed.send(Err(error));
            }
            self.0 = Kind::Pieces(Box::new(Pieces { receiver, rest: Bytes::new(), waiting: None }));
        }
        match &mut self.0 {
            Kind::Pieces(pieces) => Some(pieces),
            _ => None,
        }
    }
}

impl Upload {
    pub(super) fn new(incoming: Incoming, limit: u64, body_timeout: Duration) -> Upload {
        Upload { incoming, rest: Bytes::new(), left: limit, body_timeout, timeout: None }
    }

    /// The next bytes, or `None` at the end.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.rest))));
        }
        while let Poll::Ready(frame) = hyper::body::Body::poll_frame(Pin::new(&mut self.incoming), context) {
            self.timeout = None;
            match frame {
                None => return Poll::Ready(Ok(None)),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                // Trailers are ignored: `Read` has no place for them.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        let left = self.left.checked_sub(data.len() as u64).ok_or_else(too_large);
                        return Poll::Ready(left.map(|left| {
                            self.left = left;
                            Some(data)
                        }));
                    }
                    _ => {}
                },
            }
        }
        let body_timeout = self.body_timeout;
        ready!(self.timeout.get_or_insert_with(|| Box::pin(sleep(body_timeout))).as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the body comes too slowly")))
    }

    /// Waits for the next bytes. They are empty at the end of the body.
    fn next(&mut self) -> io::Result<&mut Bytes> {
        if self.rest.is_empty() {
            self.rest = block_on(poll_fn(|context| self.poll(context)))?.unwrap_or_default();
        }
        Ok(&mut self.rest)
    }
}

impl From<Upload> for Body {
    fn from(upload: Upload) -> Body {
        Body(Kind::Request(Box::new(upload)))
    }
}

fn too_large() -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, "the body is larger than the server allows")
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = match &mut self.0 {
            Kind::Empty => return Ok(0),
            Kind::Reader(reader) => return reader.read(buf),
            Kind::Declared(declared) => return declared.0.read(buf),
            Kind::Bytes(bytes) => bytes,
            Kind::Request(upload) => upload.next()?,
            Kind::Writer(..) | Kind::Pieces(_) => {
                let Some(pieces) = self.pieces() else { return Ok(0) };
                if pieces.rest.is_empty() {
                    let Ok(piece) = pieces.receiver.recv() else { return Ok(0) };
                    pieces.rest = piece?;
                }
                &mut pieces.rest
            }
        };
        let length = bytes.len().min(buf.len());
        bytes.copy_to_slice(&mut buf[..length]);
        Ok(length)
    }
}

/// The result of one read; empty at the end.
fn read_piece(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; PIECE];
    loop {
        match reader.read(&mut buf) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => {
                buf.truncate(result?);
                return Ok(buf);
            }
        }
    }
}

/// hyper's view of a response body. A goroutine polls it together with the connection, so `poll_frame` may
/// block.
impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut self.0 {
            Kind::Empty => None,
            Kind::Bytes(bytes) => {
                Some(Ok(std::mem::take(bytes))).filter(|piece| !matches!(piece, Ok(b) if b.is_empty()))
            }
            Kind::Request(upload) => ready!(upload.poll(context)).transpose(),
            Kind::Reader(reader) => {
                read_piece(reader).map(|piece| (!piece.is_empty()).then(|| piece.into())).transpose()
            }
            Kind::Writer(..) | Kind::Pieces(_) => match self.pieces() {
                Some(pieces) => ready!(pieces.poll(context)),
                None => None,
            },
            Kind::Declared(declared) => {
                let (body, left) = &mut **declared;
                match ready!(Pin::new(body).poll_frame(context)).transpose() {
                    Ok(frame) => left.count(frame.and_then(|frame| frame.into_data().ok())).transpose(),
                    Err(error) => Some(Err(error)),
                }
            }
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Bytes(bytes) => bytes.is_empty(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

impl Pieces {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.rest))));
        }
        let receiver = &self.receiver;
        let waiting = self.waiting.get_or_insert_with(|| {
            // SAFETY: the receiver does not move, because `Pieces` is always boxed, and `drop` below drops
            // the future before the receiver.
            unsafe { std::mem::transmute(receiver.recv_async()) }
        });
        let piece = ready!(Pin::new(waiting).poll(context));
        self.waiting = None;
        Poll::Ready(piece.ok())
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.waiting = None;
    }
}

/// The writer that [`Body::from_writer`] passes to its function. It collects what the function writes into
/// pieces of 16 kB; `flush` sends the current piece at once.
pub struct BodyWriter {
    sender: Sender<io::Result<Bytes>>,
    collected: Vec<u8>,
}

impl BodyWriter {
    fn run(sender: Sender<io::Result<Bytes>>, write: WriteFn) {
        let mut writer = BodyWriter { sender, collected: Vec::new() };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            write(&mut writer)?;
            writer.flush()
        }));
        let error = match result {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => panicked(&panic),
        };
        let _the_client_is_gone = writer.sender.send(Err(error));
    }
}

fn panicked(payload: &(dyn Any + Send)) -> io::Error {
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    io::Error::other(format!("panicked: {}", text.unwrap_or("?")))
}

impl Write for BodyWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.collected.extend_from_slice(buf);
        if self.collected.len() >= PIECE {
            self.flush()?;
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.collected.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.collected);
        let gone = |_| io::Error::new(ErrorKind::BrokenPipe, "the client has gone");
        self.sender.send(Ok(piece.into())).map_err(gone)
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter").finish_non_exhaustive()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = hyper::body::Body::size_hint(self).exact();
        f.debug_struct("Body").field("size", &size).finish_non_exhaustive()
    }
}

macro_rules! from_bytes {
    ($($type:ty),*) => {
        $(impl From<$type> for Body {
            fn from(bytes: $type) -> Body {
                Body(Kind::Bytes(bytes.into()))
            }
        })*
    };
}

from_bytes!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);
