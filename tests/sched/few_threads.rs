//! Where the process may not have more threads than Ps, those that wait for I/O have to run goroutines, too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gort::context::Context;
use gort::http::{Request, Server};
use gort::net::TcpListener;
use gort::runtime::{Config, ProcessorState, processors};

const CLIENTS: usize = 4;

/// Asks `count` times, and waits for each answer.
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
    Config::new().max_procs(2).max_threads(2).start().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (ctx, end) = Context::background().with_cancel();
    let server = gort::spawn(move || Server::new().serve_until(&ctx, listener, |_: Request| "fine").unwrap());
    let mut streams: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for round in 0..20 {
        // From several CPUs, if there are some, and often enough for connections to move.
        std::thread::scope(|scope| {
            streams.iter_mut().for_each(|stream| {
                scope.spawn(|| ask(stream, 150));
            });
        });
        // Sometimes at once, sometimes when all have gone to wait.
        if round % 2 == 0 {
            wait_until_idle();
        }
        assert_eq!(gort::spawn(|| 7).join().unwrap(), 7);
        streams.iter_mut().for_each(|stream| ask(stream, 1));
    }
    assert!(gort::runtime::stats().threads.alive <= 2);
    end.cancel();
    server.join().unwrap();
}

fn wait_until_idle() {
    while processors().iter().any(|p| p.state != ProcessorState::Idle) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
