//! HTTP/2 with hyper on both sides: all requests share one connection, and each has a goroutine of its own.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use gort::future::block_on;
use gort::hyper::{Executor, Stream, Timer};
use gort::net::{TcpListener, TcpStream};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let length = request.into_body().collect().await.map(|body| body.to_bytes().len()).unwrap_or(0);
    gort::sleep(Duration::from_millis(5)); // delays only this request
    Ok(Response::new(Full::from(format!("{path}: {length} bytes"))))
}

#[gort::main]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    gort::go!(for stream in listener.incoming().flatten() {
        gort::go!(block_on(
            hyper::server::conn::http2::Builder::new(Executor)
                .timer(Timer)
                .serve_connection(Stream::new(stream), service_fn(answer))
        ));
    });

    let stream = Stream::new(TcpStream::connect(address)?);
    let (sender, connection) = block_on(hyper::client::conn::http2::handshake(Executor, stream))?;
    gort::go!(block_on(connection));
    let asking: Vec<_> = (0..100usize)
        .map(|n| {
            let mut sender = sender.clone();
            gort::future::spawn(async move {
                let body = Full::<Bytes>::from(vec![b'x'; n * 1000]);
                let request = Request::post(format!("http://{address}/{n}")).body(body).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                answer.into_body().collect().await.unwrap().to_bytes()
            })
        })
        .collect();
    for (n, asking) in asking.into_iter().enumerate() {
        assert_eq!(asking.join().unwrap(), format!("/{n}: {} bytes", n * 1000));
    }
    println!("100 requests at once over one connection");

    // The same over HTTP/1, one request after the other.
    let (mut sender, connection) = block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        gort::go! {
            let stream = Stream::new(listener.accept().unwrap().0);
            block_on(hyper::server::conn::http1::Builder::new().serve_connection(stream, service_fn(answer)))
        }
        hyper::client::conn::http1::handshake(Stream::new(TcpStream::connect(address).unwrap())).await
    })?;
    gort::go!(block_on(connection));
    for n in 0..3 {
        let request = Request::post(format!("/{n}")).header("host", "x").body(Full::<Bytes>::from("four"))?;
        let answer = block_on(async {
            sender.ready().await?; // the goroutine of the connection may still be finishing the last request
            sender.send_request(request).await?.into_body().collect().await
        })?;
        println!("{}", String::from_utf8_lossy(&answer.to_bytes()));
    }
    Ok(())
}
