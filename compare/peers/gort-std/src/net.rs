//! Servers that know only std's sockets.

use compare_common::{Args, Outcome, echo_report, http_report};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use tiny_http::{Response, Server};

/// An echo server with a goroutine for each connection.
pub fn tcp_echo(args: &Args) -> Outcome {
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
    echo_report(address, args.size(64))
}

/// tiny_http's own example `hello-world`, with goroutines for its threads.
pub fn tiny_http(args: &Args) -> Outcome {
    let server = gort::run(|| Server::http("127.0.0.1:0")).map_err(|e| e.to_string())?;
    let address = server.server_addr().to_ip().expect("it has an internet address");
    let server = Arc::new(server);
    for _ in 0..4 {
        let server = server.clone();
        gort::spawn(move || {
            for request in server.incoming_requests() {
                let _the_client_may_be_gone = request.respond(Response::from_string("Hello, World!"));
            }
        });
    }
    http_report(address, args.size(64), "/")
}
