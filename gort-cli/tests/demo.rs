//! Runs `gort demo` as a user does, and checks its output, its figures and its reaction to signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

fn gort(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gort"));
    command.args(args).env_remove("GOMAXPROCS").env_remove("GORT_MAXPROCS");
    command
}

fn output(args: &[&str]) -> Output {
    gort(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SHORT: [&str; 6] = ["--seconds", "2", "--crowd", "2000", "--procs", "2"];

#[test]
fn the_figures_add_up() {
    let mut args = vec!["demo", "--json", "--workers", "1"];
    args.extend(SHORT);
    let output = output(&args);
    // Standard output has only the JSON; the progress is on standard error.
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{figures:#}");
    assert!(text(&output.stderr).contains("service"));

    let number = |path: &str| {
        figures.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {figures:#}"))
    };
    assert_eq!((number("/procs"), number("/workers")), (2.0, 1.0));
    assert_eq!(number("/service/offered"), number("/service/accepted") + number("/service/given_up"));
    assert_eq!(
        number("/service/accepted"),
        number("/service/done") + number("/service/wrong") + number("/service/cancelled")
    );
    assert_eq!(number("/service/wrong"), 0.0);
    assert!(number("/service/queue_full") > 0.0);
    let answers = ["compute", "file", "network"].map(|kind| number(&format!("/service/{kind}/count")));
    assert_eq!(answers.iter().sum::<f64>(), number("/service/done"));
    assert!(answers.iter().all(|count| *count > 0.0));
    // The deadline cancels the stuck job, and on a slow machine maybe others, too.
    assert!(number("/service/cancelled") >= 1.0);
    assert!(number("/service/shutdown/took_ms") >= number("/service/shutdown/grace_ms"));
    assert!(number("/service/cpu_at_once") <= 2.0);
    assert!(number("/balance/stolen") > 0.0);
    assert!(number("/hogs/preempted_by_signal") > 0.0);
    assert_eq!(number("/crowd/goroutines"), 2000.0);
    assert_eq!(number("/crowd/woken"), 2000.0);
    let claims = figures["claims"].as_array().unwrap();
    assert!(claims.len() >= 7 && claims.iter().all(|claim| claim["holds"] == true), "{figures:#}");
}

#[test]
fn without_a_command_the_demo_runs_and_reports_without_escape_sequences() {
    let output = output(&SHORT);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}");
    for part in ["service", "uneven load", "endless loops", "blocking calls", "parked crowd"] {
        assert!(out.contains(&format!("✓ {part}")), "{part}: {out}");
    }
    assert!(out.contains("Where to look next"));
    assert!(!out.contains('\x1b'), "{out}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn one_processor_is_enough() {
    let output = output(&["demo", "--json", "--seconds", "1", "--crowd", "100", "--procs", "1"]);
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{figures:#}");
    assert_eq!(figures["balance"]["stolen"], 0);
}

/// Creates a new directory.
fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("gort-cli-test-{}-{name}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    directory
}

#[test]
fn the_files_of_the_demo_are_removed() {
    let directory = scratch("removed");
    let status = gort(&["--seconds", "1", "--crowd", "10"])
        .env("TMPDIR", &directory)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    // Fails if the directory is not empty.
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let output = gort(&["--seconds", "1"]).env("TMPDIR", "/dev/null").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/dev/null/"), "{}", text(&output.stderr));
}

/// Starts a demo of ten minutes with its files in `directory`, and waits until its first part has begun.
fn long_demo(directory: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut command = gort(&["demo", "--seconds", "600"]);
    let mut child = command.env("TMPDIR", directory).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("done") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended too early");
    }
    (child, out)
}

/// The answer of a server to a request for `path`: its head and its body.
fn ask(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    (text(&answer), body)
}

/// A demo that ends with the test, also if it fails.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }
}

#[test]
fn a_served_demo_answers_every_link_of_its_page() {
    let directory = scratch("served");
    let mut command = gort(&["demo", "--seconds", "600", "--procs", "2", "--serve", "127.0.0.1:0"]);
    let command = command.env("TMPDIR", &directory).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Demo(command.spawn().unwrap());
    let mut line = String::new();
    let mut says = BufReader::new(demo.0.stderr.take().unwrap());
    says.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("the demo from inside: http://").expect(&line);
    let address = address.trim_end_matches('/');
    let ok = |path: &str| {
        let (head, body) = ask(address, path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head} {}", String::from_utf8_lossy(&body));
        body
    };
    let page = text(&ok("/"));
    let links = page.split("<a href=\"").skip(1).map(|link| link.split('"').next().unwrap());
    let links: Vec<&str> = links.collect();
    assert!(links.len() >= 5 && links.contains(&"/debug/flight"), "{links:?}");
    for link in links {
        let body = ok(link);
        // A trace that is sent while it is made comes in chunks, with their lengths before them.
        let is_trace = String::from_utf8_lossy(&body[..body.len().min(32)]).contains("go 1.26 trace");
        assert_eq!(is_trace, ["/debug/flight", "/debug/trace?seconds=2"].contains(&link), "{link}");
    }
    while !text(&ok("/debug/goroutines?q=worker&limit=1")).contains("worker") {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    send(&demo.0, libc::SIGINT);
    assert_eq!(demo.0.wait().unwrap().code(), Some(0));
    std::fs::remove_dir(&directory).unwrap(); // fails if the directory is not empty
}

fn send(child: &Child, signal: i32) {
    // SAFETY: the child has not been waited for, so the id still belongs to it.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

#[test]
fn an_interrupt_ends_the_service_in_order_and_reports() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let directory = scratch(&format!("signal-{signal}"));
        let (mut child, mut out) = long_demo(&directory);
        send(&child, signal);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
        assert!(rest.contains("It was interrupted"), "{rest}");
        assert!(rest.contains("✓ service") && rest.contains("shutdown:"), "{rest}");
        assert!(!rest.contains("✓ uneven load"), "{rest}");
        std::fs::remove_dir(&directory).unwrap(); // fails if the directory is not empty
    }
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let directory = scratch("twice");
    let (mut child, mut out) = long_demo(&directory);
    // The process is stopped first, so that it receives both signals at the same time.
    for signal in [libc::SIGSTOP, libc::SIGINT, libc::SIGTERM, libc::SIGCONT] {
        send(&child, signal);
    }
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let code = child.wait().unwrap().code().unwrap();
    assert!(code == 128 + libc::SIGINT || code == 128 + libc::SIGTERM, "{code}: {rest}");
    assert!(!rest.contains("What this run showed"), "{rest}");
    // The demo had no time to clean up.
    std::fs::remove_dir_all(&directory).unwrap();
}
