//! `rustls` over std's sockets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::common::{alone, until};
use super::{Gate, MANY, results, until_few_threads};

fn configurations() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

/// What client `n` sends.
fn data(n: usize) -> Vec<u8> {
    (0..200_000 + n).map(|at| (at % 251 + n) as u8).collect()
}

#[test]
fn quiet_tls_connections_hold_no_threads() {
    if !alone("tls::quiet_tls_connections_hold_no_threads") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        static GATE: Gate = Gate::new();
        let (server, client) = configurations();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = gort::spawn(move || {
            let serve = |stream: TcpStream| {
                let connection = ServerConnection::new(server.clone()).unwrap();
                gort::spawn(move || {
                    let mut stream = StreamOwned::new(connection, stream);
                    let mut all = Vec::new();
                    stream.read_to_end(&mut all).unwrap();
                    GATE.pass();
                    stream.write_all(&all).unwrap();
                    stream.conn.send_close_notify();
                    stream.flush().unwrap();
                })
            };
            let connections = listener.incoming().take(MANY).map(|stream| serve(stream.unwrap()));
            results::<()>(connections.collect());
        });
        let clients = (0..MANY)
            .map(|n| {
                let client = client.clone();
                gort::spawn(move || {
                    let connection =
                        ClientConnection::new(client, ServerName::try_from("localhost").unwrap()).unwrap();
                    let stream = TcpStream::connect(address).unwrap();
                    let mut stream = StreamOwned::new(connection, stream);
                    let data = data(n);
                    stream.write_all(&data).unwrap();
                    stream.conn.send_close_notify();
                    stream.flush().unwrap();
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).unwrap();
                    assert!(back == data, "client {n}: {} bytes", back.len());
                })
            })
            .collect();
        until("all clients wait for the answer", || {
            GATE.arrived() == MANY && gort::runtime::stats().goroutines.waiting >= 2 * MANY
        });
        until_few_threads("rustls", 0);
        GATE.open();
        results::<()>(clients);
        acceptor.join().unwrap();
    });
}
