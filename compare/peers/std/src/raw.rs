//! A plain server without a runtime, as a yardstick: P threads with an epoll instance each, among which the connections are
//! dealt out. What comes in is taken for one whole request and answered at once; nothing is parsed, nobody is scheduled, no
//! limits are kept. What this costs is about the price of the kernel.

use compare_common::{Args, Outcome, echo_report, http_report};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;

/// What it answers: the bytes that came, or always the same.
type Answer = Option<&'static [u8]>;

/// As long as what the others answer.
const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 13\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nHello, World!";

pub fn tcp_echo(args: &Args) -> Outcome {
    echo_report(start(args.procs, None).map_err(|e| e.to_string())?, args.size(64))
}

pub fn http_hello(args: &Args) -> Outcome {
    http_report(start(args.procs, Some(HELLO)).map_err(|e| e.to_string())?, args.size(64), "/")
}

fn start(threads: usize, answer: Answer) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let servers = (0..threads).map(|_| Server::start(answer)).collect::<io::Result<Vec<_>>>()?;
    thread::spawn(move || {
        for (stream, server) in listener.incoming().flatten().zip(servers.iter().cycle()) {
            server.add(stream).expect("a socket can be waited for");
        }
    });
    Ok(address)
}

/// A thread's epoll instance.
struct Server(OwnedFd);

impl Server {
    fn start(answer: Answer) -> io::Result<Server> {
        // SAFETY: no memory is passed, and the descriptor is ours.
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        let own = epoll.try_clone()?;
        thread::spawn(move || serve(&own, answer));
        Ok(Server(epoll))
    }

    /// The stream is the event's data from now on, and dropped at its end.
    fn add(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let descriptor = stream.as_raw_fd();
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: Box::into_raw(Box::new(stream)) as u64 };
        // SAFETY: the kernel reads one event.
        check(unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event)
        })?;
        Ok(())
    }
}

fn serve(epoll: &OwnedFd, answer: Answer) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let mut buf = [0; 4096];
    loop {
        // SAFETY: the kernel writes as many events as there is room for.
        let ready =
            unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1) };
        for event in &events[..ready.max(0) as usize] {
            let stream = event.u64 as *mut TcpStream;
            // SAFETY: made by `add`, and only this thread hears of it.
            let connection = unsafe { &mut *stream };
            let over = match connection.read(&mut buf) {
                Ok(0) => true,
                Ok(length) => connection.write_all(answer.unwrap_or(&buf[..length])).is_err(),
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            };
            if over {
                // SAFETY: as above; closed, it has no events any more, and it had one in this batch.
                drop(unsafe { Box::from_raw(stream) });
            }
        }
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
