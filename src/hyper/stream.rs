//! Lets hyper read and write gort's sockets: implementations of hyper's `Read` and `Write` traits.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll, ready};

use hyper::rt::ReadBufCursor;

use crate::io::core::Io;
use crate::io::polled::Polls;
use crate::net::{TcpStream, UnixStream};
use crate::netpoll::Direction;
use crate::sys::fd;

/// A socket that can be polled: [`TcpStream`](crate::net::TcpStream) or
/// [`UnixStream`](crate::net::UnixStream).
pub(crate) trait AsyncStream {
    type Inner: AsFd;
    /// Whether a read that returns fewer bytes than asked for has emptied the socket. True for TCP only.
    const SHORT_READ_EMPTIES: bool;
    fn io(&self) -> &Io<Self::Inner>;
    fn shut_down(inner: &Self::Inner) -> io::Result<()>;
}

impl AsyncStream for TcpStream {
    type Inner = std::net::TcpStream;
    const SHORT_READ_EMPTIES: bool = true;

    fn io(&self) -> &Io<std::net::TcpStream> {
        TcpStream::io(self)
    }

    fn shut_down(inner: &std::net::TcpStream) -> io::Result<()> {
        inner.shutdown(Shutdown::Write)
    }
}

impl AsyncStream for UnixStream {
    type Inner = std::os::unix::net::UnixStream;
    const SHORT_READ_EMPTIES: bool = false;

    fn io(&self) -> &Io<std::os::unix::net::UnixStream> {
        UnixStream::io(self)
    }

    fn shut_down(inner: &std::os::unix::net::UnixStream) -> io::Result<()> {
        inner.shutdown(Shutdown::Write)
    }
}

/// One of gort's streams, for use by hyper. Read and write timeouts that were set on the stream have no
/// effect here.
///
/// ```
/// use gort::net::{TcpListener, TcpStream};
/// let listener = TcpListener::bind("127.0.0.1:0").unwrap();
/// let stream = gort::hyper::Stream::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
/// assert_eq!(stream.get_ref().peer_addr().unwrap(), listener.local_addr().unwrap());
/// let _again: TcpStream = stream.into_inner();
/// ```
#[allow(private_bounds, reason = "only gort implements `AsyncStream`")]
pub struct Stream<S: AsyncStream> {
    stream: ManuallyDrop<S>,
    polls: Polls,
}

#[allow(private_bounds, reason = "only gort implements `AsyncStream`")]
impl<S: AsyncStream> Stream<S> {
    /// Wraps a stream so that hyper can use it.
    pub fn new(stream: S) -> Stream<S> {
        Stream { stream: ManuallyDrop::new(stream), polls: Polls::default() }
    }

    /// The stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Gives the stream back, for blocking use.
    pub fn into_inner(self) -> S {
        let mut this = ManuallyDrop::new(self);
        let this = &mut *this;
        this.stream.io().stop_polls(&mut this.polls);
        // SAFETY: the field is not used again, because `this` is never dropped. `polls` holds no registration
        // any more, so nothing else needs to be dropped.
        unsafe { ManuallyDrop::take(&mut this.stream) }
    }
}

#[allow(private_bounds, reason = "only gort implements `AsyncStream`")]
impl<S: AsyncStream> Stream<S> {
    /// Reads the available bytes into `room`, which must not be empty. Returns no bytes at the end of the
    /// stream.
    pub(crate) fn poll_receive<'a>(
        &mut self,
        context: &mut Context<'_>,
        room: &'a mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<&'a [u8]>> {
        let (io, polls, wanted) = (self.stream.io(), &mut self.polls, room.len());
        let attempt = |inner: &S::Inner| fd::recv_uninit(inner.as_fd(), room);
        let length = ready!(if S::SHORT_READ_EMPTIES {
            io.poll_read_stream(polls, context, wanted, attempt)
        } else {
            io.poll(polls, Direction::Read, context, attempt)
        })?;
        // SAFETY: the read has initialised the first `length` bytes.
        Poll::Ready(Ok(unsafe { slice::from_raw_parts(room.as_ptr().cast(), length) }))
    }
}

#[cfg(feature = "http")]
impl Stream<TcpStream> {
    /// How many of the bytes written the client has not taken yet.
    pub(crate) fn untaken(&self) -> usize {
        fd::unacknowledged(self.stream.io().inner().as_fd())
    }
}

impl<S: AsyncStream> Drop for Stream<S> {
    fn drop(&mut self) {
        self.stream.io().stop_polls(&mut self.polls);
        // SAFETY: the field is not used again: this is the drop of the whole.
        unsafe { ManuallyDrop::drop(&mut self.stream) };
    }
}

// No field is ever pinned.
impl<S: AsyncStream> Unpin for Stream<S> {}

impl<S: AsyncStream> hyper::rt::Read for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // SAFETY: `poll_receive` only writes to the buffer; it never makes initialised bytes uninitialised.
        let room = unsafe { buf.as_mut() };
        let length = ready!(self.poll_receive(context, room))?.len();
        // SAFETY: the read has initialised `length` bytes.
        unsafe { buf.advance(length) };
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncStream> hyper::rt::Write for Stream<S>
where
    for<'a> &'a S::Inner: Write,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.stream
            .io()
            .poll(&mut this.polls, Direction::Write, context, |inner| fd::send(inner.as_fd(), buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(S::shut_down(self.stream.io().inner()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut room = [0; SMALL];
        if let Some(together) = join(bufs, &mut room) {
            return self.poll_write(context, together);
        }
        let this = &mut *self;
        this.stream
            .io()
            .poll(&mut this.polls, Direction::Write, context, |mut inner| inner.write_vectored(bufs))
    }
}

/// The largest size, in bytes, up to which a list of pieces is copied together and written as one: for so few
/// bytes a plain send costs the kernel less than a vectored write.
const SMALL: usize = 512;

/// Copies the pieces into `room`, if they fit.
fn join<'a>(pieces: &[IoSlice<'_>], room: &'a mut [u8; SMALL]) -> Option<&'a [u8]> {
    let mut length = 0;
    for piece in pieces {
        room.get_mut(length..length + piece.len())?.copy_from_slice(piece);
        length += piece.len();
    }
    Some(&room[..length])
}

impl<S: AsyncStream + fmt::Debug> fmt::Debug for Stream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&*self.stream).finish()
    }
}
