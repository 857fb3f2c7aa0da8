//! A small HTTP service with a graceful shutdown. Its handler is a plain function that may compute or block;
//! goroutines call it.
//!
//! `cargo run --features http --example http_service [address]`, then `curl localhost:8080/primes/100000`.
//! Enter, or the end of its standard input, stops the service after it has answered the requests in progress.

use std::io;
use std::time::Duration;

use gort::context::Context;
use gort::http::{Request, Server, StatusCode};
use gort::net::TcpListener;

/// Errors are sent to the client as well.
type Answer = Result<String, (StatusCode, String)>;

/// Answers a request. It may compute for a long time or make blocking calls: other requests do not wait for
/// it.
fn handle(request: Request) -> Answer {
    match request.uri().path().trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        [""] => Ok("try /primes/1000 or /threads\n".into()),
        ["primes", limit] => match limit.parse::<u32>() {
            Ok(limit) if limit <= 10_000_000 => Ok(format!("{}\n", count_primes(limit))),
            _ => Err((StatusCode::BAD_REQUEST, "a number up to ten million\n".into())),
        },
        ["threads"] => match std::fs::read_dir("/proc/self/task") {
            Ok(threads) => Ok(format!("{} threads\n", threads.count())),
            Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))),
        },
        _ => Err((StatusCode::NOT_FOUND, "there is nothing here\n".into())),
    }
}

fn count_primes(limit: u32) -> usize {
    (2..limit).filter(|&n| (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)).count()
}

#[gort::main]
fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| String::from("127.0.0.1:8080"));
    let listener = TcpListener::bind(address)?;
    println!("listening on http://{}", listener.local_addr()?);

    let (ctx, cancel) = Context::background().with_cancel();
    gort::go! {
        let _ = io::stdin().read_line(&mut String::new());
        cancel.cancel();
    }
    let server = Server::new().max_connections(10_000).max_body(0).shutdown_timeout(Duration::from_secs(10));
    server.serve_until(&ctx, listener, handle)?;
    println!("all connections are done");
    Ok(())
}
