//! The debug server: every path answers, every bad request is told what was wrong, and the program goes on
//! meanwhile. The live page in a browser is tested in `gort-cli/tests/page.rs`.

#[path = "../common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Hogs, Procs, TempDir, Watchdog, alone, amount, go, join_all, named, run_ok, until};
use gort::chan;
use gort::debug::{Handle, Server, serve};
use gort::trace::{FlightRecorder, FlightRecorderConfig};
use serde_json::Value;

const TOKEN: &str = "0123456789-abcdef";

/// An answer: status, header fields with names in lower case, body.
struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.headers["content-type"], "application/json");
        serde_json::from_str(self.text()).unwrap()
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(common::patience())).unwrap();
    stream
}

/// Reads one answer. `None`: the connection was closed before it.
fn read_answer(stream: &mut TcpStream, head_only: bool) -> Option<Answer> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(0) if head.is_empty() => return None,
            Ok(1) => head.push(byte[0]),
            // The end of another test's child process interrupts a read that has a timeout.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset && head.is_empty() => return None,
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&head)),
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
    let fields = lines.map(|line| line.split_once(": ").unwrap());
    let headers: HashMap<String, String> =
        fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let mut body = Vec::new();
    if head_only {
        // Nothing follows.
    } else if let Some(length) = headers.get("content-length") {
        body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut body).unwrap();
    } else if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        loop {
            let mut size = String::new();
            while !size.ends_with("\r\n") {
                stream.read_exact(&mut byte).unwrap();
                size.push(char::from(byte[0]));
            }
            let start = body.len();
            let length = usize::from_str_radix(size.trim_end(), 16).unwrap();
            body.resize(start + length + 2, 0);
            stream.read_exact(&mut body[start..]).unwrap();
            assert_eq!(&body[start + length..], b"\r\n");
            body.truncate(start + length);
            if length == 0 {
                break;
            }
        }
    } else {
        stream.read_to_end(&mut body).unwrap();
    }
    Some(Answer { status, headers, body })
}

/// Sends these bytes, and returns the answer.
#[track_caller]
fn send(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(address);
    // The server may have refused and closed before all is sent.
    let _ = stream.write_all(bytes);
    read_answer(&mut stream, bytes.starts_with(b"HEAD")).expect("there is an answer")
}

#[track_caller]
fn get(address: SocketAddr, target: &str) -> Answer {
    send(address, format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
}

#[track_caller]
fn json(server: &Handle, target: &str) -> Value {
    get(server.local_addr(), target).json()
}

/// Tests that look at all goroutines, or make traces, take turns.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> (Handle, SocketAddr) {
    let server = serve("127.0.0.1:0").unwrap();
    let address = server.local_addr();
    (server, address)
}

#[test]
fn every_path_answers() {
    let (_turn, _watchdog, (server, address)) = (my_turn(), Watchdog::start(), start());
    let page = get(address, "/");
    assert_eq!((page.status, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    assert!(page.headers["content-security-policy"].contains("default-src 'none'"));
    let nonce = page.headers["content-security-policy"].split("nonce-").nth(1).unwrap().split('\'').next();
    assert!(page.text().contains(&format!("nonce=\"{}\"", nonce.unwrap())));
    assert_ne!(page.body, get(address, "/").body, "a nonce is used once");

    let metrics = get(address, "/metrics");
    assert!(metrics.text().contains("# TYPE go_sched_goroutines_goroutines gauge"));
    assert!(metrics.headers["content-type"].starts_with("text/plain; version=0.0.4"));

    let live = json(&server, "/debug/live");
    assert_eq!(live["pid"], std::process::id());
    let sample = &live["samples"][0];
    assert_eq!(sample["p"].as_array().unwrap().len(), gort::runtime::max_procs());
    assert!(live["facts"][0]["latencies"].is_array());
    let last = live["last"].as_u64().unwrap();
    until("there are new samples, and only these", || {
        let newer = json(&server, &format!("/debug/live?since={last}"));
        let samples = newer["samples"].as_array().unwrap();
        assert!(samples.iter().all(|sample| sample["n"].as_u64().unwrap() > last));
        !samples.is_empty()
    });

    assert!(json(&server, "/debug/goroutines")["total"].is_u64());
    let text = get(address, "/debug/goroutines?text");
    assert!(text.headers["content-type"].starts_with("text/plain"));
    let accept = format!("GET /debug/goroutines HTTP/1.1\r\nHost: {address}\r\nAccept: text/plain\r\n\r\n");
    assert!(send(address, accept.as_bytes()).text().contains(" goroutines, "));

    let index = get(address, "/debug/pprof/");
    for name in ["goroutine", "profile", "trace", "block", "mutex", "threadcreate", "cmdline", "symbol"] {
        assert!(index.text().contains(&format!(">{name}</a>")), "{name}");
    }
    let arguments: Vec<String> = std::env::args().collect();
    assert_eq!(get(address, "/debug/pprof/cmdline").text(), arguments.join("\0"));
    let function = every_path_answers as fn() as usize + 1;
    let symbols = get(address, &format!("/debug/pprof/symbol?{function:#x}"));
    assert!(symbols.text().contains("debug_server::every_path_answers"), "{}", symbols.text());
    assert_eq!(get(address, "/debug/pprof").headers["location"], "/debug/pprof/");
    assert_eq!(get(address, "/debug").headers["location"], "/");
}

#[test]
fn requests_of_one_connection_are_answered_in_order_and_head_has_no_body() {
    let (_watchdog, (_server, address)) = (Watchdog::start(), start());
    let mut stream = connect(address);
    let head = format!("Host: {address}\r\n\r\n");
    let three =
        format!("HEAD /metrics HTTP/1.1\r\n{head}GET /nothing HTTP/1.1\r\n{head}GET / HTTP/1.1\r\n{head}");
    stream.write_all(three.as_bytes()).unwrap();
    let first = read_answer(&mut stream, true).unwrap();
    assert!(first.status == 200 && first.headers["content-length"] != "0");
    assert_eq!(read_answer(&mut stream, false).unwrap().status, 404);
    assert!(read_answer(&mut stream, false).unwrap().text().contains("</html>"));
    // HTTP/1.0 knows no chunks, and the connection ends with the answer.
    let old = send(address, format!("GET /debug/pprof/goroutine?debug=2 HTTP/1.0\r\n{head}").as_bytes());
    assert!(old.status == 200 && !old.headers.contains_key("transfer-encoding"));
}

#[test]
fn a_bad_request_is_told_what_was_wrong() {
    let (_watchdog, (_server, address)) = (Watchdog::start(), start());
    let request = |line: &str, fields: &str| format!("{line} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
    let many = "a: b\r\n".repeat(100);
    let cases: [(String, u16, &str); 27] = [
        ("\u{1}\u{2}\u{3}garbage\r\n\r\n".into(), 400, "not a request"),
        ("GET / HTTP/9.9\r\n\r\n".into(), 400, "not a request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 400, "not a request"),
        ("GET / HTTP/1.1\r\n\r\n".into(), 400, "no Host"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".into(), 400, "not a host"),
        (request("GET http://x/", ""), 400, "not a path"),
        (request("GET /debug/goroutines?limit=ten", ""), 400, "limit=\"ten\""),
        (request("GET /debug/goroutines?limit=100000", ""), 400, "from 0 to 1000"),
        (request("GET /debug/goroutines?sort=beauty", ""), 400, "known are id"),
        (request("GET /debug/goroutines?group=size", ""), 400, "known are site"),
        (request("GET /debug/goroutines?id=x", ""), 400, "must be a number"),
        (request("GET /debug/goroutines?q=%ff", ""), 400, "cannot be decoded"),
        (request("GET /debug/trace?seconds=-1", ""), 400, "seconds"),
        (request("GET /debug/trace?seconds=1e99", ""), 400, "seconds"),
        (request("GET /debug/trace?seconds=nan", ""), 400, "seconds"),
        (request("GET /debug/pprof/symbol?0xzz", ""), 400, "not an address"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".into(), 403, "neither localhost"),
        (request("GET /debug/live", "Sec-Fetch-Site: cross-site\r\n"), 403, "another site"),
        (request("GET /debug/goroutines?id=18446744073709551615", ""), 404, "no goroutine"),
        (request("GET /../../../etc/passwd", ""), 404, "this server has"),
        (request("GET /%2e%2e/etc/passwd", ""), 404, "this server has"),
        (request("GET /debug/pprof/nothing", ""), 404, "lists the profiles"),
        (request("GET /debug/pprof/heap", ""), 404, "allocations"),
        (request("POST /debug/goroutines", ""), 405, "GET and HEAD"),
        (request("GET /", "Content-Length: 5\r\n"), 413, "no body"),
        (request(&format!("GET /{}", "a".repeat(10_000)), ""), 414, "request line"),
        (request("GET /", &many), 431, "header fields"),
    ];
    for (bytes, status, says) in cases {
        let answer = send(address, bytes.as_bytes());
        let text = answer.text();
        assert_eq!(answer.status, status, "{bytes:?}: {text}");
        assert!(text.contains(says) && text.starts_with(&status.to_string()), "{bytes:?}: {text}");
        assert!(text.lines().count() == 1 && text.len() < 20_000, "{bytes:?}: {text}");
    }
    // A head without an end: far more than fits.
    let endless = format!("GET / HTTP/1.1\r\nHost: {address}\r\nA: {}", "a".repeat(300_000));
    assert_eq!(send(address, endless.as_bytes()).status, 431);
    assert_eq!(send(address, request("DELETE /", "").as_bytes()).headers["allow"], "GET, HEAD");
    assert_eq!(get(address, "/").status, 200, "it goes on");
}

#[test]
fn random_bytes_do_no_harm() {
    let (_watchdog, (_server, address)) = (Watchdog::start(), start());
    let valid =
        format!("GET /debug/goroutines?q=a&limit=5 HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\n\r\n");
    for _ in 0..amount(200, 5000) {
        let mut bytes = valid.clone().into_bytes();
        for _ in 0..rand::random_range(1..6) {
            let place = rand::random_range(0..bytes.len());
            match rand::random_range(0..3) {
                0 => bytes[place] = rand::random(),
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, rand::random()),
            }
        }
        let mut stream = connect(address);
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        if let Some(answer) = read_answer(&mut stream, bytes.starts_with(b"HEAD")) {
            assert!([200, 303, 400, 403, 404, 405, 413].contains(&answer.status), "{}", answer.status);
        }
    }
    assert_eq!(get(address, "/").status, 200);
}

#[test]
fn a_client_that_is_too_slow_is_told_and_one_that_is_silent_does_not_disturb() {
    let (_watchdog, (_server, address)) = (Watchdog::start(), start());
    let _silent = connect(address);
    let mut slow = connect(address);
    slow.write_all(b"GET / HT").unwrap();
    assert_eq!(get(address, "/").status, 200);
    let answer = read_answer(&mut slow, false).unwrap();
    assert!(answer.status == 408 && answer.text().contains("did not arrive"), "{}", answer.text());
}

#[test]
fn more_connections_than_allowed_are_told_so() {
    let (_watchdog, (_server, address)) = (Watchdog::start(), start());
    let mut open: Vec<TcpStream> = (0..64).map(|_| connect(address)).collect();
    until("one too many is refused", || {
        let mut stream = connect(address);
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
        let answer = read_answer(&mut stream, false);
        let refused = answer.is_some_and(|a| a.status == 503 && a.text().contains("64 connections"));
        if !refused {
            open.push(stream); // the threads of the others had not started yet
        }
        refused
    });
    drop(open);
    until("there is room again", || {
        let mut stream = connect(address);
        let sent = stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes());
        sent.is_ok() && read_answer(&mut stream, false).is_some_and(|answer| answer.status == 200)
    });
}

#[test]
fn only_loopback_addresses_without_a_token() {
    for address in ["0.0.0.0:0", "[::]:0", "10.1.2.3:80"] {
        let error = serve(address).unwrap_err();
        assert!(error.to_string().contains("allow_remote"), "{error}");
    }
    let error = Server::new().allow_remote("short").serve("127.0.0.1:0").unwrap_err();
    assert!(error.to_string().contains("16 characters"), "{error}");
    let (server, address) = start();
    let error = serve(address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert_eq!(server.url(), format!("http://{address}/"));
    assert!(!format!("{:?}", Server::new().token(TOKEN)).contains(TOKEN));
}

#[test]
fn with_a_token_every_request_has_it() {
    let _watchdog = Watchdog::start();
    let server = Server::new().allow_remote(TOKEN).serve("0.0.0.0:0").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.local_addr().port()));
    assert_eq!(server.url(), format!("http://{address}/?token={TOKEN}"));
    let ask = |target: &str, fields: &str| {
        send(address, format!("GET {target} HTTP/1.1\r\nHost: name.example\r\n{fields}\r\n").as_bytes())
    };
    let without = ask("/metrics", "");
    assert_eq!((without.status, without.headers["www-authenticate"].starts_with("Bearer")), (401, true));
    for wrong in ["0123456789-abcdeF", "0", "", "0123456789-abcdef0"] {
        assert_eq!(ask(&format!("/metrics?token={wrong}"), "").status, 401, "{wrong}");
        assert_eq!(ask("/metrics", &format!("Authorization: Bearer {wrong}\r\n")).status, 401, "{wrong}");
    }
    // What is there is not told, either.
    assert_eq!(ask("/nothing", "").status, 401);
    assert_eq!(ask(&format!("/metrics?token={TOKEN}"), "").status, 200);
    assert_eq!(ask("/metrics", &format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
    let first = ask(&format!("/?token={TOKEN}"), "");
    assert_eq!((first.status, first.headers["location"].as_str()), (303, "/"));
    let cookie = &first.headers["set-cookie"];
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(ask("/", &format!("Cookie: other=1; {pair}\r\n")).status, 200);
}

#[test]
fn it_answers_while_endless_loops_run_on_every_p() {
    let procs = Procs::set(2);
    let (_turn, (server, address)) = (my_turn(), start());
    let hogs = Hogs::start(6);
    let last = json(&server, "/debug/live")["last"].as_u64().unwrap();
    until("the Ps run, and time goes on", || {
        let live = json(&server, &format!("/debug/live?since={last}"));
        let running = |sample: &Value| sample["p"].as_array().unwrap().iter().all(|p| p[0] == 2);
        live["samples"].as_array().unwrap().iter().any(running)
    });
    for target in [
        "/",
        "/metrics",
        "/debug/goroutines?group=site",
        "/debug/goroutines?text",
        "/debug/pprof/goroutine?debug=1",
    ] {
        assert_eq!(get(address, target).status, 200, "{target}");
    }
    until("the stack of a loop is seen", || {
        let running = json(&server, "/debug/goroutines?state=running");
        running["rows"].as_array().unwrap().iter().any(|row| {
            let one = get(address, &format!("/debug/goroutines?id={}", row["id"]));
            one.status == 200 && one.text().contains("Hogs::start")
        })
    });
    until("the CPU time of a loop is seen", || {
        let rows = json(&server, "/debug/goroutines?sort=-cpu&limit=1");
        rows["rows"][0]["cpu"].as_f64().unwrap() > 0.05 && rows["rows"][0]["cpuNs"].as_u64().unwrap() > 0
    });
    drop((hogs, procs));
}

#[test]
fn a_goroutine_is_shown_with_what_it_waits_for_and_the_holder() {
    let (_turn, _watchdog, (server, address)) = (my_turn(), Watchdog::start(), start());
    let lock = Arc::new(gort::sync::Mutex::new(()));
    let (release, wait) = chan::bounded::<()>(0);
    let (held, is_held) = chan::bounded::<()>(0);
    let own = lock.clone();
    let holder = gort::Builder::new().name("holder".into()).label("kind", "slow").spawn(move || {
        let _guard = own.lock();
        drop(held);
        let _ = wait.recv();
    });
    let holder = holder.unwrap();
    is_held.recv().unwrap_err();
    let waiter = named("waiter", move || drop(lock.lock()));
    let joiner = named("joiner", move || holder.join().unwrap());
    let find = |name: &str| {
        let found = json(&server, &format!("/debug/goroutines?name={name}"));
        let id = found["rows"][0]["id"].as_u64()?;
        let answer = get(address, &format!("/debug/goroutines?id={id}"));
        (answer.status == 200).then(|| answer.json())
    };
    until("one waits for the lock", || {
        find("waiter").is_some_and(|one| one["waitsFor"]["holders"][0]["name"] == "holder")
    });
    until("one waits for the end", || {
        find("joiner").is_some_and(|one| one["waitsFor"]["joins"]["name"] == "holder")
    });
    let one = find("holder").unwrap();
    assert_eq!((one["state"].as_str(), one["labels"]["kind"].as_str()), (Some("chan receive"), Some("slow")));
    assert!(one["waitsFor"]["object"].as_str().unwrap().starts_with("0x"));
    assert!(one["site"].as_str().unwrap().starts_with("tests/diag/debug_server.rs:"));
    let functions: Vec<&str> =
        one["stack"].as_array().unwrap().iter().map(|f| f["function"].as_str().unwrap()).collect();
    assert!(functions.iter().any(|function| function.contains("a_goroutine_is_shown")), "{functions:?}");
    let labelled = json(&server, "/debug/goroutines?label=kind%3Dslow");
    assert_eq!(
        (labelled["matching"].as_u64(), &labelled["rows"][0]["name"]),
        (Some(1), &Value::from("holder"))
    );
    assert_eq!(json(&server, "/debug/goroutines?q=KIND%3Dsl")["matching"], 1);
    let by_labels = json(&server, "/debug/goroutines?group=labels");
    assert!(by_labels["groups"].as_array().unwrap().iter().any(|group| group["labels"] == "kind=slow"));
    drop(release);
    join_all([waiter, joiner]);
}

#[test]
fn an_answer_about_very_many_goroutines_is_small_and_agrees_with_stats() {
    if !alone("an_answer_about_very_many_goroutines_is_small_and_agrees_with_stats") {
        return;
    }
    let (_watchdog, (server, address)) = (Watchdog::start(), start());
    let count = amount(100_000, 1_000_000);
    let (release, wait) = chan::bounded::<()>(0);
    let park = |n: usize, wait: chan::Receiver<()>| {
        let builder = gort::Builder::new();
        let builder = if n == count / 2 { builder.name("needle".into()) } else { builder };
        builder.spawn(move || wait.recv().is_ok()).unwrap()
    };
    let crowd: Vec<_> = (0..count).map(|n| park(n, wait.clone())).collect();
    until("all are parked, and the table says so", || {
        json(&server, "/debug/goroutines?limit=0")["reasons"]["chan receive"].as_u64() == Some(count as u64)
    });
    let groups = get(address, "/debug/goroutines?group=site");
    assert!(groups.body.len() < 50_000, "{}", groups.body.len());
    let largest = &groups.json()["groups"][0];
    assert_eq!(
        (largest["count"].as_u64(), largest["state"].as_str()),
        (Some(count as u64), Some("chan receive"))
    );
    until("its function is known", || {
        let groups = json(&server, "/debug/goroutines?group=site");
        groups["groups"][0]["in"].as_str().is_some_and(|name| name.contains("an_answer_about_very_many"))
    });
    let rows = get(address, "/debug/goroutines?limit=1000&sort=-id");
    assert!(rows.body.len() < 400_000, "{}", rows.body.len());
    let rows = rows.json();
    let ids: Vec<u64> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert!(ids.len() == 1000 && ids.is_sorted_by(|a, b| a > b));
    let next = json(&server, "/debug/goroutines?limit=10&offset=1000&sort=-id");
    assert!(next["rows"][0]["id"].as_u64().unwrap() < ids[999]);
    assert!(get(address, "/debug/goroutines?text").body.len() < 1 << 20);
    assert!(get(address, "/debug/live").body.len() < 1 << 20);
    let needle = json(&server, "/debug/goroutines?q=needle");
    assert_eq!((needle["matching"].as_u64(), needle["total"].as_u64()), (Some(1), Some(count as u64)));
    let (stats, table) = (gort::runtime::stats(), json(&server, "/debug/goroutines?limit=0"));
    assert_eq!(table["states"]["waiting"].as_u64(), Some(stats.goroutines.waiting as u64));
    assert_eq!(table["states"]["running"].as_u64(), Some(stats.goroutines.running as u64));
    assert_eq!(table["total"].as_u64(), Some(stats.stacks.in_use as u64));
    drop(release);
    join_all(crowd);
}

#[test]
fn traces_are_streamed_and_one_is_made_at_a_time() {
    let (_turn, _watchdog, (server, address)) = (my_turn(), Watchdog::start(), start());
    let mut first = connect(address);
    first
        .write_all(format!("GET /debug/trace?seconds=3600 HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
        .unwrap();
    until("the trace has begun", gort::trace::is_enabled);
    let second = get(address, "/debug/pprof/trace?seconds=0.1");
    assert!(second.status == 503 && second.text().contains("already"), "{}", second.text());
    drop(first);
    let mut trace = get(address, "/debug/trace?seconds=0.2");
    until("the server notices that the client has gone", || {
        if trace.status == 503 {
            trace = get(address, "/debug/trace?seconds=0.2");
        }
        trace.status != 503
    });
    assert!(trace.status == 200 && trace.body.starts_with(b"go 1.26 trace"), "{}", trace.status);
    assert!(trace.headers["content-disposition"].contains(".trace"));

    let none = get(address, "/debug/flight");
    assert!(none.status == 503 && none.text().contains("FlightRecorder"), "{}", none.text());
    let recorder = FlightRecorder::new(FlightRecorderConfig::new());
    recorder.start().unwrap();
    gort::run(|| join_all((0..10).map(|_| gort::spawn(gort::yield_now))));
    assert!(get(address, "/debug/flight").body.starts_with(b"go 1.26 trace"));
    recorder.stop();

    let (begun, hold) = (connect(address), "GET /debug/trace?seconds=3600 HTTP/1.1\r\nHost: ");
    (&begun).write_all(format!("{hold}{address}\r\n\r\n").as_bytes()).unwrap();
    until("another trace has begun", gort::trace::is_enabled);
    server.shutdown();
    assert!(!gort::trace::is_enabled(), "the end of the server ends the trace");
}

#[test]
fn profiles_have_gos_names_and_formats() {
    let (_turn, _watchdog, (_server, address)) = (my_turn(), Watchdog::start(), start());
    let hogs = Hogs::start(1);
    for name in ["goroutine", "threadcreate", "block", "mutex"] {
        let profile = get(address, &format!("/debug/pprof/{name}"));
        assert!(profile.status == 200 && profile.body.starts_with(&[0x1f, 0x8b]), "{name}");
        let text = get(address, &format!("/debug/pprof/{name}?debug=1"));
        assert!(
            text.headers["content-type"].starts_with("text/plain") && text.text().contains('\n'),
            "{name}"
        );
    }
    assert!(get(address, "/debug/pprof/goroutine?debug=2").text().contains("goroutine "));
    let cpu = get(address, "/debug/pprof/profile?seconds=0.3");
    assert!(cpu.status == 200 && cpu.body.starts_with(&[0x1f, 0x8b]), "{}", cpu.status);
    let delta = get(address, "/debug/pprof/block?seconds=0.1");
    assert!(delta.status == 200 && delta.body.starts_with(&[0x1f, 0x8b]), "{}", delta.status);
    // Go's tool fetches each by its URL. It shows the type, and functions where there are samples.
    for (name, kind, shows) in [
        ("profile?seconds=1", "Type: cpu", "Hogs::start"),
        ("goroutine", "Type: goroutine", "Hogs::start"),
        ("threadcreate", "Type: threadcreate", ""),
        ("block", "Type: delay", ""),
        ("mutex", "Type: delay", ""),
        ("goroutine?seconds=1", "Type: goroutine", ""),
    ] {
        let Some(mut pprof) = go(&["tool", "pprof", "-top"]) else { break };
        let dir = TempDir::new();
        pprof.env("PPROF_TMPDIR", dir.path());
        pprof.arg(format!("http://{address}/debug/pprof/{name}"));
        let printed = run_ok(pprof);
        let is_right = printed.stdout.contains(kind) && printed.stdout.contains(shows);
        assert!(is_right, "{name}: {}\n{}", printed.stdout, printed.stderr);
    }
    drop(hogs);
}

#[test]
fn while_nobody_looks_there_is_one_thread_and_leaks_are_found_also_while_somebody_does() {
    let test = "while_nobody_looks_there_is_one_thread_and_leaks_are_found_also_while_somebody_does";
    if !alone(test) {
        return;
    }
    let (_watchdog, (server, address)) = (Watchdog::start(), start());
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(entry.unwrap().path().join("comm")).unwrap_or_default()
        };
        tasks.map(name).filter(|name| name.trim_end() == "gort-debug").count()
    };
    let mut stream = connect(address);
    stream.write_all(format!("GET /debug/live HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream, false).unwrap().status, 200);
    assert_eq!(threads(), 3, "the listener, the connection, the history");
    // The signal that stops all threads finds these in their system calls.
    until("a search for leaks is possible", || gort::runtime::leaked().is_some());
    let url = format!("http://{address}/debug/pprof/goroutineleak");
    let fetch = || {
        let mut pprof = go(&["tool", "pprof", "-top"])?;
        let dir = TempDir::new();
        pprof.env("PPROF_TMPDIR", dir.path()).arg(&url);
        Some(pprof.output().unwrap())
    };
    // The server may refuse while a thread is in a call that must not be interrupted.
    until("Go's tool gets the profile of leaks", || {
        fetch().is_none_or(|output| String::from_utf8_lossy(&output.stdout).contains("Type: goroutineleak"))
    });
    assert_eq!(get(address, "/metrics").status, 200);
    drop(stream);
    until("only the listener is left", || {
        std::thread::sleep(Duration::from_millis(20));
        threads() == 1
    });
    assert_eq!(get(address, "/debug/live").status, 200, "it begins anew");
    server.shutdown();
    assert!(TcpStream::connect(address).is_err());
    until("all threads end", || threads() == 0);
    serve(address).unwrap().forget();
    assert_eq!(get(address, "/").status, 200);
}
