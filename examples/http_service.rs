//! A small HTTP service with nothing but blocking code: a goroutine for each connection, handlers that compute or call
//! what blocks, limits on time and size, and an orderly end.
//!
//! `cargo run --example http_service [address]`, then `curl localhost:8080/primes/100000`. Enter (or the end of its
//! input) stops it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use gort::context::Context;
use gort::net::{TcpListener, TcpStream};
use gort::sync::WaitGroup;

/// What is longer is not a request for us.
const MAX_HEAD: u64 = 8 << 10;
const IDLE: Duration = Duration::from_secs(30);

/// A status and a text.
type Answer = (&'static str, String);

/// A handler is a function. It may compute for as long as it takes, and call whatever blocks.
fn handle(path: &str) -> Answer {
    match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        [""] => ("200 OK", "try /primes/1000 or /threads\n".into()),
        ["primes", limit] => match limit.parse::<u32>() {
            Ok(limit) if limit <= 10_000_000 => ("200 OK", format!("{}\n", count_primes(limit))),
            _ => ("400 Bad Request", "a number up to ten million\n".into()),
        },
        ["threads"] => match std::fs::read_dir("/proc/self/task") {
            Ok(threads) => ("200 OK", format!("{} threads\n", threads.count())),
            Err(error) => ("500 Internal Server Error", format!("{error}\n")),
        },
        _ => ("404 Not Found", "there is nothing here\n".into()),
    }
}

fn count_primes(limit: u32) -> usize {
    (2..limit).filter(|&n| (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)).count()
}

/// The path of the next request, and whether more may follow. `None` if the client is done.
fn read_request(input: &mut impl BufRead) -> io::Result<Option<(String, bool)>> {
    let mut head = input.take(MAX_HEAD);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a GET request");
    let path = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).ok_or_else(bad)?.to_string();
    let mut more = line.trim_end().ends_with("HTTP/1.1");
    loop {
        line.clear();
        match head.read_line(&mut line)? {
            0 => return Err(bad()),
            _ if line.trim_end().is_empty() => return Ok(Some((path, more))),
            _ => more &= !line.to_ascii_lowercase().starts_with("connection: close"),
        }
    }
}

/// Answers the requests of one connection, until the client is done or the context ends.
fn converse(stream: &TcpStream, ctx: &Context) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    let mut input = BufReader::new(stream);
    while let Some((path, more)) = read_request(&mut input)? {
        let (status, text) = handle(&path);
        let more = more && ctx.err().is_none();
        let connection = if more { "keep-alive" } else { "close" };
        let length = text.len();
        let mut output = stream;
        output.write_all(
            format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n{text}"
            )
            .as_bytes(),
        )?;
        if !more {
            break;
        }
    }
    Ok(())
}

/// Serves until the context ends. Requests that are under way then are answered first.
fn serve(listener: TcpListener, ctx: &Context) -> io::Result<()> {
    let listener = Arc::new(listener);
    let waiting = listener.clone();
    ctx.after_func(move || waiting.close());
    let connections = WaitGroup::new();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => Arc::new(stream),
            Err(_) if ctx.err().is_some() => break,
            Err(error) => return Err(error),
        };
        let ctx = ctx.clone();
        connections.go(move || {
            let idle = stream.clone();
            let at_end = ctx.after_func(move || idle.set_read_deadline(Some(gort::time::now())));
            // A client that sends nonsense, or nothing, is not our problem.
            let _ = converse(&stream, &ctx);
            at_end.stop();
        });
    }
    connections.wait();
    Ok(())
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
    };
    serve(listener, &ctx)?;
    println!("all connections are done");
    Ok(())
}
