//! TCP: many connections, half-closes, resets, closing, foreign threads.

#[path = "../common/mod.rs"]
mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Hogs, Procs, Watchdog, amount, connected_pair, listen, until};
use gort::net::{Shutdown, TcpListener, TcpStream};

/// Raises the limit of open descriptors to the hard limit, which must allow `wanted`.
fn raise_descriptor_limit(wanted: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes and reads one rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    assert!(limit.rlim_cur >= wanted, "the test needs {wanted} descriptors, {} are allowed", limit.rlim_cur);
}

fn echo(stream: TcpStream) {
    let mut buf = [0; 4096];
    loop {
        match (&stream).read(&mut buf) {
            Ok(0) => return,
            Ok(length) => (&stream).write_all(&buf[..length]).unwrap(),
            Err(error) => panic!("the echo server read {error}"),
        }
    }
}

#[test]
fn many_connections_echo_without_an_error() {
    let _watchdog = Watchdog::start();
    let (connections, rounds) = (amount(1_000, 8_000), 10);
    raise_descriptor_limit(2 * connections as u64 + 100);
    gort::run(move || {
        let (listener, address) = listen();
        gort::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                gort::spawn(move || echo(stream));
            }
        });
        let (connected, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..connections)
            .map(|client| {
                let (connected, finished) = (connected.clone(), finished.clone());
                gort::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    connected.fetch_add(1, Ordering::Relaxed);
                    // All connections are open at once.
                    until("all are connected", || {
                        gort::sleep(Duration::from_millis(1));
                        connected.load(Ordering::Relaxed) == connections
                    });
                    for round in 0..rounds {
                        let sent = format!("{client:>32}{round:>32}");
                        stream.write_all(sent.as_bytes()).unwrap();
                        let mut answer = [0; 64];
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(answer, sent.as_bytes());
                    }
                    finished.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        assert_eq!(finished.load(Ordering::Relaxed), connections);
    });
}

#[test]
fn a_goroutine_for_each_direction_moves_more_than_the_buffers_hold() {
    let _watchdog = Watchdog::start();
    const LENGTH: usize = 32 << 20;
    gort::run(|| {
        let (client, server) = connected_pair();
        let server = gort::spawn(move || echo(server));
        let client = Arc::new(client);
        let writer = gort::spawn({
            let client = client.clone();
            move || {
                let chunk: Vec<u8> = (0..=255).cycle().take(64 << 10).collect();
                for _ in 0..LENGTH / chunk.len() {
                    (&*client).write_all(&chunk).unwrap();
                }
                client.shutdown(Shutdown::Write).unwrap();
            }
        });
        let mut received = 0usize;
        let mut buf = vec![0; 100_000];
        loop {
            let length = (&*client).read(&mut buf).unwrap();
            if length == 0 {
                break;
            }
            for (i, byte) in buf[..length].iter().enumerate() {
                assert_eq!(usize::from(*byte), (received + i) % 256);
            }
            received += length;
        }
        assert_eq!(received, LENGTH);
        writer.join().unwrap();
        server.join().unwrap();
    });
}

#[test]
fn after_a_half_close_the_other_direction_works() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (mut client, mut server) = connected_pair();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        server.write_all(b"answer").unwrap();
        drop(server);
        text.clear();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");
        assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_half_close_wakes_a_reader_that_waits() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        for _ in 0..amount(200, 10_000) {
            let (client, mut server) = connected_pair();
            let reader = gort::spawn(move || server.read(&mut [0; 8]).unwrap());
            gort::yield_now();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(reader.join().unwrap(), 0);
        }
    });
}

#[test]
fn a_reset_wakes_readers_and_writers() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        for _ in 0..amount(100, 10_000) {
            let (client, server) = connected_pair();
            let server = Arc::new(server);
            let reader = gort::spawn({
                let server = server.clone();
                move || (&*server).read(&mut [0; 8])
            });
            let writer = gort::spawn(move || {
                let chunk = vec![0; 1 << 20];
                loop {
                    if let Err(error) = (&*server).write(&chunk) {
                        return error.kind();
                    }
                }
            });
            gort::yield_now();
            client.set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            // The first of the two gets the reset. The other may see the end of the stream.
            let read = reader.join().unwrap();
            assert!(
                matches!(&read, Ok(0))
                    || read.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionReset),
                "the reader got {read:?}"
            );
            let write = writer.join().unwrap();
            assert!(matches!(write, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{write:?}");
        }
    });
}

#[test]
fn close_wakes_every_reader_and_accepter() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        for round in 0..amount(100, 10_000) {
            let (listener, address) = listen();
            let listener = Arc::new(listener);
            let client = TcpStream::connect(address).unwrap();
            let server = Arc::new(listener.accept().unwrap().0);
            let mut waiters = Vec::new();
            for _ in 0..3 {
                let (listener, server) = (listener.clone(), server.clone());
                waiters.push(gort::spawn(move || listener.accept().unwrap_err().kind()));
                waiters.push(gort::spawn(move || (&*server).read(&mut [0; 8]).unwrap_err().kind()));
            }
            for _ in 0..round % 4 {
                gort::yield_now();
            }
            listener.close();
            server.close();
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), ErrorKind::ConnectionAborted);
            }
            assert_eq!((&*server).write(b"x").unwrap_err().kind(), ErrorKind::ConnectionAborted);
            drop(client);
        }
    });
}

#[test]
fn shutdown_of_a_clone_wakes_the_reader_and_dropping_it_does_not() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (mut client, server) = connected_pair();
        let clone = server.try_clone().unwrap();
        let read = Arc::new(AtomicUsize::new(0));
        let reader = gort::spawn({
            let read = read.clone();
            move || {
                let mut buf = [0; 8];
                read.store((&server).read(&mut buf).unwrap(), Ordering::Relaxed);
                (&server).read(&mut buf).unwrap()
            }
        });
        drop(clone.try_clone().unwrap());
        gort::yield_now();
        client.write_all(b"123").unwrap();
        until("the first read is over", || read.load(Ordering::Relaxed) == 3);
        clone.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn every_connection_is_accepted_by_one_of_many_accepters() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let connections = amount(500, 5_000);
        let (listener, address) = listen();
        let listener = Arc::new(listener);
        let accepted = Arc::new(AtomicUsize::new(0));
        let accepters: Vec<_> = (0..8)
            .map(|_| {
                let (listener, accepted) = (listener.clone(), accepted.clone());
                gort::spawn(move || {
                    while let Ok((stream, _)) = listener.accept() {
                        accepted.fetch_add(1, Ordering::Relaxed);
                        drop(stream);
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..10)
            .map(|_| {
                gort::spawn(move || {
                    for _ in 0..connections / 10 {
                        let mut stream = TcpStream::connect(address).unwrap();
                        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(accepted.load(Ordering::Relaxed), connections);
        listener.close();
        accepters.into_iter().for_each(|accepter| accepter.join().unwrap());
    });
}

#[test]
fn plain_threads_and_goroutines_talk_to_each_other() {
    let _watchdog = Watchdog::start();
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        for _ in 0..8 {
            let stream = listener.accept().unwrap().0;
            std::thread::spawn(move || echo(stream));
        }
    });
    let client = move |n: u32| {
        let mut stream = TcpStream::connect(address).unwrap();
        for round in 0..200u32 {
            let sent = [n.to_le_bytes(), round.to_le_bytes()].concat();
            stream.write_all(&sent).unwrap();
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, sent[..]);
        }
    };
    let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || client(n))).collect();
    let goroutines: Vec<_> = (4..8).map(|n| gort::spawn(move || client(n))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    goroutines.into_iter().for_each(|goroutine| goroutine.join().unwrap());
    server.join().unwrap();
}

/// Only threads that are not gort's wait. An M must poll for them.
#[test]
fn a_thread_is_woken_when_all_processors_are_idle() {
    let _watchdog = Watchdog::start();
    for _ in 0..amount(200, 5_000) {
        let (client, mut server) = connected_pair();
        let reader = std::thread::spawn(move || server.read(&mut [0; 8]).unwrap());
        std::thread::yield_now();
        (&client).write_all(b"1234").unwrap();
        assert_eq!(reader.join().unwrap(), 4);
    }
}

/// The only P is in a blocking call. When sysmon retakes it, an M must poll.
#[test]
fn io_goes_on_while_the_only_processor_is_in_a_blocking_call() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let (client, mut server) = connected_pair();
        let reader = gort::spawn(move || server.read(&mut [0; 8]).unwrap());
        gort::yield_now();
        gort::blocking(|| {
            std::thread::sleep(Duration::from_millis(60));
            std::thread::spawn(move || (&client).write_all(b"x").unwrap()).join().unwrap();
            until("the reader has read", || reader.is_finished());
        });
        assert_eq!(reader.join().unwrap(), 1);
    });
}

/// All Ps compute, so sysmon must poll.
#[test]
fn io_goes_on_while_all_processors_compute() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let (mut client, server) = connected_pair();
        gort::spawn(move || echo(server));
        let _hogs = Hogs::start(4);
        for _ in 0..5 {
            client.write_all(b"ping").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
        }
    });
}

#[test]
fn connecting_to_nobody_fails() {
    gort::run(|| {
        let (listener, address) = listen();
        drop(listener);
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(
            TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
    });
}

#[test]
fn names_are_resolved() {
    gort::run(|| {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("localhost", port)).unwrap();
        assert!(TcpStream::connect("nobody.invalid:1").is_err());
    });
}

#[test]
fn sockets_change_from_and_to_those_of_std() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let timeout = client.read_timeout().unwrap(); // as the kernel rounds it
        let (server, _) = listener.accept().unwrap();
        let client = TcpStream::from(client);
        assert_eq!(client.read_timeout().unwrap(), timeout);
        assert_eq!((&client).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut server = TcpStream::from(std::os::fd::OwnedFd::from(server));
        server.write_all(b"1").unwrap();
        assert_eq!((&client).read(&mut [0; 1]).unwrap(), 1);
        // Back to std: blocking again, with the timeout.
        let client = std::net::TcpStream::from(client);
        assert_eq!(client.read_timeout().unwrap(), timeout);
        assert_eq!((&client).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.set_read_timeout(None).unwrap();
        let reader = std::thread::spawn(move || (&client).read(&mut [0; 1]).unwrap());
        server.write_all(b"2").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}
