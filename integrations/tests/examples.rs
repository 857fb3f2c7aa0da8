//! Runs every example, and checks that it ends by itself and prints exactly the expected text.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "transparent/servers.rs"]
mod servers;

use servers::{Postgres, Redis};

#[track_caller]
fn prints(example: &str, arguments: &[&str], expected: &str) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["run", "--quiet", "--example", example]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.arg("--").args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {}\n{errors}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{example}\n{errors}");
}

#[test]
fn tls() {
    prints("tls", &[], "100 clients got 18900 bytes back through TLS\n");
}

#[test]
fn websocket() {
    prints("websocket", &[], "1000 messages came back\n");
}

#[test]
fn reqwest() {
    prints("reqwest", &[], "50 answers\n");
}

#[test]
fn axum() {
    prints("axum", &[], "1 + 2 + 3 = 6\n");
}

#[test]
fn http2() {
    prints("http2", &[], "100 requests at once over one connection\n/0: 4 bytes\n/1: 4 bytes\n/2: 4 bytes\n");
}

#[test]
fn transparent_http() {
    prints("transparent_http", &[], "200 answers\n");
}

#[test]
fn transparent_sqlite() {
    prints("transparent_sqlite", &[], "the sum of 300 squares is 8955050\n");
}

#[test]
fn transparent_c_library() {
    prints("transparent_c_library", &[], "100 transfers at once\n");
}

#[test]
fn transparent_postgres() {
    let Some(server) = Postgres::start() else { return };
    prints("transparent_postgres", &[&server.url()], "50 clients: 1275\n");
}

#[test]
fn transparent_redis() {
    let Some(server) = Redis::start() else { return };
    prints("transparent_redis", &[&server.url()], "the sum is 4950\n");
}

/// A child process that is killed when the test ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let server = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"])
        .stdout(Stdio::null())
        .spawn();
    let server = match server {
        Ok(server) => Server(server),
        Err(error) => {
            println!("skipped: there is no redis-server (Debian's package redis-server): {error}");
            return;
        }
    };
    let start = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "redis-server does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
    prints("redis", &[&address], "50 goroutines counted to 1000\n");
    drop(server);
}
