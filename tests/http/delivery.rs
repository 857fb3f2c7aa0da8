//! Clients that take their answers slowly, or stop to take them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::http::{Body, Request, Response, Server};

use crate::common::until;
use crate::server::start;

/// A body without an end, which counts what was read of it, and tells when it is dropped.
struct Endless(Arc<AtomicUsize>);

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        buf.fill(b'x');
        self.0.fetch_add(buf.len(), Ordering::SeqCst);
        Ok(buf.len())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// How long the server can read nothing before it is taken to wait for its client.
const STALLED: Duration = Duration::from_millis(50);

fn wait_until_stalled(read: &AtomicUsize) {
    let (mut before, mut since) = (0, Instant::now());
    until("the server waits for its client", || {
        gort::sleep(Duration::from_millis(1));
        let now = read.load(Ordering::SeqCst);
        if now == 0 || now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > STALLED
    });
}

const ASK: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// The client takes some bytes, but so few that the kernel does not tell the server. The server finds out at
/// its next attempt, and must not take that moment for the client's last progress.
#[test]
fn a_client_that_stops_is_cut_off_a_timeout_after_its_last_progress() {
    let timeout = Duration::from_millis(600);
    let read = Arc::new(AtomicUsize::new(0));
    let body = read.clone();
    let handler = move |_: Request| Response::new(Body::from_reader(Endless(body.clone())));
    let running = start(Server::new().write_timeout(timeout), handler);
    // On a busy machine an attempt may be late, but not all of them.
    let in_time = (0..8).any(|_| {
        let mut client = running.connect();
        client.send(ASK);
        wait_until_stalled(&read);
        client.0.read_exact(&mut vec![0; 200_000]).unwrap();
        let last = Instant::now();
        until("the server gives up", || {
            gort::sleep(Duration::from_millis(1));
            read.load(Ordering::SeqCst) == 0
        });
        // If the server counted from its own attempt, this would be nearly two timeouts.
        let took = last.elapsed();
        assert!(took > timeout - STALLED * 4, "cut off too early: {took:?}");
        took < timeout * 8 / 5
    });
    assert!(in_time);
    running.stop();
}

#[test]
fn a_slow_client_is_served_as_long_as_it_takes_some_bytes() {
    let timeout = Duration::from_millis(800);
    let read = Arc::new(AtomicUsize::new(0));
    let body = read.clone();
    let handler = move |_: Request| Response::new(Body::from_reader(Endless(body.clone())));
    let running = start(Server::new().write_timeout(timeout), handler);
    let mut client = running.connect();
    client.send(ASK);
    wait_until_stalled(&read);
    let begin = Instant::now();
    // Less than a third of the server's buffer in each timeout, so that the kernel never tells the server.
    let mut pause = Duration::ZERO;
    while begin.elapsed() < timeout * 4 {
        let last = Instant::now();
        client.0.read_exact(&mut vec![0; 70_000]).unwrap();
        gort::sleep(timeout / 8);
        pause = pause.max(last.elapsed());
    }
    // A busy machine may have stopped the client for longer than the server allows.
    assert!(read.load(Ordering::SeqCst) != 0 || pause > timeout / 2, "it was cut off");
    drop(client);
    running.stop();
}
