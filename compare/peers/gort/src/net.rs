//! Group "net": servers.

use compare_common::{Args, Outcome, echo_report};
use gort::net::TcpListener;
use std::io::{Read, Write};

/// A goroutine for each connection.
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
