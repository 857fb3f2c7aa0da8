//! Every example runs, ends by itself and prints exactly what it promises.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The command with which a user runs an example.
fn cargo_run(example: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["run", "--quiet", "--example", example]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    cargo
}

/// Runs an example and compares what it prints.
#[track_caller]
fn prints(example: &str, expected: &str) {
    let output = cargo_run(example).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {}\n{errors}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{example}\n{errors}");
}

#[test]
fn hello() {
    prints("hello", "Hello, GOROUTINE!\n10000 goroutines add up to 50005000\nthe goroutine said: oops\n");
}

#[test]
fn worker_pool() {
    prints("worker_pool", "1000 jobs done; the longest way to 1 starts at 871: 178 steps\n");
}

#[test]
fn pipeline() {
    prints("pipeline", "squares of odd numbers: [1, 9, 25, 49, 81, 121, 169, 225]\nall stages have ended\n");
}

#[test]
fn file_hashing() {
    // The same hash, computed here without goroutines or files.
    let line = |n: u8| {
        let hash = (0..usize::from(n) * 10_000)
            .fold(0xcbf29ce484222325u64, |hash, _| (hash ^ u64::from(n)).wrapping_mul(0x100000001b3));
        format!("{hash:016x}  {n:02}.bin\n")
    };
    prints("file_hashing", &(0..20).map(line).collect::<String>());
}

#[test]
fn sleep_sort() {
    prints("sleep_sort", "[1, 3, 5, 10, 15, 88, 170, 1200, 2000]\nslept for 2000 days\n");
}

#[test]
fn prime_sieve() {
    prints("prime_sieve", "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nthe 100th prime is 541\n");
}

#[test]
fn producer_consumer() {
    prints(
        "producer_consumer",
        "fast producer: sum 5050\n\
         slow producer: sum 55\n\
         the heart has beaten at least 3 times\n\
         nothing arrived within 30 ms\n\
         the deadline has ended an endless producer: true\n",
    );
}

#[test]
fn crawler() {
    prints("crawler", "500 pages found, never more than 8 fetches at once: true\n");
}

#[test]
fn lock_os_thread() {
    prints("lock_os_thread", "all calls came to one thread: true\nnobody else ran there: true\n");
}

/// An example that serves until its standard input ends.
struct Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    /// Starts the server on a port that the system chooses. The server prints it in its first line.
    fn start(mut command: Command) -> Server {
        command.args(["--", "127.0.0.1:0"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        let mut server = Server { process, input, output: BufReader::new(output), address: String::new() };
        let mut line = String::new();
        server.output.read_line(&mut line).unwrap();
        server.address = line.trim().rsplit(['/', ' ']).next().unwrap().to_string();
        server
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// Ends the server's input. Returns what the server prints until it ends, which it must do successfully.
    fn stop(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success());
        rest
    }
}

#[test]
fn echo_server() {
    let server = Server::start(cargo_run("echo_server"));
    let mut answer = String::new();
    let mut polite = server.connect();
    polite.write_all(b"hello").unwrap();
    polite.shutdown(Shutdown::Write).unwrap();
    polite.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");

    // This client never closes its side. It must not keep the server from ending.
    let mut idle = server.connect();
    idle.write_all(b"a").unwrap();
    idle.read_exact(&mut [0]).unwrap();
    assert_eq!(server.stop(), "served 2 connections\n");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
}

/// Sends a request on a connection of its own and reads the whole answer.
#[cfg(feature = "http")]
fn get(server: &Server, path: &str) -> String {
    let mut stream = server.connect();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[cfg(feature = "http")]
#[test]
fn http_service() {
    let mut cargo = cargo_run("http_service");
    cargo.arg("--all-features");
    let server = Server::start(cargo);
    for (path, status, text) in [
        ("/", "200 OK", "try /primes/1000 or /threads\n"),
        ("/primes/100", "200 OK", "25\n"),
        ("/primes/many", "400 Bad Request", "a number up to ten million\n"),
        ("/nothing", "404 Not Found", "there is nothing here\n"),
    ] {
        let answer = get(&server, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{path}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{path}: {answer}");
    }
    assert!(get(&server, "/threads").contains(" threads\n"));

    // A connection that stays open and idle must not keep the service from ending.
    let mut idle = server.connect();
    write!(idle, "GET /primes/10 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = BufReader::new(idle);
    let mut line = String::new();
    while line != "4\n" {
        line.clear();
        assert_ne!(answer.read_line(&mut line).unwrap(), 0);
    }
    assert_eq!(server.stop(), "all connections are done\n");
    assert_eq!(answer.read(&mut [0]).unwrap(), 0);
}
