//! Timeouts and deadlines. The behaviours of Go's net/timeout_test.go are ported by name, as far as Rust has
//! them: TestDialTimeout, TestDialTimeoutMaxDuration, TestAcceptTimeout, TestAcceptTimeoutMustReturn,
//! TestAcceptTimeoutMustNotReturn, TestReadTimeout, TestReadTimeoutMustNotReturn, TestReadFromTimeout,
//! TestWriteTimeout, TestWriteTimeoutMustNotReturn, TestReadTimeoutFluctuation, TestVariousDeadlines,
//! TestReadWriteProlongedTimeout, TestReadWriteDeadlineRace, TestConcurrentSetDeadline.

#[path = "../common/mod.rs"]
mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Watchdog, amount, connected_pair, until};
use gort::net::{TcpListener, TcpStream, UdpSocket};

const MILLI: Duration = Duration::from_millis(1);

/// Runs `f` in a goroutine and on a plain thread.
fn both(f: impl Fn() + Send + Sync + Clone + 'static) {
    let _watchdog = Watchdog::start();
    gort::run({
        let f = f.clone();
        move || f()
    });
    std::thread::spawn(f).join().unwrap();
}

#[test]
fn a_connect_that_nobody_answers_times_out() {
    both(|| {
        // A listener with a full queue answers no more: connect until the queue is full.
        let listener = gort::net::Builder::new().backlog(1).bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = Vec::new();
        let (elapsed, error) = loop {
            let start = Instant::now();
            match TcpStream::connect_timeout(&address, 30 * MILLI) {
                Ok(stream) => connections.push(stream),
                Err(error) => break (start.elapsed(), error),
            }
            assert!(connections.len() < 1000, "the queue never fills");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(elapsed >= 30 * MILLI);
        let zero = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidInput);
        drop((listener, connections));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect_timeout(&listener.local_addr().unwrap(), Duration::MAX).unwrap();
    });
}

#[test]
fn an_accept_with_a_deadline_times_out_and_works_again() {
    both(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for pause in [Duration::ZERO, MILLI, 20 * MILLI] {
            let deadline = Instant::now() + pause;
            listener.set_deadline(Some(deadline));
            for _ in 0..2 {
                assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
                assert!(Instant::now() >= deadline);
            }
        }
        listener.set_deadline(None);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn a_deadline_that_is_set_later_ends_an_accept_that_waits() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        for _ in 0..amount(50, 1_000) {
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
            let accepters: Vec<_> = (0..3)
                .map(|_| {
                    let listener = listener.clone();
                    gort::spawn(move || listener.accept().unwrap_err().kind())
                })
                .collect();
            gort::yield_now();
            listener.set_deadline(Some(Instant::now() + MILLI));
            for accepter in accepters {
                assert_eq!(accepter.join().unwrap(), ErrorKind::TimedOut);
            }
        }
    });
}

#[test]
fn a_deadline_that_is_removed_does_not_end_a_call_that_waits() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        // On a busy machine the deadline may pass before it is removed; then the next round tries again.
        until("a deadline was removed in time", || {
            let (mut client, server) = connected_pair();
            let server = Arc::new(server);
            let deadline = Instant::now() + 30 * MILLI;
            server.set_read_deadline(Some(deadline));
            let reader = gort::spawn({
                let server = server.clone();
                move || (&*server).read(&mut [0; 1])
            });
            gort::yield_now();
            server.set_read_deadline(None);
            let in_time = Instant::now() < deadline;
            if in_time {
                gort::time::sleep_until(deadline + 20 * MILLI);
                assert!(!reader.is_finished(), "the removed deadline ended the read");
            }
            client.write_all(b"x").unwrap();
            let read = reader.join().unwrap();
            assert!(!in_time || read.is_ok_and(|length| length == 1));
            in_time
        });
    });
}

#[test]
fn a_read_times_out_with_stds_error_and_the_stream_goes_on() {
    both(|| {
        let (mut client, mut server) = connected_pair();
        server.set_read_timeout(Some(15 * MILLI)).unwrap();
        for _ in 0..3 {
            let start = Instant::now();
            let error = server.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
            assert!(start.elapsed() >= 15 * MILLI);
        }
        client.write_all(b"late").unwrap();
        let mut buf = [0; 8];
        assert_eq!(server.read(&mut buf).unwrap(), 4);
        assert_eq!(
            server.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

/// The time of a read begins with the read, even if the read does not try the socket because the last one has
/// emptied it.
#[test]
fn a_timeout_after_a_short_read_is_no_longer_than_before() {
    both(|| {
        let (mut client, mut server) = connected_pair();
        server.set_read_timeout(Some(100 * MILLI)).unwrap();
        let mut time_out = || {
            let start = Instant::now();
            assert_eq!(server.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let first = start.elapsed();
            // This reader waits, so it learns of the edge.
            let mut reader = server.try_clone().unwrap();
            let reading = gort::spawn(move || {
                reader.set_read_timeout(Some(common::patience())).unwrap();
                assert_eq!(reader.read(&mut [0; 8]).unwrap(), 1);
                reader.set_read_timeout(Some(100 * MILLI)).unwrap();
                let start = Instant::now();
                assert_eq!(reader.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
                start.elapsed()
            });
            gort::sleep(5 * MILLI);
            client.write_all(b"x").unwrap();
            (first, reading.join().unwrap())
        };
        // A timeout that began anew would be twice as long each time. The machine may be busy some of the
        // time.
        let times: Vec<_> = std::iter::repeat_with(&mut time_out).take(5).collect();
        assert!(times.iter().any(|(first, second)| *second < *first * 3 / 2), "{times:?}");
    });
}

#[test]
fn data_that_is_there_is_read_after_the_deadline() {
    // Unlike in Go's TestReadTimeout, and as in std, a timeout never discards bytes that have come.
    both(|| {
        let (mut client, mut server) = connected_pair();
        client.write_all(b"early").unwrap();
        let mut buf = [0; 8];
        until("it has arrived", || server.peek(&mut buf).unwrap() == 5);
        server.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
        assert_eq!(server.read(&mut buf).unwrap(), 5);
    });
}

#[test]
fn a_datagram_that_does_not_come_times_out() {
    both(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(10 * MILLI)).unwrap();
        let start = Instant::now();
        assert_eq!(socket.recv_from(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket.peek(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= 30 * MILLI);
    });
}

#[test]
fn a_write_into_full_buffers_times_out() {
    both(|| {
        let (mut client, server) = connected_pair();
        client.set_write_timeout(Some(15 * MILLI)).unwrap();
        let chunk = vec![0; 1 << 20];
        let start = Instant::now();
        let error = loop {
            if let Err(error) = client.write(&chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= 15 * MILLI);
        // With a deadline the kind of the error is Go's.
        client.set_write_timeout(None).unwrap();
        let error = loop {
            client.set_write_deadline(Some(Instant::now() + 5 * MILLI));
            // On a busy machine the kernel may have made some room meanwhile.
            if let Err(error) = client.write(&chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(server);
    });
}

#[test]
fn of_many_timeouts_in_a_row_none_is_early() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (_client, server) = connected_pair();
        for _ in 0..50 {
            let deadline = Instant::now() + 2 * MILLI;
            server.set_read_deadline(Some(deadline));
            assert_eq!((&server).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(Instant::now() >= deadline);
        }
    });
}

#[test]
fn timeouts_of_all_lengths_end() {
    both(|| {
        let (_client, server) = connected_pair();
        for nanos in [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000] {
            let timeout = Duration::from_nanos(nanos);
            let start = Instant::now();
            server.set_read_deadline(Some(start + timeout));
            assert_eq!((&server).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(start.elapsed() >= timeout);
        }
        // Too long for a deadline: there is no timeout.
        server.set_read_deadline(None);
        server.set_read_timeout(Some(Duration::MAX)).unwrap();
        server.set_nonblocking(true).unwrap();
        assert_eq!((&server).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// Reader and writer keep prolonging the deadline of both. Neither may ever see it.
#[test]
fn a_deadline_that_is_prolonged_in_time_is_never_seen() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (client, server) = connected_pair();
        gort::spawn(move || std::io::copy(&mut &server, &mut &server));
        let client = Arc::new(client);
        let rounds = amount(500, 20_000);
        let halves: Vec<_> = [true, false]
            .into_iter()
            .map(|reads| {
                let client = client.clone();
                gort::spawn(move || {
                    for _ in 0..rounds {
                        client.set_deadline(Some(Instant::now() + Duration::from_secs(100)));
                        if reads {
                            (&*client).read_exact(&mut [0; 64]).unwrap();
                        } else {
                            (&*client).write_all(&[7; 64]).unwrap();
                        }
                    }
                })
            })
            .collect();
        halves.into_iter().for_each(|half| half.join().unwrap());
    });
}

/// Deadlines come and go while reads and writes are under way: no call hangs or fails for another reason.
#[test]
fn concurrent_deadlines_race_with_reads_and_writes() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (client, server) = connected_pair();
        let (client, server) = (Arc::new(client), Arc::new(server));
        let stop = Arc::new(AtomicBool::new(false));
        let setters: Vec<_> = (0..4)
            .map(|n| {
                let (client, stop) = (client.clone(), stop.clone());
                let set = move || {
                    let mut round = n;
                    while !stop.load(Ordering::Relaxed) {
                        round += 1;
                        let deadline = Instant::now() + Duration::from_micros(round % 7 * 50);
                        match round % 3 {
                            0 => client.set_read_deadline(Some(deadline)),
                            1 => client.set_write_deadline(Some(deadline)),
                            _ => client.set_deadline(None),
                        }
                        gort::sleep(Duration::from_micros(round % 5 * 20));
                    }
                };
                // Two of the setters are plain threads.
                if n % 2 == 0 {
                    Box::new(gort::spawn(set)) as Box<dyn std::any::Any>
                } else {
                    Box::new(std::thread::spawn(set))
                }
            })
            .collect();
        let echo = gort::spawn({
            let server = server.clone();
            move || drop(std::io::copy(&mut &*server, &mut &*server))
        });
        let reader = gort::spawn({
            let (client, stop) = (client.clone(), stop.clone());
            move || {
                let mut total = 0;
                while !stop.load(Ordering::Relaxed) || total == 0 {
                    match (&*client).read(&mut [0; 64]) {
                        Ok(length) => total += length,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                    }
                }
            }
        });
        let mut written = 0;
        for _ in 0..amount(2_000, 100_000) {
            match (&*client).write(&[1; 32]) {
                Ok(length) => written += length,
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            }
            gort::yield_now();
        }
        assert_ne!(written, 0);
        stop.store(true, Ordering::Relaxed);
        until("nobody sets deadlines any more", || {
            client.set_deadline(None);
            Arc::strong_count(&client) <= 2 // us and the reader, at the most
        });
        drop(setters);
        client.set_deadline(Some(Instant::now()));
        reader.join().unwrap();
        server.close();
        echo.join().unwrap();
    });
}
