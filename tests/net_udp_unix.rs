//! UDP, Unix sockets, and other descriptors.

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Watchdog, amount};
use gort::io::Pollable;
use gort::net::{Shutdown, UdpSocket, UnixDatagram, UnixListener, UnixStream};

/// A path for a socket, removed at the end.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new() -> SocketPath {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gort-test-{}-{n}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        SocketPath(path)
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Datagrams that come as one edge must wake as many readers as there are datagrams.
#[test]
fn every_datagram_reaches_one_of_many_readers() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (to, from) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        let to = Arc::new(to);
        let (readers, rounds) = (8, amount(200, 5_000));
        let received = Arc::new(AtomicUsize::new(0));
        for round in 1..=rounds {
            let waiters: Vec<_> = (0..readers)
                .map(|_| {
                    let (to, received) = (to.clone(), received.clone());
                    gort::spawn(move || {
                        assert_eq!(to.recv(&mut [0; 8]).unwrap(), 4);
                        received.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            if round % 2 == 0 {
                gort::yield_now();
            }
            for _ in 0..readers {
                from.send(b"data").unwrap();
            }
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(received.load(Ordering::Relaxed), readers * round);
        }
    });
}

#[test]
fn unix_streams_connect_and_talk() {
    let _watchdog = Watchdog::start();
    let path = SocketPath::new();
    gort::run(move || {
        let listener = UnixListener::bind(&path.0).unwrap();
        let server = gort::spawn(move || {
            for stream in listener.incoming().take(50) {
                let stream = stream.unwrap();
                gort::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        let clients: Vec<_> = (0..50u8)
            .map(|n| {
                let path = path.0.clone();
                gort::spawn(move || {
                    let mut stream = UnixStream::connect(path).unwrap();
                    stream.write_all(&[n; 100]).unwrap();
                    stream.shutdown(Shutdown::Write).unwrap();
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).unwrap();
                    assert_eq!(answer, [n; 100]);
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

/// The queue of a Unix listener is full: connects wait until somebody accepts, and hold no processor.
#[test]
fn unix_connects_wait_while_the_queue_is_full() {
    let _watchdog = Watchdog::start();
    let path = SocketPath::new();
    gort::run(move || {
        let listener = UnixListener::bind(&path.0).unwrap();
        let clients: Vec<_> = (0..300)
            .map(|_| {
                let path = path.0.clone();
                gort::spawn(move || UnixStream::connect(path).unwrap())
            })
            .collect();
        for _ in 0..300 {
            listener.accept().unwrap();
        }
        clients.into_iter().for_each(|client| drop(client.join().unwrap()));
    });
}

/// Nobody tells an unconnected sender when there is room again: it must find out.
#[test]
fn a_unix_datagram_to_a_full_queue_is_sent_when_there_is_room() {
    let _watchdog = Watchdog::start();
    let path = SocketPath::new();
    gort::run(move || {
        let to = UnixDatagram::bind(&path.0).unwrap();
        let from = UnixDatagram::unbound().unwrap();
        from.set_nonblocking(true).unwrap();
        let mut queued = 0;
        while from.send_to(b"x", &path.0).is_ok() {
            queued += 1;
        }
        from.set_nonblocking(false).unwrap();
        let more = 20;
        let sender = gort::spawn({
            let path = path.0.clone();
            move || {
                for _ in 0..more {
                    from.send_to(b"x", &path).unwrap();
                }
            }
        });
        for _ in 0..queued + more {
            to.recv(&mut [0; 4]).unwrap();
        }
        sender.join().unwrap();
    });
}

#[test]
fn pipes_wake_their_reader_and_their_writer() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let (mut reader, mut writer) = (Pollable::new(reader), Pollable::new(writer));
        assert!(reader.is_polled() && writer.is_polled());
        let length = 3 << 20; // more than a pipe holds
        let writing = gort::spawn(move || writer.write_all(&vec![9; length]).unwrap());
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), length);
        writing.join().unwrap();
    });
}

#[test]
fn a_closed_pollable_wakes_its_reader_and_a_deadline_does_so() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let reader = Arc::new(Pollable::new(reader));
        let deadline = Instant::now() + Duration::from_millis(5);
        reader.set_read_deadline(Some(deadline));
        assert_eq!((&*reader).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
        reader.set_read_deadline(None);
        let waiting = gort::spawn({
            let reader = reader.clone();
            move || (&*reader).read(&mut [0; 1]).unwrap_err().kind()
        });
        gort::yield_now();
        reader.close();
        assert_eq!(waiting.join().unwrap(), ErrorKind::ConnectionAborted);
    });
}

#[test]
fn a_regular_file_is_read_by_blocking() {
    gort::run(|| {
        let path = SocketPath::new();
        let file = File::create_new(&path.0).unwrap();
        let mut file = Pollable::new(file);
        assert!(!file.is_polled());
        file.write_all(b"content").unwrap();
        let mut file = file.into_inner();
        file.seek(SeekFrom::Start(0)).unwrap();
        drop(file);
        let mut text = String::new();
        Pollable::new(File::open(&path.0).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
    });
}

#[test]
fn a_descriptor_comes_back_in_the_mode_it_came_in() {
    use std::os::fd::AsRawFd;
    let is_nonblocking = |fd: i32| {
        // SAFETY: no memory is passed.
        (unsafe { libc::fcntl(fd, libc::F_GETFL) }) & libc::O_NONBLOCK != 0
    };
    let (reader, _writer) = std::io::pipe().unwrap();
    let reader = Pollable::new(reader);
    assert!(is_nonblocking(reader.as_raw_fd()));
    let reader = reader.into_inner();
    assert!(!is_nonblocking(reader.as_raw_fd()));
}
