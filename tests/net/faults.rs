//! Faults: no descriptors left, descriptors that are reused, storms of signals.

#[path = "../common/mod.rs"]
mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Watchdog, amount, child, cpu_time, is_child, listen, run_ok, threads, until};
use gort::net::{TcpStream, UnixStream};
use socket2::{Domain, Socket, Type};

/// Without descriptors, `accept` neither fails nor spins, and it goes on when there are some.
#[test]
fn accept_backs_off_without_descriptors_and_recovers() {
    if !is_child("emfile") {
        let printed = run_ok(child("accept_backs_off_without_descriptors_and_recovers", "emfile"));
        assert_eq!(printed.value("accepted"), printed.value("connected"));
        let busy: u64 = printed.value("busy_millis").parse().unwrap();
        assert!(busy < 100, "accept used {busy} ms of CPU in 300 ms of waiting: it spins");
        return;
    }
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (listener, address) = listen();
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: the kernel reads one rlimit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        // These sockets can connect without further descriptors, and none is left for `accept`.
        let sockets: Vec<_> =
            (0..4).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
        // Twice, because the runtime may have had one open for a moment.
        let fill = || std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect::<Vec<_>>();
        let mut rest = fill();
        gort::sleep(Duration::from_millis(20));
        rest.extend(fill());
        sockets.iter().for_each(|socket| socket.connect(&address.into()).unwrap());
        // A deadline and the nonblocking mode still end the wait.
        listener.set_deadline(Some(Instant::now() + Duration::from_millis(20)));
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
        listener.set_deadline(None);
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().raw_os_error(), Some(libc::EMFILE));
        listener.set_nonblocking(false).unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        gort::spawn({
            let accepted = accepted.clone();
            move || {
                for connection in listener.incoming() {
                    let connection = connection.expect("accept does not fail for lack of descriptors");
                    accepted.fetch_add(1, Ordering::Relaxed);
                    gort::spawn(move || (&connection).read(&mut [0; 1]));
                }
            }
        });
        let before = cpu_time();
        gort::sleep(Duration::from_millis(300));
        println!("busy_millis={}", (cpu_time() - before).as_millis());
        assert_eq!(accepted.load(Ordering::Relaxed), 0, "accept found a descriptor where there is none");
        drop(rest);
        // Both sides compete for the descriptors that are left.
        let mut total = sockets.len();
        let mut clients = Vec::new();
        while let Ok(client) = TcpStream::connect(address) {
            clients.push(client);
            total += 1;
        }
        let wanted = total + 40;
        while total < wanted {
            // The drop of a client frees its descriptor and, when the server notices, the server's.
            drop(clients.pop());
            if let Ok(client) = TcpStream::connect(address) {
                clients.insert(0, client);
                total += 1;
            }
            gort::sleep(Duration::from_millis(1));
        }
        drop((clients, sockets));
        until("all connections were accepted", || {
            gort::sleep(Duration::from_millis(1));
            accepted.load(Ordering::Relaxed) == total
        });
        println!("connected={total}");
        println!("accepted={}", accepted.load(Ordering::Relaxed));
    });
}

/// Descriptors and PollDescs are reused at once, while events of their former users are still on their way.
/// No reader gets data, an end or an error of another stream, and none waits forever.
#[test]
fn reused_descriptors_see_no_stale_events() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let goroutines: Vec<_> = (0..8u8)
            .map(|n| {
                gort::spawn(move || {
                    for round in 0..amount(500, 20_000) {
                        let (mut a, mut b) = UnixStream::pair().unwrap();
                        let reader = gort::spawn(move || {
                            let mut buf = [0; 2];
                            b.read_exact(&mut buf).unwrap();
                            assert_eq!(b.set_read_timeout(Some(Duration::from_micros(50))).ok(), Some(()));
                            let second = b.read(&mut [0; 1]);
                            (buf, second.map_err(|error| error.kind()))
                        });
                        if round % 3 == 0 {
                            gort::yield_now();
                        }
                        a.write_all(&[n, round as u8]).unwrap();
                        let keep = round % 2 == 0;
                        let a = if keep { Some(a) } else { None };
                        let (buf, second) = reader.join().unwrap();
                        assert_eq!(buf, [n, round as u8]);
                        if keep {
                            assert_eq!(second, Err(ErrorKind::WouldBlock), "somebody else's end of stream");
                        }
                        drop(a);
                    }
                })
            })
            .collect();
        goroutines.into_iter().for_each(|goroutine| goroutine.join().unwrap());
    });
}

/// Signals hit all threads, with a handler that does not ask for restarts. No call may fail with
/// `Interrupted`.
#[test]
fn no_call_is_interrupted_in_a_storm_of_signals() {
    if !is_child("signals") {
        run_ok(child("no_call_is_interrupted_in_a_storm_of_signals", "signals"));
        return;
    }
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let _watchdog = Watchdog::start();
    let stop = Arc::new(AtomicBool::new(false));
    let storm = std::thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                for tid in threads() {
                    // SAFETY: no memory is passed; a thread that has ended does no harm.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    let (listener, address) = listen();
    let server = std::thread::spawn(move || {
        for _ in 0..8 {
            let (stream, _) = listener.accept().unwrap();
            gort::spawn(move || std::io::copy(&mut &stream, &mut &stream).unwrap());
        }
    });
    let rounds = amount(2_000, 20_000);
    let client = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        let mut buf = [0; 64];
        for round in 0..rounds {
            // `write` and `read`, not `write_all` and `read_exact`: those would hide an interruption.
            assert_eq!(stream.write(&[round as u8; 64]).unwrap(), 64);
            let mut length = 0;
            while length < 64 {
                length += stream.read(&mut buf[length..]).unwrap();
            }
            assert_eq!(buf, [round as u8; 64]);
        }
    };
    let goroutines: Vec<_> = (0..4).map(|_| gort::spawn(client)).collect();
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(client)).collect();
    goroutines.into_iter().for_each(|goroutine| goroutine.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    server.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    storm.join().unwrap();
}
