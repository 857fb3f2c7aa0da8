//! Answers whose handler has set a `content-length`.

use std::io::{self, Write};

use gort::http::{Body, Request, Response, Server};

use crate::common;
use crate::server::start;

/// Answers `/LENGTH/KIND` with a body of five bytes.
fn handler(mut request: Request) -> Response {
    io::copy(request.body_mut(), &mut io::sink()).unwrap();
    let path = request.uri().path().to_owned();
    let mut parts = path[1..].split('/');
    let (length, kind) = (parts.next().unwrap(), parts.next().unwrap());
    let body = match kind {
        "memory" => Body::from("seven"),
        "empty" => Body::empty(),
        "reader" => Body::from_reader(&b"seven"[..]),
        _ => Body::from_writer(|out| out.write_all(b"seven")),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert("content-length", length.parse().unwrap());
    response
}

#[test]
fn a_wrong_content_length_does_not_break_the_connection() {
    const NAME: &str = "length::a_wrong_content_length_does_not_break_the_connection";
    if !common::is_child("wrong lengths") {
        let printed = common::run_ok(common::child(NAME, "wrong lengths"));
        let reason = "gort: an HTTP handler failed: it set content-length to 4, but its body has 5 bytes";
        assert!(printed.stderr.contains(reason), "{}", printed.stderr);
        return;
    }
    let running = start(Server::new(), handler);
    let mut client = running.connect();
    for method in ["GET", "POST"] {
        // A long body gets a goroutine of its own.
        let upload = if method == "POST" { "x".repeat(100_000) } else { String::new() };
        let mut ask = |path: &str| {
            let length = upload.len();
            client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"));
            client.send(&upload);
            client.answer().unwrap()
        };
        for length in ["4", "6", "five"] {
            assert_eq!(ask(&format!("/{length}/memory")).status, 500, "{length}");
        }
        assert_eq!(ask("/1/empty").status, 500);
        assert_eq!(ask("/five/reader").status, 500);
        for kind in ["memory", "reader", "writer"] {
            assert_eq!(ask(&format!("/5/{kind}")).body, b"seven", "{kind}");
        }
        for kind in ["reader", "writer"] {
            assert_eq!(ask(&format!("/3/{kind}")).body, b"sev", "{kind}");
        }
        assert_eq!(ask("/5/memory").body, b"seven", "the connection still works");
    }
    client.send("HEAD /1000/empty HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(client.head().unwrap().contains("content-length: 1000\r\n"));
    assert_eq!(client.get("/5/memory").body, b"seven");
    // The head of a stream has been sent before the server knows that the stream is too short.
    client.send("GET /6/writer HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(client.answer().is_err());
    let mut client = running.connect();
    assert_eq!(client.get("/5/memory").body, b"seven");
    running.stop();
}
