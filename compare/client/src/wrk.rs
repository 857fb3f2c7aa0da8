//! Generates HTTP load with wrk, the usual tool to measure HTTP servers.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The script that prints wrk's results. The path is in the source tree, because the client is only run from
/// there.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/wrk.lua");

/// The number of wrk's threads: its own default.
const THREADS: usize = 2;

/// Runs wrk once to warm up, prints `start`, runs it again to measure, and prints the figures.
pub fn load(address: SocketAddr, connections: usize, time: Duration, path: &str) -> io::Result<()> {
    let url = format!("http://{address}{path}");
    measure(&url, connections, 1)?;
    println!("start");
    let Figures { requests, micros, p50, p99 } =
        measure(&url, connections, time.as_secs_f64().ceil() as u64)?;
    println!("{requests} {} {} {}", micros * 1000, p50 * 1000, p99 * 1000);
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Figures {
    requests: u64,
    micros: u64,
    p50: u64,
    p99: u64,
}

fn measure(url: &str, connections: usize, seconds: u64) -> io::Result<Figures> {
    let output = Command::new("wrk")
        .args(["--threads", &THREADS.to_string(), "--connections", &connections.to_string()])
        .args(["--duration", &format!("{seconds}s"), "--timeout", "30s", "--script", SCRIPT, url])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| {
            io::Error::new(e.kind(), format!("cannot run wrk (Debian's package of that name): {e}"))
        })?;
    let said = String::from_utf8_lossy(&output.stdout);
    read(&said).map_err(|why| {
        io::Error::other(format!("wrk: {why}: {said}{}", String::from_utf8_lossy(&output.stderr)))
    })
}

/// Reads the line that the script prints.
fn read(said: &str) -> Result<Figures, &'static str> {
    let line = said.lines().find_map(|line| line.strip_prefix("figures ")).ok_or("no figures")?;
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [0, ..] => Err("no answer came"),
        [requests, micros, p50, p99, 0] => Ok(Figures { requests, micros, p50, p99 }),
        [_, _, _, _, _] => Err("some requests failed"),
        _ => Err("these are no figures"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_failures_are_not() {
        let good = Figures { requests: 7, micros: 2_000_000, p50: 30, p99: 40 };
        assert_eq!(read("Running 2s test\nfigures 7 2000000 30 40 0\n"), Ok(good));
        assert_eq!(read("figures 7 2000000 30 40 1"), Err("some requests failed"));
        assert_eq!(read("figures 0 2000000 0 0 0"), Err("no answer came"));
        assert_eq!(read("figures 1 2"), Err("these are no figures"));
        assert_eq!(read("unable to connect"), Err("no figures"));
    }
}
