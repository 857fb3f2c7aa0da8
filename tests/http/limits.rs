//! Limits of size, of time and of the number of connections.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gort::http::{Body, Request, Response, Server};

use crate::client::Answer;
use crate::common::{self, stack_bounds, until};
use crate::server::{echo, start};

#[test]
fn heads_and_bodies_beyond_their_limits_are_refused() {
    let running = start(Server::new().max_head(10_000).max_body(100_000), echo);
    let mut client = running.connect();
    client.send(format!("GET / HTTP/1.1\r\nhost: x\r\nlong: {}\r\n\r\n", "x".repeat(20_000)));
    assert_eq!(client.answer().unwrap().status, 431);
    let mut client = running.connect();
    client.send("POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: 100001\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 413);
    let mut client = running.connect();
    client.send("POST /sum HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
    client.send(&chunk);
    let _cut_off = client.0.get_mut().write_all(chunk.as_bytes());
    assert_eq!(client.answer().unwrap().status, 500, "reading it fails");
    let mut client = running.connect();
    client.send("this is not HTTP\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    assert!(client.is_closed());
    running.stop();
}

/// A body without an end.
struct Endless;

static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        buf.fill(b'x');
        Ok(buf.len())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn slow_clients_are_closed_and_others_are_not() {
    let short = Duration::from_millis(200);
    let server = Server::new().head_timeout(short).body_timeout(short).write_timeout(short);
    let running = start(server, |request: Request| match request.uri().path() {
        "/slow" => {
            std::thread::sleep(Duration::from_millis(500)); // The server may take its time.
            Response::new("slow".into())
        }
        "/pieces" => Response::new(Body::from_writer(|out| {
            for _ in 0..5 {
                out.write_all(b"x")?;
                out.flush()?;
                gort::sleep(Duration::from_millis(100));
            }
            Ok(())
        })),
        "/endless" => Response::new(Body::from_reader(Endless)),
        _ => Response::new(request.into_body()),
    });
    // A client that says nothing, and one that sends a byte at a time.
    let mut silent = running.connect();
    let mut dribbling = running.connect();
    for byte in b"GET / HTTP/1.1\r\nhost: x\r\n".iter().cycle() {
        if dribbling.0.get_mut().write_all(&[*byte]).is_err() {
            break;
        }
        gort::sleep(Duration::from_millis(10));
    }
    assert!(silent.is_closed());
    let mut body = running.connect();
    body.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf");
    assert_eq!(body.answer().unwrap().status, 408);
    // A client that waits for the server.
    let mut waiting = running.connect();
    assert_eq!(waiting.get("/slow").body, b"slow");
    assert_eq!(waiting.get("/pieces").body, b"xxxxx");
    // A client that does not read.
    let mut deaf = running.connect();
    deaf.send("GET /endless HTTP/1.1\r\nhost: x\r\n\r\n");
    until("the server gives up", || ENDED.load(Ordering::SeqCst) == 1);
    running.stop();
}

#[test]
fn no_more_connections_than_allowed() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let running = start(Server::new().max_connections(3), move |_: Request| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        gort::sleep(Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
    });
    gort::scope(|s| {
        for _ in 0..20 {
            s.spawn(|| {
                let mut client = running.connect();
                client.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
                assert_eq!(client.answer().unwrap().status, 200);
            });
        }
    });
    assert!((1..=3).contains(&seen.load(Ordering::SeqCst)));
    running.stop();
}

/// Uses up to `bytes` of stack, also in a debug build.
#[inline(never)]
fn recurse(bytes: usize) -> usize {
    let frame = std::hint::black_box([1u8; 1_000]);
    if bytes < 4_096 { 0 } else { usize::from(frame[7]) + recurse(bytes - 4_096) }
}

#[test]
fn handlers_have_the_stack_that_the_server_promises() {
    const NAME: &str = "limits::handlers_have_the_stack_that_the_server_promises";
    if !common::is_child("small stacks") {
        let mut child = common::child(NAME, "small stacks");
        child.env("GORT_MAX_STACK", "0");
        common::run_ok(child);
        return;
    }
    let answer = |request: Request| {
        recurse(stack_bounds().1 / 2);
        format!("{} {}", request.method(), stack_bounds().1)
    };
    let bytes_of = |answer: Answer| {
        let text = String::from_utf8(answer.body).unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let small = start(Server::new(), answer);
    assert!(bytes_of(small.connect().get("/")) < 1 << 20);
    // The goroutines that serve the small one exist already.
    let large = start(Server::new().stack_size(4 << 20), answer);
    for _ in 0..5 {
        let mut client = large.connect();
        assert!(bytes_of(client.get("/")) >= 4 << 20);
        // A longer body gets a goroutine of its own.
        client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n");
        client.send(vec![b'x'; 100_000]);
        assert!(bytes_of(client.answer().unwrap()) >= 4 << 20);
    }
    // A server that asks for less than usual takes nothing away from others.
    let other = start(Server::new().stack_size(16 << 10), answer);
    assert!(bytes_of(other.connect().get("/")) >= 4 << 20);
    other.stop();
    large.stop();
    small.stop();
    let (listener, _) = common::listen();
    let ctx = gort::context::Context::background();
    let refused = Server::new().stack_size(usize::MAX).serve_until(&ctx, listener, answer).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}
