//! A plain server without a runtime, as a yardstick: P threads with an epoll instance each. It takes the
//! result of each read for one whole request and answers it at once. It parses nothing, schedules nothing and
//! enforces no limits. So its cost is about the cost of the kernel.
//!
//! Two measures reduce that cost to the lowest value that was found. A connection moves to the thread of the
//! CPU on which its packets are processed. And the threads have the policy SCHED_BATCH, so that they do not
//! preempt a client that is about to send more.

use compare_common::{Args, Lateness, Lcg, Outcome, SLEEPERS_REPEAT, echo_report, http_report, rate_report};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

/// The answer to each request: always these bytes, or `None` to send back the bytes that were read.
type Answer = Option<&'static [u8]>;

/// An answer as long as that of the other peers.
const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 13\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nHello, World!";

pub fn tcp_echo(args: &Args) -> Outcome {
    echo_report(start(args.procs, None).map_err(|e| e.to_string())?, args.size(64))
}

pub fn echo_rate(args: &Args) -> Outcome {
    rate_report(start(args.procs, None).map_err(|e| e.to_string())?, args.size(1000))
}

pub fn http_hello(args: &Args) -> Outcome {
    http_report(start(args.procs, Some(HELLO)).map_err(|e| e.to_string())?, args.size(64), "/")
}

/// Timers without a runtime: one thread waits for the earliest of them, by epoll as a runtime would, and then
/// serves all that are due.
pub fn timers(args: &Args) -> Outcome {
    let n = args.size(500);
    // SAFETY: the call passes no memory, and returns a new descriptor that nothing else owns.
    let epoll = unsafe {
        OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).map_err(|e| e.to_string())?)
    };
    let late = Lateness::begin();
    let start = Instant::now();
    let mut naps: Vec<_> = (0..n).map(|i| Lcg::new(i).naps().collect::<Vec<_>>().into_iter()).collect();
    let mut due: BinaryHeap<_> =
        (0..n as usize).filter_map(|i| naps[i].next().map(|nap| Reverse((nap, i)))).collect();
    let (mut total, mut served) = (Duration::ZERO, 0);
    while let Some(Reverse((earliest, _))) = due.peek() {
        wait_for(&epoll, earliest.saturating_sub(start.elapsed()));
        let now = start.elapsed();
        while let Some(&Reverse((when, i))) = due.peek()
            && when <= now
        {
            due.pop();
            total += start.elapsed() - when;
            served += 1;
            due.extend(naps[i].next().map(|nap| Reverse((start.elapsed() + nap, i))));
        }
    }
    assert_eq!(served, n * SLEEPERS_REPEAT, "a timer was lost");
    Ok(late.report(n, total.as_nanos() as u64))
}

/// Waits that long with nothing to wait for.
fn wait_for(epoll: &OwnedFd, time: Duration) {
    let time = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: the kernel reads the time and writes at most one event.
    unsafe { libc::epoll_pwait2(epoll.as_raw_fd(), &raw mut event, 1, &raw const time, ptr::null()) };
}

fn start(threads: usize, answer: Answer) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    // SAFETY: the call passes no memory, and returns a new descriptor that nothing else owns.
    let instance = |_| unsafe { Ok(OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?)) };
    let instances = (0..threads).map(instance).collect::<io::Result<Vec<_>>>()?;
    // The instances are needed until the process ends.
    let instances: &'static [OwnedFd] = instances.leak();
    for own in 0..threads {
        thread::spawn(move || serve(instances, own, answer));
    }
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let connection = Connection { stream, requests: 0 };
            connection.prepare().expect("a TCP socket");
            // From now on the event's data owns the connection. `serve` drops it when the connection ends.
            add(&instances[number % threads], Box::into_raw(Box::new(connection)));
        }
    });
    Ok(address)
}

struct Connection {
    stream: TcpStream,
    requests: u32,
}

impl Connection {
    fn prepare(&self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_nonblocking(true)
    }

    /// Every 16th request: the CPU on which the connection's packets are processed.
    fn home(&mut self) -> Option<usize> {
        self.requests += 1;
        if !self.requests.is_multiple_of(16) {
            return None;
        }
        let (mut cpu, mut length) = (-1i32, size_of::<i32>() as libc::socklen_t);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_INCOMING_CPU);
        // SAFETY: the kernel writes one int and its length.
        unsafe {
            libc::getsockopt(self.stream.as_raw_fd(), level, option, (&raw mut cpu).cast(), &raw mut length);
        }
        usize::try_from(cpu).ok()
    }
}

/// Registers the connection with `instance`, so that the thread of that instance serves it.
fn add(instance: &OwnedFd, connection: *mut Connection) {
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    let mut event = libc::epoll_event { events, u64: connection as u64 };
    // SAFETY: the caller owns the connection until the call registers it. The kernel reads one event.
    let added = unsafe {
        let descriptor = (*connection).stream.as_raw_fd();
        libc::epoll_ctl(instance.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event)
    };
    check(added).expect("a socket can be waited for");
}

fn serve(instances: &[OwnedFd], own: usize, answer: Answer) {
    let epoll = instances[own].as_raw_fd();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let mut buf = [0; 4096];
    // SAFETY: all zeroes is a valid parameter.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &std::mem::zeroed()) };
    loop {
        // SAFETY: the kernel writes at most as many events as the array has room for.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), events.len() as i32, -1) };
        for event in &events[..ready.max(0) as usize] {
            let address = event.u64 as *mut Connection;
            // SAFETY: `start` created the connection, and only this thread's instance reports events for it.
            let connection = unsafe { &mut *address };
            let over = match connection.stream.read(&mut buf) {
                Ok(0) => true,
                Ok(length) => connection.stream.write_all(answer.unwrap_or(&buf[..length])).is_err(),
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            };
            if over {
                // SAFETY: `start` boxed the connection, and only this thread uses it. A batch has at most one
                // event for each connection, and the drop closes the socket, so no later event has this
                // address.
                drop(unsafe { Box::from_raw(address) });
            } else if let Some(home) = connection.home().map(|cpu| cpu % instances.len())
                && home != own
            {
                let descriptor = connection.stream.as_raw_fd();
                // SAFETY: the call passes no memory. After it no instance reports the connection, until `add`
                // registers it again.
                unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, descriptor, ptr::null_mut()) };
                add(&instances[home], address);
            }
        }
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
