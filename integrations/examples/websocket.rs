//! tungstenite, a blocking WebSocket crate, over gort's sockets: one goroutine for each connection.

use gort::net::{TcpListener, TcpStream};
use tungstenite::{Message, accept, client};

#[gort::main]
fn main() -> tungstenite::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    gort::go!(for stream in listener.incoming().flatten() {
        gort::go! {
            let mut socket = accept(stream).unwrap();
            while let Ok(message) = socket.read() {
                if !message.is_close() && socket.send(message).is_err() {
                    break;
                }
            }
        }
    });

    let clients: Vec<_> = (0..100)
        .map(|n| {
            gort::spawn(move || {
                let stream = TcpStream::connect(address).unwrap();
                let (mut socket, _) = client(format!("ws://{address}/"), stream).unwrap();
                for round in 0..10 {
                    let message = Message::text(format!("client {n}, round {round}"));
                    socket.send(message.clone()).unwrap();
                    assert_eq!(socket.read().unwrap(), message);
                }
                socket.close(None).unwrap();
                10
            })
        })
        .collect();
    let echoed: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
    println!("{echoed} messages came back");
    Ok(())
}
