//! A load generator for the network workloads: `compare-client ADDRESS CONNECTIONS MILLIS [PATH | @RATE]`.
//!
//! It has one thread and one epoll instance, and uses none of the runtimes. Each connection sends 64 bytes,
//! waits until they come back, and sends again. The client warms up for a quarter of MILLIS, prints `start`,
//! measures for MILLIS, and prints `requests nanoseconds p50 p99`; the percentiles are in nanoseconds, too.
//! With a PATH, wrk sends GET requests instead: for one second to warm up, and then for MILLIS, rounded up to
//! seconds. With @RATE, the client sends that many requests a second, evenly spaced and over the connections
//! in turn (`paced.rs`), instead of as many as it can.
//!
//! If MILLIS is 0, the client uses each connection once (with a PATH for a GET request) and keeps it open. It
//! prints `start` and ends when its standard input ends.

mod paced;
mod wrk;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

const MESSAGE: usize = 64;

struct Connection {
    stream: TcpStream,
    /// The part of the answer that has arrived.
    received: Vec<u8>,
    /// The length of the whole answer, if it is known.
    expected: Option<usize>,
    sent_at: Instant,
}

/// What each connection sends.
struct Request {
    bytes: Vec<u8>,
    http: bool,
}

impl Request {
    /// The length of the answer that begins with `bytes`; `None` if its head is not complete yet.
    fn answer_length(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if !self.http {
            return Ok(Some(MESSAGE));
        }
        let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        if !text.starts_with("http/1.1 200") {
            return Err(io::Error::other(format!("the server answered {text}")));
        }
        let length = text.split("\r\ncontent-length:").nth(1).and_then(|rest| rest.lines().next());
        match length.and_then(|length| length.trim().parse::<usize>().ok()) {
            Some(length) => Ok(Some(head + 4 + length)),
            None => Err(io::Error::other(format!("no length in {text}"))),
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (first, path) = words.split_at(words.len().min(3));
    let ([address, connections, millis], [] | [_]) = (first, path) else {
        eprintln!("usage: compare-client ADDRESS CONNECTIONS MILLIS [PATH | @RATE]");
        std::process::exit(2);
    };
    let rate = path.first().and_then(|word| word.strip_prefix('@'));
    let path = if rate.is_some() { &[] } else { path };
    let request = match path.first() {
        Some(path) => {
            Request { bytes: format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes(), http: true }
        }
        None => Request { bytes: vec![b'x'; MESSAGE], http: false },
    };
    let parsed = (address.parse(), connections.parse(), millis.parse(), rate.unwrap_or("1").parse());
    let (Ok(address), Ok(connections), Ok(millis), Ok(per_second @ 1..)) = parsed else {
        eprintln!("an address and numbers, please");
        std::process::exit(2);
    };
    allow_many_descriptors();
    let time = Duration::from_millis(millis);
    let done = match path.first() {
        Some(path) if !time.is_zero() => wrk::load(address, connections, time, path),
        _ => run(address, connections, time, &request, rate.map(|_| per_second)),
    };
    if let Err(error) = done {
        eprintln!("the client failed: {error}");
        std::process::exit(1);
    }
}

/// `rate`: requests a second; without it, each connection sends again as soon as it has its answer.
fn run(
    address: SocketAddr,
    count: usize,
    time: Duration,
    request: &Request,
    rate: Option<u64>,
) -> io::Result<()> {
    // SAFETY: the call passes no memory, and returns a new descriptor that nothing else owns.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
    let mut connections = Vec::with_capacity(count);
    for index in 0..count {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: index as u64 };
        // SAFETY: the kernel reads one event.
        check(unsafe {
            libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut event)
        })?;
        connections.push(Connection {
            stream,
            received: Vec::new(),
            expected: None,
            sent_at: Instant::now(),
        });
    }
    if time.is_zero() {
        for connection in &mut connections {
            connection.stream.set_nonblocking(false)?;
            connection.send(request)?;
            while !connection.receive(request)? {}
        }
        println!("start");
        return io::stdin().read_to_end(&mut Vec::new()).map(drop);
    }
    if rate.is_none() {
        for connection in &mut connections {
            connection.send(request)?;
        }
    }
    let mut load = |time, latencies: &mut Vec<u64>| match rate {
        Some(rate) => paced::serve(&epoll, &mut connections, time, latencies, request, rate),
        None => serve(&epoll, &mut connections, time, latencies, request),
    };
    load(time / 4, &mut Vec::new())?;
    println!("start");
    let mut latencies = Vec::with_capacity(4 << 20);
    let start = Instant::now();
    load(time, &mut latencies)?;
    let elapsed = start.elapsed();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    if latencies.is_empty() {
        return Err(io::Error::other("no answer came"));
    }
    println!("{} {} {} {}", latencies.len(), elapsed.as_nanos(), at(0.5), at(0.99));
    Ok(())
}

/// Sends the next request for each answer that arrives, until the time is over.
fn serve(
    epoll: &OwnedFd,
    connections: &mut [Connection],
    time: Duration,
    latencies: &mut Vec<u64>,
    request: &Request,
) -> io::Result<()> {
    let end = Instant::now() + time;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 512];
    while Instant::now() < end {
        // SAFETY: the kernel writes at most as many events as the array has room for.
        let ready = check(unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, 100)
        })?;
        for event in &events[..ready as usize] {
            let connection = &mut connections[event.u64 as usize];
            if connection.receive(request)? {
                latencies.push(connection.sent_at.elapsed().as_nanos() as u64);
                connection.send(request)?;
            }
        }
    }
    Ok(())
}

impl Connection {
    fn send(&mut self, request: &Request) -> io::Result<()> {
        self.received.clear();
        self.expected = None;
        self.sent_at = Instant::now();
        // The send buffer always has room: the previous request was answered, and this one is short.
        self.stream.write_all(&request.bytes)
    }

    /// Reads what has arrived. Returns true if the answer is complete.
    fn receive(&mut self, request: &Request) -> io::Result<bool> {
        let mut buf = [0; 4096];
        match self.stream.read(&mut buf) {
            Ok(0) => return Err(io::Error::other("the server closed a connection")),
            Ok(length) => self.received.extend_from_slice(&buf[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.expected.is_none() {
            self.expected = request.answer_length(&self.received)?;
        }
        Ok(self.expected.is_some_and(|expected| self.received.len() >= expected))
    }
}

/// Raises the limit on open descriptors, because each connection needs one.
fn allow_many_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls access only the struct, which is a local variable.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
