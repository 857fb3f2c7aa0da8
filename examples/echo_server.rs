//! An echo server: plain blocking code, a goroutine for each connection, and a graceful shutdown.
//!
//! `cargo run --example echo_server [address]`, then `nc localhost 7000`. Enter, or the end of its standard
//! input, stops the server.

use std::io;
use std::sync::Arc;

use gort::context::Context;
use gort::net::{TcpListener, TcpStream};
use gort::sync::WaitGroup;

/// Sends back what it receives, until the client has sent everything or the context ends.
fn echo(stream: TcpStream, ctx: &Context) -> io::Result<()> {
    let stream = Arc::new(stream);
    let waiting = stream.clone();
    // A deadline also ends a read that is already waiting.
    let at_end = ctx.after_func(move || waiting.set_read_deadline(Some(gort::time::now())));
    let result = io::copy(&mut &*stream, &mut &*stream);
    at_end.stop();
    match result {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
        other => other.map(drop),
    }
}

/// Accepts connections until the context ends, then waits for all of them. Returns how many there were.
fn serve(listener: TcpListener, ctx: &Context) -> io::Result<u64> {
    let listener = Arc::new(listener);
    let waiting = listener.clone();
    ctx.after_func(move || waiting.close());

    let connections = WaitGroup::new();
    let mut count = 0;
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                count += 1;
                let ctx = ctx.clone();
                connections.go(move || {
                    if let Err(error) = echo(stream, &ctx) {
                        eprintln!("{peer}: {error}");
                    }
                });
            }
            Err(_) if ctx.err().is_some() => break,
            Err(error) => return Err(error),
        }
    }
    connections.wait();
    Ok(count)
}

#[gort::main]
fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| String::from("127.0.0.1:7000"));
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);

    let (ctx, cancel) = Context::background().with_cancel();
    // An ordinary blocking read. The other goroutines keep running.
    gort::go! {
        let _ = io::stdin().read_line(&mut String::new());
        cancel.cancel();
    }
    println!("served {} connections", serve(listener, &ctx)?);
    Ok(())
}
