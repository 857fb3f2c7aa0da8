//! Group "net": servers.

use crate::runtime;
use compare_common::{Args, Outcome, echo_report};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A task for each connection.
pub fn tcp_echo(args: &Args) -> Outcome {
    let runtime = runtime(args);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a TCP socket");
            tokio::spawn(async move {
                let mut buf = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut buf).await {
                    if stream.write_all(&buf[..length]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    echo_report(address, args.size(64))
}
