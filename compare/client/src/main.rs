//! A load generator for echo servers: `compare-client ADDRESS CONNECTIONS MILLIS`.
//!
//! One thread, one epoll instance, no runtime of anybody's. Each connection sends 64 bytes, waits for them to come back,
//! and sends again. After a quarter of the time to warm up it prints `start`, then measures for MILLIS, and prints
//! `requests nanoseconds p50 p99`, the latter two also in nanoseconds.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

const MESSAGE: usize = 64;

struct Connection {
    stream: TcpStream,
    received: usize,
    sent_at: Instant,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, millis] = &words[..] else {
        eprintln!("usage: compare-client ADDRESS CONNECTIONS MILLIS");
        std::process::exit(2);
    };
    let parsed = (address.parse(), connections.parse(), millis.parse());
    let (Ok(address), Ok(connections), Ok(millis)) = parsed else {
        eprintln!("an address and two numbers, please");
        std::process::exit(2);
    };
    if let Err(error) = run(address, connections, Duration::from_millis(millis)) {
        eprintln!("the client failed: {error}");
        std::process::exit(1);
    }
}

fn run(address: SocketAddr, count: usize, time: Duration) -> io::Result<()> {
    // SAFETY: no memory is passed, and the descriptor is ours.
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
        connections.push(Connection { stream, received: 0, sent_at: Instant::now() });
    }
    for connection in &mut connections {
        connection.send()?;
    }
    serve(&epoll, &mut connections, time / 4, &mut Vec::new())?;
    println!("start");
    let mut latencies = Vec::with_capacity(4 << 20);
    let start = Instant::now();
    serve(&epoll, &mut connections, time, &mut latencies)?;
    let elapsed = start.elapsed();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    if latencies.is_empty() {
        return Err(io::Error::other("no answer came"));
    }
    println!("{} {} {} {}", latencies.len(), elapsed.as_nanos(), at(0.5), at(0.99));
    Ok(())
}

/// Answers answers until the time is over.
fn serve(
    epoll: &OwnedFd,
    connections: &mut [Connection],
    time: Duration,
    latencies: &mut Vec<u64>,
) -> io::Result<()> {
    let end = Instant::now() + time;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 512];
    while Instant::now() < end {
        // SAFETY: the kernel writes as many events as there is room for.
        let ready = check(unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, 100)
        })?;
        for event in &events[..ready as usize] {
            let connection = &mut connections[event.u64 as usize];
            if connection.receive()? {
                latencies.push(connection.sent_at.elapsed().as_nanos() as u64);
                connection.send()?;
            }
        }
    }
    Ok(())
}

impl Connection {
    fn send(&mut self) -> io::Result<()> {
        self.received = 0;
        self.sent_at = Instant::now();
        // 64 bytes always fit: the last ones were answered.
        self.stream.write_all(&[b'x'; MESSAGE])
    }

    /// True: the answer is complete.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buf = [0; MESSAGE];
        match self.stream.read(&mut buf[self.received..]) {
            Ok(0) => Err(io::Error::other("the server closed a connection")),
            Ok(length) => {
                self.received += length;
                Ok(self.received == MESSAGE)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
