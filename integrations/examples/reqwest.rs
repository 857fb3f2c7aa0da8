//! reqwest, which needs Tokio, in goroutines: `gort::future::tokio` runs its futures. The server has blocking
//! handlers.

use std::time::Duration;

use gort::context::Context;
use gort::future::tokio;
use gort::http::{Request, Server};
use gort::net::TcpListener;

#[gort::main]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (ctx, cancel) = Context::background().with_cancel();
    let server = gort::spawn(move || {
        Server::new().serve_until(&ctx, listener, |request: Request| {
            gort::sleep(Duration::from_millis(1));
            format!("you asked for {}", request.uri().path())
        })
    });

    let client = reqwest::Client::new();
    let asking: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            gort::spawn(move || {
                let url = format!("http://{address}/{n}");
                let text = tokio(async { client.get(&url).send().await?.error_for_status()?.text().await });
                assert_eq!(text.unwrap(), format!("you asked for /{n}"));
            })
        })
        .collect();
    let answers = asking.into_iter().map(|asking| asking.join().unwrap()).count();
    println!("{answers} answers");
    drop(client);
    cancel.cancel();
    server.join().unwrap()?;
    Ok(())
}
