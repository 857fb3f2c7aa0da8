//! `gort::http`: the server as its clients see it.

#[path = "../common/mod.rs"]
mod common;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Watchdog, amount, until};
use gort::chan::bounded;
use gort::context::{Cancel, Context};
use gort::http::{Body, Handler, Method, Request, Response, Server, StatusCode};
use gort::net::{Shutdown, TcpListener, TcpStream};

struct Running {
    address: SocketAddr,
    cancel: Cancel,
    server: gort::JoinHandle<io::Result<()>>,
    _watchdog: Watchdog,
}

fn start(server: Server, handler: impl Handler) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (ctx, cancel) = Context::background().with_cancel();
    let server = gort::spawn(move || server.serve_until(&ctx, listener, handler));
    Running { address, cancel, server, _watchdog: Watchdog::start() }
}

impl Running {
    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(common::patience())).unwrap();
        Client(BufReader::new(stream))
    }

    #[track_caller]
    fn stop(self) {
        self.cancel.cancel();
        self.server.join().unwrap().unwrap();
    }
}

struct Client(BufReader<TcpStream>);

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Client {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        self.answer().unwrap()
    }

    /// Reads a whole answer, or the end of the connection.
    fn answer(&mut self) -> io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head[9..12].parse().unwrap();
        let value = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(|v| v.trim().to_owned()))
        };
        let mut body = Vec::new();
        if let Some(length) = value("content-length:") {
            body.resize(length.parse().unwrap(), 0);
            self.0.read_exact(&mut body)?;
        } else if value("transfer-encoding:").is_some() {
            loop {
                let mut size = String::new();
                if self.0.read_line(&mut size)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
                self.0.read_exact(&mut chunk)?;
                if chunk.len() == 2 {
                    break;
                }
                body.extend_from_slice(&chunk[..chunk.len() - 2]);
            }
        }
        Ok(Answer { status, head, body })
    }

    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Says `Interrupted` before each piece.
struct Interrupted(Body, bool);

impl Read for Interrupted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { self.0.read(buf) } else { Err(ErrorKind::Interrupted.into()) }
    }
}

/// Panics where the connection itself is polled.
struct Bursts;

impl Read for Bursts {
    fn read(&mut self, _buf: &mut [u8]) -> io::Result<usize> {
        panic!("in a reader");
    }
}

fn echo(request: Request) -> io::Result<Response> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match path.as_str() {
        "/panic" => panic!("in a handler"),
        "/fail" => Err(io::Error::other("failed")),
        "/echo" if method == Method::POST => Ok(Response::new(request.into_body())),
        "/sum" => {
            let mut sum = 0u64;
            for byte in BufReader::new(request.into_body()).bytes() {
                sum += u64::from(byte?);
            }
            Ok(Response::new(sum.to_string().into()))
        }
        "/read" => Ok(Response::new(Body::from_reader(io::repeat(b'r').take(1_000_000)))),
        "/write" => Ok(Response::new(Body::from_writer(|out| {
            for n in 0..20_000 {
                writeln!(out, "line {n}")?;
            }
            Ok(())
        }))),
        "/break" => Ok(Response::new(Body::from_writer(|out| {
            out.write_all(&[b'x'; 100_000])?;
            panic!("in a writer");
        }))),
        "/pieces" => {
            // Read by the handler, as a test or a filter does.
            let body = Body::from_writer(|out| {
                (0..20_000).try_for_each(|n| writeln!(out, "line {n}").and_then(|()| out.flush()))
            });
            Ok(Response::new(body.into_bytes()?.into()))
        }
        "/again" => Ok(Response::new(Body::from_reader(Interrupted(request.into_body(), true)))),
        "/burst" => Ok(Response::new(Body::from_reader(Bursts))),
        _ => Ok(Response::new(format!("{method} {path}").into())),
    }
}

#[test]
fn many_requests_on_one_connection() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    for n in 0..amount(200, 20_000) {
        let answer = client.get(&format!("/{n}"));
        assert_eq!((answer.status, answer.body), (200, format!("GET /{n}").into_bytes()));
        assert!(answer.head.contains("date: "), "{}", answer.head);
    }
    // Several at once.
    client.send("GET /a HTTP/1.1\r\nhost: x\r\n\r\nGET /b HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.answer().unwrap().body, b"GET /a");
    assert_eq!(client.answer().unwrap().body, b"GET /b");
    client.send("GET /end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(client.answer().unwrap().body, b"GET /end");
    assert!(client.is_closed());
    running.stop();
}

/// A plain request is answered without hyper, and two that come at once are not: nobody sees a difference.
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
    // What has no body.
    let mut client = running.connect();
    for status in [204, 304] {
        for repeated in [1, 2] {
            client.send(format!("GET /{status} HTTP/1.1\r\n\r\n").repeat(repeated));
            for _ in 0..repeated {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert_ne!(client.0.read_line(&mut head).unwrap(), 0);
                }
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            }
        }
    }
    running.stop();
}

/// Asks for answers and takes none, one after the other as long as the server gives them. How many it asked for.
fn ask_deafly(client: &mut Client, answers: &AtomicUsize) -> usize {
    for asked in 1.. {
        let before = answers.load(Ordering::SeqCst);
        if client.0.get_mut().write_all(b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n").is_err() {
            return asked;
        }
        let start = Instant::now();
        while answers.load(Ordering::SeqCst) == before {
            if start.elapsed() > Duration::from_millis(100) {
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
        let asked = ask_deafly(&mut client, &answers);
        for _ in 0..asked {
            assert_eq!(client.answer().unwrap().body, vec![b'x'; LENGTH]);
        }
    }
    // The end of the server does not cut off what is under way, nor wait for ever. (The last request was not read yet: that
    // resets the connection, and so the client does not get all that it was sent.)
    let asked = ask_deafly(&mut client, &answers);
    running.cancel.cancel();
    assert!((0..asked).any(|_| client.answer().is_err()));
    running.server.join().unwrap().unwrap();

    let running = start(Server::new().write_timeout(Duration::from_millis(50)), handler);
    let mut deaf = running.connect();
    ask_deafly(&mut deaf, &answers);
    until("the server gives up", || deaf.0.get_mut().write_all(b"GET /").is_err());
    running.stop();
}

#[test]
fn bodies_of_all_kinds() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    for length in [0usize, 1, 1000, 65_536, 65_537, 3_000_000] {
        client.send(format!("POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"));
        client.send(vec![2; length]);
        assert_eq!(client.answer().unwrap().body, (2 * length).to_string().into_bytes(), "{length}");
    }
    client.send("POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in ["3\r\nabc\r\n", "2\r\nde\r\n", "0\r\n\r\n"] {
        client.send(piece);
    }
    assert_eq!(client.answer().unwrap().body, b"abcde");
    client.send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n");
    let waiting = client.answer().unwrap();
    assert_eq!(waiting.status, 100);
    client.send("later");
    assert_eq!(client.answer().unwrap().body, b"later");
    assert_eq!(client.get("/read").body, vec![b'r'; 1_000_000]);
    let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    assert_eq!(client.get("/write").body, lines.clone().into_bytes());
    assert_eq!(client.get("/pieces").body, lines.into_bytes());
    client.send("HEAD /write HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        client.0.read_line(&mut head).unwrap();
    }
    assert_eq!(client.get("/after").body, b"GET /after");
    running.stop();
}

/// What a handler makes of a request that is still coming is sent as it comes.
#[test]
fn an_answer_is_sent_while_the_request_still_comes() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    client.send("POST /again HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send("3\r\none\r\n");
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(client.0.read_line(&mut head).unwrap(), 0);
    }
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    for piece in ["3\r\none\r\n", "3\r\ntwo\r\n"] {
        let mut buf = [0; 8];
        client.0.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, piece.as_bytes());
        client.send("3\r\ntwo\r\n");
    }
    client.0.read_exact(&mut [0; 8]).unwrap();
    client.send("0\r\n\r\n");
    let mut buf = [0; 5];
    client.0.read_exact(&mut buf).unwrap();
    assert_eq!(&buf, b"0\r\n\r\n");
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
fn limits_of_size() {
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

/// Never ends by itself.
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
            std::thread::sleep(Duration::from_millis(500)); // the server may take its time
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
    // One that says nothing, and one that says it byte by byte.
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
    // Two that wait for the server.
    let mut waiting = running.connect();
    assert_eq!(waiting.get("/slow").body, b"slow");
    assert_eq!(waiting.get("/pieces").body, b"xxxxx");
    // One that does not read.
    let mut deaf = running.connect();
    deaf.send("GET /endless HTTP/1.1\r\nhost: x\r\n\r\n");
    until("the server gives up", || ENDED.load(Ordering::SeqCst) == 1);
    running.stop();
}

/// A connection that was quiet for a while, also in the middle of a request's headers, goes on.
#[test]
fn quiet_connections_wake_up() {
    let running = start(Server::new(), echo);
    let mut clients: Vec<_> = (0..3).map(|_| running.connect()).collect();
    for round in 0..2 {
        for client in &mut clients[1..] {
            assert_eq!(client.get("/first").status, 200);
        }
        clients[2].send("GET /half");
        gort::sleep(Duration::from_millis(300)); // longer than the server keeps what it does not need
        clients[2].send("way HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(clients[2].answer().unwrap().body, b"GET /halfway", "{round}");
        for client in &mut clients {
            client.send("POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n");
            client.send([1, 2]);
            assert_eq!(client.answer().unwrap().body, b"3");
        }
    }
    gort::sleep(Duration::from_millis(300));
    running.cancel.cancel();
    for client in &mut clients {
        assert!(client.is_closed());
    }
    running.server.join().unwrap().unwrap();
}

/// Only what they do is left: none has a goroutine, and each gets one whenever its client speaks.
#[test]
fn quiet_connections_need_no_goroutine() {
    const NAME: &str = "quiet_connections_need_no_goroutine";
    const CLIENTS: usize = 200;
    if !common::is_child("server") {
        common::run_ok(common::child(NAME, "server"));
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
        until("all sleep", || alive() < CLIENTS / 10);
    }
    // Some speak while others fall asleep and others go.
    gort::scope(|s| {
        for (number, mut client) in clients.into_iter().enumerate() {
            s.spawn(move || {
                for round in 0..3 {
                    gort::sleep(Duration::from_millis(245 + ((number + round) % 10) as u64));
                    assert_eq!(client.get("/y").body, b"GET /y");
                }
            });
        }
    });
    running.stop();
}

#[test]
fn quiet_connections_end_when_their_time_is_over() {
    let running = start(Server::new().head_timeout(Duration::from_millis(400)), echo);
    let mut clients: Vec<_> = (0..20).map(|_| running.connect()).collect();
    for client in &mut clients[10..] {
        assert_eq!(client.get("/x").status, 200);
    }
    for client in &mut clients {
        assert!(client.is_closed());
    }
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

#[test]
fn connections_end_with_their_listener() {
    let _watchdog = Watchdog::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    // The second accept fails.
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
