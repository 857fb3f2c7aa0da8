//! A process whose limit of threads is its number of Ps: a thread that waits for I/O must also run
//! goroutines.

#[path = "../common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{Watchdog, listen, until};
use gort::context::Context;
use gort::http::{Request, Server};
use gort::runtime::{Config, ProcessorState, processors};

const CLIENTS: usize = 4;

/// Sends `count` requests and waits for the answer to each.
fn ask(stream: &mut TcpStream, count: usize) {
    for _ in 0..count {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let (mut answer, mut room) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"\r\n\r\nfine") {
            let length = stream.read(&mut room).unwrap();
            assert_ne!(length, 0, "the connection is closed");
            answer.extend_from_slice(&room[..length]);
        }
    }
}

#[test]
fn all_threads_may_wait_for_io_and_still_run_what_is_new() {
    let _watchdog = Watchdog::start();
    Config::new().max_procs(2).max_threads(2).start().unwrap();
    let (listener, address) = listen();
    let (ctx, end) = Context::background().with_cancel();
    let server = gort::spawn(move || Server::new().serve_until(&ctx, listener, |_: Request| "fine").unwrap());
    let mut streams: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for round in 0..20 {
        // The clients are threads on several CPUs, and ask often enough for connections to move between Ms.
        std::thread::scope(|scope| {
            streams.iter_mut().for_each(|stream| {
                scope.spawn(|| ask(stream, 150));
            });
        });
        // The new goroutine comes while the Ms are awake, or when all of them wait for I/O.
        if round % 2 == 0 {
            until("all Ps are idle", || {
                std::thread::sleep(Duration::from_millis(1));
                processors().iter().all(|p| p.state == ProcessorState::Idle)
            });
        }
        assert_eq!(gort::spawn(|| 7).join().unwrap(), 7);
        streams.iter_mut().for_each(|stream| ask(stream, 1));
    }
    assert!(gort::runtime::stats().threads.alive <= 2);
    end.cancel();
    server.join().unwrap();
}
