//! axum on goroutines: one goroutine per connection polls hyper and the router, so handlers may block.

use std::io::{Read, Write};
use std::time::Duration;

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use gort::hyper::Stream;
use gort::net::{TcpListener, TcpStream};
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;

async fn slow(Path(name): Path<String>) -> String {
    std::thread::sleep(Duration::from_millis(5)); // in Tokio this would delay other requests
    format!("hello {name}")
}

async fn sum(Json(numbers): Json<Vec<i64>>) -> Json<i64> {
    Json(gort::spawn(move || numbers.iter().sum()).await.unwrap())
}

fn serve(stream: TcpStream, router: Router) {
    let service = TowerToHyperService::new(router);
    let connection =
        http1::Builder::new().timer(gort::hyper::Timer).serve_connection(Stream::new(stream), service);
    if let Err(error) = gort::future::block_on(connection) {
        eprintln!("a connection failed: {error}");
    }
}

#[gort::main]
fn main() -> std::io::Result<()> {
    let router = Router::new().route("/hello/{name}", get(slow)).route("/sum", post(sum));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    gort::go!(for stream in listener.incoming().flatten() {
        let router = router.clone();
        gort::go!(serve(stream, router));
    });

    let ask = move |request: String| -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    };
    let asking: Vec<_> = (0..100)
        .map(|n| {
            gort::spawn(move || {
                ask(format!("GET /hello/{n} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
            })
        })
        .collect();
    for (n, asking) in asking.into_iter().enumerate() {
        assert_eq!(asking.join().unwrap()?, format!("hello {n}"));
    }
    let head = "POST /sum HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    println!("1 + 2 + 3 = {}", ask(format!("{head}content-length: 7\r\n\r\n[1,2,3]"))?);
    Ok(())
}
