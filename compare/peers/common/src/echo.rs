//! The client side of the network workloads: starts the client, which is a separate process and the same for
//! every peer.

use crate::{Outcome, Report, context_switches, cpu_ns, memory};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The duration of a measurement, in milliseconds.
const MILLIS: u64 = 1500;

/// The same for a load of a fixed rate, of which there are few requests.
const RATE_MILLIS: u64 = 3000;

/// The number of connections of a load of a fixed rate.
const RATE_CONNECTIONS: u64 = 50;

/// Runs the client against the peer's server at `address`, and reports requests, the server's CPU time and
/// latencies. Blocks the calling thread, which must not be one that the server needs.
pub fn echo_report(address: SocketAddr, connections: u64) -> Outcome {
    load_report(address, connections, None)
}

/// Runs the client against the peer's server at `address` with 50 connections and `rate` requests a second.
/// Reports what [`echo_report`] does, and the context switches of the server's threads for each request.
pub fn rate_report(address: SocketAddr, rate: u64) -> Outcome {
    load_for(RATE_MILLIS, address, RATE_CONNECTIONS, Some(&format!("@{rate}")))
}

/// Like [`echo_report`], but the client sends HTTP requests for `path`.
pub fn http_report(address: SocketAddr, connections: u64, path: &str) -> Outcome {
    load_report(address, connections, Some(path))
}

/// Makes the client open `connections` connections, use each of them once and leave them open. Reports the
/// server's memory for each connection.
pub fn idle_report(address: SocketAddr, connections: u64, path: &str) -> Outcome {
    allow_many_descriptors();
    let client = std::env::var_os("COMPARE_CLIENT").ok_or("COMPARE_CLIENT does not name the client")?;
    let start = Instant::now();
    let before = memory();
    let mut child = Command::new(client)
        .args([&address.to_string(), &connections.to_string(), "0", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start the client: {e}"))?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    lines.next().and_then(Result::ok).ok_or("the client ended early")?;
    let time = start.elapsed();
    // Some runtimes return memory only after a while.
    std::thread::sleep(Duration::from_secs(5));
    let each = memory().saturating_sub(before) as f64 / connections as f64;
    drop(child.stdin.take());
    let _it_has_ended = child.wait();
    Ok(Report::new(connections, time).with("bytes_each", each))
}

/// Raises the limit on open descriptors, because each connection needs one.
fn allow_many_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls access only the struct, which is a local variable.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// The work of the handlers of `http_cpu`: 200 µs of computing.
pub fn burn() -> u64 {
    let start = Instant::now();
    let mut sum = 0u64;
    while start.elapsed() < Duration::from_micros(200) {
        for n in 0..100 {
            sum = sum.wrapping_mul(6364136223846793005).wrapping_add(n);
        }
    }
    sum
}

/// The work of the handlers of `http_block`: a sleep of 5 ms in the kernel.
pub fn nap() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    // SAFETY: the kernel only reads the struct.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

fn load_report(address: SocketAddr, connections: u64, path: Option<&str>) -> Outcome {
    load_for(MILLIS, address, connections, path)
}

/// `what`: a path for HTTP, a rate as `@RATE`, or nothing.
fn load_for(millis: u64, address: SocketAddr, connections: u64, what: Option<&str>) -> Outcome {
    allow_many_descriptors();
    let client = std::env::var_os("COMPARE_CLIENT").ok_or("COMPARE_CLIENT does not name the client")?;
    let mut child = Command::new(client)
        .args([address.to_string(), connections.to_string(), millis.to_string()])
        .args(what)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start the client: {e}"))?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().and_then(Result::ok).ok_or("the client ended early");
    line()?;
    let before = (cpu_ns(), context_switches());
    let figures = line()?;
    let (cpu, switches) = (cpu_ns() - before.0, context_switches() - before.1);
    let numbers: Vec<u64> = figures.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [requests, nanos, p50, p99] = numbers[..] else {
        return Err(format!("the client said {figures:?}"));
    };
    let _it_has_ended = child.wait();
    Ok(Report::new(requests, Duration::from_nanos(nanos))
        .with("cpu_ns", cpu as f64 / requests as f64)
        .with("switches", switches as f64 / requests as f64)
        .with("p50_ns", p50 as f64)
        .with("p99_ns", p99 as f64))
}
