//! Requests and their answers.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::http::{Body, Request, Response, Server, StatusCode};
use gort::net::Shutdown;

use crate::client::{Answer, Client};
use crate::common::{amount, until};
use crate::server::{echo, start};

#[test]
fn many_requests_on_one_connection() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    for n in 0..amount(200, 20_000) {
        let answer = client.get(&format!("/{n}"));
        assert_eq!((answer.status, answer.body), (200, format!("GET /{n}").into_bytes()));
        assert!(answer.head.contains("date: "), "{}", answer.head);
    }
    // Two requests in one piece.
    client.send("GET /a HTTP/1.1\r\nhost: x\r\n\r\nGET /b HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.answer().unwrap().body, b"GET /a");
    assert_eq!(client.answer().unwrap().body, b"GET /b");
    client.send("GET /end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(client.answer().unwrap().body, b"GET /end");
    assert!(client.is_closed());
    running.stop();
}

/// The server answers a plain request without hyper, and two requests in one piece with hyper. Clients see no
/// difference.
#[test]
fn answers_are_the_same_with_and_without_hyper() {
    let running = start(Server::new(), |request: Request| {
        let number: u16 = request.uri().path()[1..].parse().unwrap();
        let seen = format!("{} {:?} {:?}", request.uri(), request.version(), request.headers());
        let mut response = Response::new(if number == 201 { Body::empty() } else { seen.into() });
        *response.status_mut() = StatusCode::from_u16(number).unwrap();
        response.headers_mut().insert("x-number", number.into());
        if number == 202 {
            response.headers_mut().insert("date", "today".parse().unwrap());
        }
        if number == 203 {
            response.headers_mut().insert("content-length", "5".parse().unwrap());
            *response.body_mut() = "seven".into();
        }
        response
    });
    let comparable = |answer: Answer| {
        let (date, head): (Vec<_>, Vec<_>) =
            answer.head.lines().map(str::to_owned).partition(|line| line.starts_with("date: "));
        assert_eq!(date.len(), 1, "{}", answer.head);
        (date[0].len(), head, answer.body)
    };
    for status in [200, 201, 202, 203, 205, 299, 302, 404, 500, 599] {
        for headers in ["host: x\r\n", "Host: X\r\nconnection: keep-alive\r\nA: 1\r\na:2\t\r\nb:\r\n", ""] {
            let request = format!("GET /{status}?q HTTP/1.1\r\n{headers}\r\n");
            let mut client = running.connect();
            client.send(&request);
            let without = comparable(client.answer().unwrap());
            client.send(request.repeat(2));
            for _ in 0..2 {
                assert_eq!(comparable(client.answer().unwrap()), without, "{request}");
            }
        }
    }
    // Answers without a body.
    let mut client = running.connect();
    for status in [204, 304] {
        for repeated in [1, 2] {
            client.send(format!("GET /{status} HTTP/1.1\r\n\r\n").repeat(repeated));
            for _ in 0..repeated {
                let head = client.head().unwrap();
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            }
        }
    }
    running.stop();
}

/// If the server gives no answer for this long, it waits for its client. Longer than a busy machine takes for
/// an answer.
const STALLED: Duration = Duration::from_millis(300);

/// Sends requests, one after the other, and reads no answer, until the server stalls. Returns how many it
/// sent.
fn ask_and_take_no_answer(client: &mut Client, answers: &AtomicUsize) -> usize {
    for asked in 1.. {
        let before = answers.load(Ordering::SeqCst);
        if client.0.get_mut().write_all(b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n").is_err() {
            return asked;
        }
        let start = Instant::now();
        while answers.load(Ordering::SeqCst) == before {
            if start.elapsed() > STALLED {
                return asked;
            }
            gort::sleep(Duration::from_micros(100));
        }
    }
    unreachable!()
}

#[test]
fn plain_answers_wait_for_their_client() {
    const LENGTH: usize = 8000;
    let answers = Arc::new(AtomicUsize::new(0));
    let count = answers.clone();
    let handler = move |_: Request| {
        count.fetch_add(1, Ordering::SeqCst);
        vec![b'x'; LENGTH]
    };
    let running = start(Server::new(), handler.clone());
    let mut client = running.connect();
    for _ in 0..2 {
        let asked = ask_and_take_no_answer(&mut client, &answers);
        for _ in 0..asked {
            assert_eq!(client.answer().unwrap().body, vec![b'x'; LENGTH]);
        }
    }
    // The end of the server neither cuts off an answer under way nor waits forever. The server has not read
    // the last request, so the kernel resets the connection, and the client does not get all the answers.
    let asked = ask_and_take_no_answer(&mut client, &answers);
    running.cancel.cancel();
    assert!((0..asked).any(|_| client.answer().is_err()));
    running.server.join().unwrap().unwrap();

    let running = start(Server::new().write_timeout(Duration::from_millis(50)), handler);
    let mut deaf = running.connect();
    ask_and_take_no_answer(&mut deaf, &answers);
    until("the server gives up", || deaf.0.get_mut().write_all(b"GET /").is_err());
    running.stop();
}

#[test]
fn a_panic_is_a_500_and_the_server_lives() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    for _ in 0..10 {
        assert_eq!(client.get("/panic").status, 500);
        assert_eq!(client.get("/fail").status, 500);
        client.send("POST /panic HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
        assert_eq!(client.answer().unwrap().status, 500);
        assert_eq!(client.get("/fine").status, 200);
    }
    // A body that fails is cut off.
    for path in ["/break", "/burst"] {
        let mut client = running.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert!(client.answer().is_err());
        assert_eq!(running.connect().get("/fine").status, 200);
    }
    running.stop();
}

#[test]
fn a_client_that_will_say_no_more_gets_its_answer() {
    let running = start(Server::new(), echo);
    for body in [10, 1_000_000] {
        let mut client = running.connect();
        client.send(format!("POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: {body}\r\n\r\n"));
        client.send(vec![1; body]);
        client.0.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.answer().unwrap().body, body.to_string().into_bytes());
        assert!(client.answer().is_err(), "then the connection ends");
    }
    running.stop();
}

#[test]
fn many_clients_and_blocking_handlers() {
    let running = start(Server::new(), |request: Request| {
        match request.uri().path() {
            "/blocks" => std::thread::sleep(Duration::from_millis(2)),
            "/marked" => gort::blocking(|| std::thread::sleep(Duration::from_millis(2))),
            "/computes" => {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(200) {}
            }
            _ => gort::yield_now(),
        }
        (StatusCode::ACCEPTED, request.uri().path().to_owned())
    });
    gort::scope(|s| {
        for n in 0..amount(64, 1_000) {
            let running = &running;
            s.spawn(move || {
                let mut client = running.connect();
                for round in 0..10 {
                    let path = ["/blocks", "/marked", "/computes", "/nothing"][(n + round) % 4];
                    let answer = client.get(path);
                    assert_eq!((answer.status, answer.body), (202, path.as_bytes().to_vec()));
                }
                client.0.get_ref().shutdown(Shutdown::Both).unwrap();
            });
        }
    });
    running.stop();
}
