//! What dumps say about the goroutines of a server.

use std::io::{Read, Write};
use std::panic::Location;

use gort::chan::{Receiver, bounded};
use gort::http::{Body, Request, Response, Server};

use crate::common::{listen, until};

/// Where the goroutine was spawned that waits in the function whose name contains `inside`.
fn spawned_at(inside: &str) -> Option<&'static Location<'static>> {
    let dump = gort::runtime::dump();
    dump.goroutines().iter().find(|g| g.to_string().contains(inside)).and_then(|g| g.spawned_at())
}

#[inline(never)]
fn wait_in_handler(gate: &Receiver<()>) {
    let _ = gate.recv();
}

#[inline(never)]
fn wait_in_writer(gate: &Receiver<()>) {
    let _ = gate.recv();
}

#[test]
fn dumps_name_the_place_where_the_server_was_started() {
    let (open, gate) = bounded::<()>(0);
    let (listener, address) = listen();
    let (ctx, cancel) = gort::context::Context::background().with_cancel();
    let writer_line = line!() + 7;
    let handler = move |mut request: Request| {
        let gate = gate.clone();
        if request.uri().path() == "/writer" {
            return Response::new({
                let gate = gate.clone();
                // This is the line that reports name.
                Body::from_writer(move |out| {
                    wait_in_writer(&gate);
                    out.write_all(b"written")
                })
            });
        }
        wait_in_handler(&gate);
        let _ = request.body_mut().read_to_end(&mut Vec::new());
        Response::new("handled".into())
    };
    let server_line = line!() + 1;
    let server = gort::spawn(move || Server::new().serve_until(&ctx, listener, handler));
    let ask = |path: &str, body: usize, inside: &str, line: u32| {
        let mut client = gort::net::TcpStream::connect(address).unwrap();
        write!(client, "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n").unwrap();
        write!(client, "content-length: {body}\r\n\r\n{}", "x".repeat(body)).unwrap();
        until("it waits", || spawned_at(inside).is_some());
        let site = spawned_at(inside).unwrap();
        assert_eq!((site.file(), site.line()), (file!(), line), "{path} {body}");
        open.send(()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    // A goroutine of the crew, one of the handler's own, and one that writes.
    ask("/", 0, "wait_in_handler", server_line);
    ask("/", 100_000, "wait_in_handler", server_line);
    ask("/writer", 0, "wait_in_writer", writer_line);
    cancel.cancel();
    server.join().unwrap().unwrap();
}
