//! The HTTP client `ureq` and the server `touche`, over std's sockets: 200 requests wait at once, and hold no
//! threads.

use std::convert::Infallible;
use std::net::TcpListener;
use std::time::Duration;

use touche::{Body, Request, Response, Server};

fn answer(request: Request<Body>) -> Result<Response<String>, Infallible> {
    std::thread::sleep(Duration::from_millis(200)); // Parks the goroutine.
    Ok(Response::new(format!("hello from {}", request.uri().path())))
}

fn main() -> std::io::Result<()> {
    gort::transparent::enable().expect("gort is linked into the program itself");
    gort::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        gort::go!(for stream in listener.incoming().flatten() {
            gort::go!(Server::builder().from_connections([stream]).serve_single_thread(answer));
        });

        let clients: Vec<_> = (0..200)
            .map(|n| {
                gort::spawn(move || {
                    let mut response = ureq::get(format!("http://{address}/{n}")).call().unwrap();
                    assert_eq!(response.body_mut().read_to_string().unwrap(), format!("hello from /{n}"));
                })
            })
            .collect();
        let answers = clients.into_iter().map(|client| client.join().unwrap()).count();
        println!("{answers} answers");
        Ok(())
    })
}
