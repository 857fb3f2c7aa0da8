//! Connections whose clients are silent for a while. The server keeps neither a goroutine nor a buffer for
//! them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use gort::http::Server;

use crate::client::Client;
use crate::common::{alone, until};
use crate::server::{Running, echo, start};

/// Counts the bytes that are allocated: they tell when the server has given the buffers of its connections
/// back.
struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator, counted. The default `realloc` calls the other two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Clients of one server that are quiet, and what the process has allocated then.
struct Quiet {
    clients: Vec<Client>,
    allocated: isize,
}

impl Quiet {
    const CLIENTS: usize = 50;

    /// Connects the clients. Each gets an answer to a plain GET, for which the server keeps no buffers.
    fn connect(running: &Running) -> Quiet {
        let mut clients: Vec<_> = (0..Quiet::CLIENTS).map(|_| running.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/first").status, 200);
        }
        Quiet { clients, allocated: ALLOCATED.load(Ordering::Relaxed) }
    }

    /// Lets each client send a request with a body, for which the server needs hyper and its buffers.
    fn use_buffers(&mut self) {
        self.clients.iter_mut().for_each(sum_up);
    }

    /// Bytes that the process has allocated beyond those of quiet connections, for each connection.
    fn extra(&self) -> isize {
        (ALLOCATED.load(Ordering::Relaxed) - self.allocated) / Quiet::CLIENTS as isize
    }

    /// Waits until the server has given the buffers back: a connection has 20 kB of them, and some hundred
    /// bytes when it is quiet.
    #[track_caller]
    fn until_quiet(&self) {
        until("the server holds no buffers for its quiet connections", || {
            gort::sleep(Duration::from_millis(1));
            self.extra() < 1_000
        });
    }
}

fn sum_up(client: &mut Client) {
    client.send("POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n\x01\x02");
    assert_eq!(client.answer().unwrap().body, b"3");
}

/// A client may fall silent between two requests and in the middle of a request's headers.
#[test]
fn quiet_connections_go_on() {
    if !alone("quiet::quiet_connections_go_on") {
        return;
    }
    let running = start(Server::new(), echo);
    let mut quiet = Quiet::connect(&running);
    for round in 0..3 {
        quiet.use_buffers();
        let mut halfway = running.connect();
        halfway.send("GET /half");
        quiet.until_quiet();
        halfway.send("way HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(halfway.answer().unwrap().body, b"GET /halfway", "round {round}");
    }
    running.cancel.cancel();
    for client in &mut quiet.clients {
        assert!(client.is_closed());
    }
    running.server.join().unwrap().unwrap();
}

/// Requests come just when the server gives the buffers of their connections back, while other clients hang
/// up.
#[test]
fn no_request_is_lost_when_a_connection_becomes_quiet() {
    if !alone("quiet::no_request_is_lost_when_a_connection_becomes_quiet") {
        return;
    }
    let running = start(Server::new(), echo);
    let mut quiet = Quiet::connect(&running);
    quiet.use_buffers();
    let start = Instant::now();
    quiet.until_quiet();
    // How long the server waited; the pauses are spread around that time.
    let waited = start.elapsed();
    gort::scope(|s| {
        for (number, mut client) in quiet.clients.into_iter().enumerate() {
            s.spawn(move || {
                for round in 0..3 {
                    sum_up(&mut client);
                    gort::sleep(waited * (95 + ((number + round) % 10) as u32) / 100);
                    assert_eq!(client.get("/y").body, b"GET /y");
                }
            });
        }
    });
    running.stop();
}

#[test]
fn quiet_connections_need_no_goroutine() {
    const CLIENTS: usize = 200;
    if !alone("quiet::quiet_connections_need_no_goroutine") {
        return;
    }
    let alive = || {
        let stats = gort::runtime::stats();
        (stats.created - stats.ended) as usize
    };
    let running = start(Server::new(), echo);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| running.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(client.get("/x").body, b"GET /x");
        }
        until("there are few goroutines", || alive() < CLIENTS / 10);
        clients.iter_mut().for_each(sum_up);
        until("there are few goroutines again", || alive() < CLIENTS / 10);
    }
    running.stop();
}

#[test]
fn a_quiet_connection_ends_when_its_time_for_the_next_head_is_over() {
    let running = start(Server::new().head_timeout(Duration::from_millis(400)), echo);
    let mut clients: Vec<_> = (0..30).map(|_| running.connect()).collect();
    for client in &mut clients[10..] {
        assert_eq!(client.get("/x").status, 200);
    }
    clients[20..].iter_mut().for_each(sum_up);
    for client in &mut clients {
        assert!(client.is_closed());
    }
    running.stop();
}
