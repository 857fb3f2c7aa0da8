//! The client side of `tcp_echo`: a process of its own, the same one for every peer.

use crate::{Outcome, Report, cpu_ns};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long is measured.
const MILLIS: u64 = 1500;

/// Lets the client work on the peer's server at `address`, and reports requests, the server's CPU time and latencies.
/// Blocks the calling thread, which must not be one that the server needs.
pub fn echo_report(address: SocketAddr, connections: u64) -> Outcome {
    let client = std::env::var_os("COMPARE_CLIENT").ok_or("COMPARE_CLIENT does not name the client")?;
    let mut child = Command::new(client)
        .args([address.to_string(), connections.to_string(), MILLIS.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start the client: {e}"))?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().and_then(Result::ok).ok_or("the client ended early");
    line()?;
    let before = cpu_ns();
    let figures = line()?;
    let cpu = cpu_ns() - before;
    let numbers: Vec<u64> = figures.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [requests, nanos, p50, p99] = numbers[..] else {
        return Err(format!("the client said {figures:?}"));
    };
    let _it_has_ended = child.wait();
    Ok(Report::new(requests, Duration::from_nanos(nanos))
        .with("cpu_ns", cpu as f64 / requests as f64)
        .with("p50_ns", p50 as f64)
        .with("p99_ns", p99 as f64))
}
