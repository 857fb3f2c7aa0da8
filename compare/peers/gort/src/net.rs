//! Group "net": servers.

use compare_common::{Args, Outcome, burn, echo_report, http_report, idle_report, nap, rate_report};
use gort::http::{Handler, Request, Server};
use gort::net::TcpListener;
use std::io::{Read, Write};
use std::net::SocketAddr;

pub fn tcp_echo(args: &Args) -> Outcome {
    echo_report(echo_server(), args.size(64))
}

pub fn echo_rate(args: &Args) -> Outcome {
    rate_report(echo_server(), args.size(1000))
}

/// An echo server with a goroutine for each connection.
fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    gort::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_nodelay(true).expect("a TCP socket");
            gort::spawn(move || {
                let mut buf = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut buf) {
                    if stream.write_all(&buf[..length]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

fn serve(handler: impl Handler) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let forever = gort::context::Context::background();
    gort::spawn(move || Server::new().serve_until(&forever, listener, handler));
    address
}

pub fn http_hello(args: &Args) -> Outcome {
    http_report(serve(|_: Request| "Hello, World!"), args.size(64), "/")
}

pub fn http_cpu(args: &Args) -> Outcome {
    http_report(serve(|_: Request| burn().to_string()), args.size(256), "/")
}

pub fn http_block(args: &Args) -> Outcome {
    let handler = |_: Request| {
        gort::blocking(nap);
        "Hello, World!"
    };
    http_report(serve(handler), args.size(256), "/")
}

pub fn http_block_unmarked(args: &Args) -> Outcome {
    let handler = |_: Request| {
        nap();
        "Hello, World!"
    };
    http_report(serve(handler), args.size(256), "/")
}

pub fn http_idle(args: &Args) -> Outcome {
    idle_report(serve(|_: Request| "Hello, World!"), args.size(8_000), "/")
}
