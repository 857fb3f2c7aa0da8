//! rustls over gort's sockets: `StreamOwned` needs `Read` and `Write`, which gort's streams implement.

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use gort::net::{TcpListener, TcpStream};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[gort::main]
fn main() -> Result<(), Error> {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone())?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (server, client) = (Arc::new(server), Arc::new(client));

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    gort::go!(for stream in listener.incoming().flatten() {
        let connection = ServerConnection::new(server.clone()).unwrap();
        gort::go!(echo(StreamOwned::new(connection, stream)));
    });

    let clients: Vec<_> = (0..100)
        .map(|n| {
            let client = client.clone();
            gort::spawn(move || -> Result<usize, Error> {
                let connection = ClientConnection::new(client, ServerName::try_from("localhost")?)?;
                let mut stream = BufReader::new(StreamOwned::new(connection, TcpStream::connect(address)?));
                let mut bytes = 0;
                for round in 0..10 {
                    let line = format!("client {n}, round {round}\n");
                    stream.get_mut().write_all(line.as_bytes())?;
                    let mut answer = String::new();
                    stream.read_line(&mut answer)?;
                    assert_eq!(answer, line);
                    bytes += line.len();
                }
                stream.get_mut().conn.send_close_notify();
                stream.get_mut().flush()?;
                Ok(bytes)
            })
        })
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += client.join().unwrap()?;
    }
    println!("100 clients got {bytes} bytes back through TLS");
    Ok(())
}

fn echo(stream: StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line)? != 0 {
        stream.get_mut().write_all(line.as_bytes())?;
        line.clear();
    }
    Ok(())
}
