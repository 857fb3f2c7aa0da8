//! The WebSocket crate `tungstenite` over std's sockets.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use tungstenite::{Message, accept, client};

use super::common::{alone, until};
use super::{Gate, MANY, results, until_few_threads};

#[test]
fn quiet_websockets_hold_no_threads() {
    if !alone("websocket::quiet_websockets_hold_no_threads") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        static GATE: Gate = Gate::new();
        static CONNECTED: AtomicUsize = AtomicUsize::new(0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = gort::spawn(move || {
            let serve = |stream: TcpStream| {
                gort::spawn(move || {
                    let mut socket = accept(stream).unwrap();
                    GATE.pass();
                    while let Ok(message) = socket.read() {
                        if !message.is_close() {
                            socket.send(message).unwrap();
                        }
                    }
                })
            };
            let connections = listener.incoming().take(MANY).map(|stream| serve(stream.unwrap()));
            results::<()>(connections.collect());
        });
        let clients = (0..MANY)
            .map(|n| {
                gort::spawn(move || {
                    let stream = TcpStream::connect(address).unwrap();
                    let (mut socket, _) = client(format!("ws://{address}/"), stream).unwrap();
                    CONNECTED.fetch_add(1, Ordering::Relaxed);
                    for round in 0..10 {
                        let message = Message::binary(vec![n as u8; 20_000 * round + n]);
                        socket.send(message.clone()).unwrap();
                        assert!(socket.read().unwrap() == message);
                    }
                    socket.close(None).unwrap();
                    while socket.read().is_ok() {}
                })
            })
            .collect();
        until("all clients wait for an answer", || {
            CONNECTED.load(Ordering::Relaxed) == MANY
                && GATE.arrived() == MANY
                && gort::runtime::stats().goroutines.waiting >= 2 * MANY
        });
        until_few_threads("tungstenite", 0);
        GATE.open();
        results::<()>(clients);
        acceptor.join().unwrap();
    });
}
