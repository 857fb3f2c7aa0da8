//! Group "net": servers.

use crate::runtime;
use compare_common::{Args, Outcome, burn, echo_report, http_report, idle_report, nap, rate_report};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub fn tcp_echo(args: &Args) -> Outcome {
    echo_report(echo_server(args), args.size(64))
}

pub fn echo_rate(args: &Args) -> Outcome {
    rate_report(echo_server(args), args.size(1000))
}

/// An echo server with a Tokio task for each connection.
fn echo_server(args: &Args) -> SocketAddr {
    let runtime = Box::leak(Box::new(runtime(args)));
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
    address
}

type Answer = Result<Response<Full<Bytes>>, Infallible>;

fn text(text: impl Into<Bytes>) -> Answer {
    Ok(Response::new(Full::new(text.into())))
}

/// hyper on Tokio, with a Tokio task for each connection.
fn serve<F>(args: &Args, handler: fn(Request<Incoming>) -> F) -> SocketAddr
where
    F: Future<Output = Answer> + Send + 'static,
{
    let runtime = Box::leak(Box::new(runtime(args)));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a TCP socket");
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), hyper::service::service_fn(handler)),
            );
        }
    });
    address
}

pub fn http_hello(args: &Args) -> Outcome {
    http_report(serve(args, |_| async { text("Hello, World!") }), args.size(64), "/")
}

pub fn http_cpu(args: &Args) -> Outcome {
    http_report(serve(args, |_| async { text(burn().to_string()) }), args.size(256), "/")
}

pub fn http_block(args: &Args) -> Outcome {
    let address = serve(args, |_| async {
        tokio::task::spawn_blocking(nap).await.expect("it does not panic");
        text("Hello, World!")
    });
    http_report(address, args.size(256), "/")
}

/// Blocks the runtime's own threads: what happens if a user forgets that the call blocks.
pub fn http_block_naive(args: &Args) -> Outcome {
    let address = serve(args, |_| async {
        nap();
        text("Hello, World!")
    });
    http_report(address, args.size(256), "/")
}

pub fn http_idle(args: &Args) -> Outcome {
    idle_report(serve(args, |_| async { text("Hello, World!") }), args.size(8_000), "/")
}
