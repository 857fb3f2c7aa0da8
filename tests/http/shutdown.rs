//! The end of the server.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gort::chan::bounded;
use gort::context::Context;
use gort::http::{Body, Request, Server};
use gort::net::TcpStream;

use crate::common::{Watchdog, listen, until};
use crate::server::{echo, start};

#[test]
fn connections_end_with_their_listener() {
    let _watchdog = Watchdog::start();
    let (listener, address) = listen();
    let mut client = TcpStream::connect(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    // The second `accept` finds no connection, and fails.
    let server = Server::new().shutdown_timeout(Duration::MAX);
    let error = server.serve_until(&Context::background(), listener, echo).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "it was closed");
}

#[test]
fn an_orderly_end_answers_what_is_under_way() {
    let (entered_s, entered) = bounded(10);
    let (go_on, wait) = bounded::<()>(0);
    let running = start(Server::new().shutdown_timeout(Duration::MAX), move |request: Request| {
        entered_s.send(()).unwrap();
        wait.recv().unwrap_err();
        match request.uri().path() {
            "/long" => Body::from(vec![b'x'; 100_000]),
            "/written" => Body::from_writer(|out| out.write_all(b"finished")),
            _ => "finished".into(),
        }
    });
    let mut idle = running.connect();
    let mut busy: Vec<_> = ["GET /short", "GET /long", "GET /written", "DELETE /short"]
        .map(|what| {
            let mut client = running.connect();
            client.send(format!("{what} HTTP/1.1\r\nhost: x\r\n\r\n"));
            entered.recv().unwrap();
            client
        })
        .into();
    running.cancel.cancel();
    assert!(idle.is_closed(), "idle connections are closed at once");
    until("nobody listens any more", || TcpStream::connect(running.address).is_err());
    assert!(!running.server.is_finished());
    drop(go_on);
    for (number, client) in busy.iter_mut().enumerate() {
        let body = client.answer().unwrap().body;
        assert_eq!(body, if number == 1 { vec![b'x'; 100_000] } else { b"finished".into() });
        assert!(client.is_closed());
    }
    running.server.join().unwrap().unwrap();
}

#[test]
fn an_end_does_not_wait_for_ever() {
    let (go_on, wait) = bounded::<()>(0);
    let entered = Arc::new(AtomicUsize::new(0));
    let seen = entered.clone();
    let running = start(Server::new().shutdown_timeout(Duration::from_millis(50)), move |_: Request| {
        entered.fetch_add(1, Ordering::SeqCst);
        wait.recv().unwrap_err();
    });
    let mut client = running.connect();
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    until("the handler runs", || seen.load(Ordering::SeqCst) == 1);
    running.cancel.cancel();
    assert_eq!(running.server.join().unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    drop(go_on);
}
