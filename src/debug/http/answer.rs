//! Answers: whole ones, and streams in chunks.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use socket2::SockRef;

/// What the server sends.
pub(crate) struct Answer {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

enum Body {
    Whole(Cow<'static, [u8]>),
    /// The function writes the body, for at most that long. If it fails before it has written anything, its
    /// error becomes the answer.
    Stream(Duration, Box<WriteBody>),
}

type WriteBody = dyn FnOnce(&Out) -> Result<(), Refusal>;

/// The answer to a request that is not answered: a status from 400 on, and one line that says what was wrong.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) status: u16,
    says: String,
    header: Option<(&'static str, String)>,
}

impl Refusal {
    pub(crate) fn new(status: u16, says: impl Into<String>) -> Refusal {
        Refusal { status, says: says.into(), header: None }
    }

    pub(crate) fn bad_request(says: impl Into<String>) -> Refusal {
        Refusal::new(400, says)
    }

    pub(crate) fn not_found(says: impl Into<String>) -> Refusal {
        Refusal::new(404, says)
    }

    /// What was asked for cannot be had now.
    pub(crate) fn unavailable(says: impl Into<String>) -> Refusal {
        Refusal::new(503, says).with("Retry-After", "1")
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Refusal {
        self.header = Some((name, value.to_owned()));
        self
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let text = format!("{} {}: {}\n", refusal.status, reason(refusal.status), refusal.says);
        let mut answer = Answer::text(text);
        answer.status = refusal.status;
        answer.headers.extend(refusal.header);
        answer
    }
}

impl Answer {
    pub(crate) fn new(content_type: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Answer {
        Answer { status: 200, content_type, headers: Vec::new(), body: Body::Whole(body.into()) }
    }

    pub(crate) fn text(text: String) -> Answer {
        Answer::new("text/plain; charset=utf-8", text.into_bytes())
    }

    pub(crate) fn json(json: String) -> Answer {
        Answer::new("application/json", json.into_bytes())
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Answer {
        let mut answer = Answer::text(format!("see {to}\n")).with("Location", to);
        answer.status = status;
        answer
    }

    /// A body that `write` produces within `limit`.
    pub(crate) fn stream(
        content_type: &'static str,
        limit: Duration,
        write: impl FnOnce(&Out) -> Result<(), Refusal> + 'static,
    ) -> Answer {
        let body = Body::Stream(limit, Box::new(write));
        Answer { status: 200, content_type, headers: Vec::new(), body }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// The name under which a browser saves it.
    pub(crate) fn saved_as(self, name: &str) -> Answer {
        self.with("Content-Disposition", format!("attachment; filename=\"{name}\""))
    }

    fn head(&self, length: Option<usize>, chunked: bool, keep_alive: bool) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        // Writing to a String does not fail.
        let _ = write!(head, "Content-Type: {}\r\nCache-Control: no-store\r\n", self.content_type);
        head.push_str("X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n");
        head.push_str("Cross-Origin-Resource-Policy: same-origin\r\n");
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(length) = length {
            let _ = write!(head, "Content-Length: {length}\r\n");
        } else if chunked {
            head.push_str("Transfer-Encoding: chunked\r\n");
        }
        head.push_str(if keep_alive { "\r\n" } else { "Connection: close\r\n\r\n" });
        head
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        _ => "Service Unavailable",
    }
}

/// The connection, as the writer of one answer. Clones write to the same answer.
#[derive(Clone)]
pub(crate) struct Out {
    stream: Arc<TcpStream>,
    until: Instant,
    /// The server ends.
    stop: Arc<AtomicBool>,
    /// The head of a stream, until it is sent.
    head: Arc<std::sync::Mutex<Option<String>>>,
    chunked: bool,
}

impl Out {
    pub(super) fn new(stream: Arc<TcpStream>, limit: Duration, stop: Arc<AtomicBool>) -> Out {
        Out { stream, until: Instant::now() + limit, stop, head: Arc::default(), chunked: false }
    }

    /// Sends an answer. True: the connection can be used for another one.
    pub(super) fn send(
        self,
        answer: Answer,
        head_only: bool,
        chunks: bool,
        keep_alive: bool,
    ) -> io::Result<bool> {
        match &answer.body {
            Body::Whole(body) => {
                let mut all = answer.head(Some(body.len()), false, keep_alive).into_bytes();
                if !head_only {
                    all.extend_from_slice(body);
                }
                self.send_all(&all)?;
                Ok(keep_alive)
            }
            Body::Stream(..) if head_only => {
                let keep_alive = keep_alive && chunks;
                self.send_all(answer.head(None, chunks, keep_alive).as_bytes())?;
                Ok(keep_alive)
            }
            Body::Stream(..) => self.send_stream(answer, chunks, keep_alive),
        }
    }

    fn send_stream(mut self, answer: Answer, chunks: bool, keep_alive: bool) -> io::Result<bool> {
        let keep_alive = keep_alive && chunks;
        *self.unsent_head() = Some(answer.head(None, chunks, keep_alive));
        self.chunked = chunks;
        let Body::Stream(limit, write) = answer.body else { return Ok(false) };
        self.until = Instant::now() + limit;
        match write(&self) {
            Ok(()) => {
                self.flush_head()?;
                if chunks {
                    self.send_all(b"0\r\n\r\n")?;
                }
                Ok(keep_alive)
            }
            Err(refusal) if self.unsent_head().take().is_some() => {
                self.chunked = false;
                self.send(refusal.into(), false, chunks, keep_alive)
            }
            // Without the last chunk, the client knows that something is missing.
            Err(_) => Ok(false),
        }
    }

    fn unsent_head(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.head.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn flush_head(&self) -> io::Result<()> {
        let head = self.unsent_head().take();
        head.map_or(Ok(()), |head| self.send_all(head.as_bytes()))
    }

    /// Waits, and fails if the client is gone, the time is over, or the server ends.
    pub(crate) fn pause(&self, time: Duration) -> io::Result<()> {
        const STEP: Duration = Duration::from_millis(50);
        let end = Instant::now() + time;
        loop {
            let now = Instant::now();
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::new(ErrorKind::ConnectionAborted, "the debug server ends"));
            }
            if self.is_gone() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if now >= end {
                return Ok(());
            }
            std::thread::sleep(STEP.min(end - now));
        }
    }

    /// Whether the client has closed the connection.
    fn is_gone(&self) -> bool {
        // (O_NONBLOCK would hit a thread that writes at this moment.)
        let mut byte = [MaybeUninit::uninit()];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let peeked = SockRef::from(&self.stream).recv_with_flags(&mut byte, flags);
        let nothing = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
        matches!(peeked, Ok(0)) || peeked.is_err_and(|e| !nothing.contains(&e.kind()))
    }

    fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.flush_head()?;
        if self.chunked {
            let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
            chunk.extend_from_slice(bytes);
            chunk.extend_from_slice(b"\r\n");
            self.send_all(&chunk)?;
        } else {
            self.send_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
