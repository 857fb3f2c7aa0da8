//! A server on a private port, and the handler of most tests.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;

use gort::context::{Cancel, Context};
use gort::http::{Body, Handler, Method, Request, Response, Server};
use gort::net::TcpStream;

use crate::client::Client;
use crate::common::{Watchdog, listen, patience};

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) cancel: Cancel,
    pub(crate) server: gort::JoinHandle<io::Result<()>>,
    _watchdog: Watchdog,
}

pub(crate) fn start(server: Server, handler: impl Handler) -> Running {
    let (listener, address) = listen();
    let (ctx, cancel) = Context::background().with_cancel();
    let server = gort::spawn(move || server.serve_until(&ctx, listener, handler));
    Running { address, cancel, server, _watchdog: Watchdog::start() }
}

impl Running {
    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        Client(BufReader::new(stream))
    }

    #[track_caller]
    pub(crate) fn stop(self) {
        self.cancel.cancel();
        self.server.join().unwrap().unwrap();
    }
}

/// Returns `Interrupted` before each piece.
struct Interrupted(Body, bool);

impl Read for Interrupted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { self.0.read(buf) } else { Err(ErrorKind::Interrupted.into()) }
    }
}

/// Panics in the poll of the connection itself.
struct Bursts;

impl Read for Bursts {
    fn read(&mut self, _buf: &mut [u8]) -> io::Result<usize> {
        panic!("in a reader");
    }
}

pub(crate) fn echo(request: Request) -> io::Result<Response> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match path.as_str() {
        "/panic" => panic!("in a handler"),
        "/fail" => Err(io::Error::other("failed")),
        "/echo" if method == Method::POST => Ok(Response::new(request.into_body())),
        "/sum" => {
            let mut sum = 0u64;
            for byte in BufReader::new(request.into_body()).bytes() {
                sum += u64::from(byte?);
            }
            Ok(Response::new(sum.to_string().into()))
        }
        "/read" => Ok(Response::new(Body::from_reader(io::repeat(b'r').take(1_000_000)))),
        "/write" => Ok(Response::new(Body::from_writer(|out| {
            for n in 0..20_000 {
                writeln!(out, "line {n}")?;
            }
            Ok(())
        }))),
        "/break" => Ok(Response::new(Body::from_writer(|out| {
            out.write_all(&[b'x'; 100_000])?;
            panic!("in a writer");
        }))),
        "/pieces" => {
            // The handler reads the body itself, as a filter does.
            let body = Body::from_writer(|out| {
                (0..20_000).try_for_each(|n| writeln!(out, "line {n}").and_then(|()| out.flush()))
            });
            Ok(Response::new(body.into_bytes()?.into()))
        }
        "/again" => Ok(Response::new(Body::from_reader(Interrupted(request.into_body(), true)))),
        "/burst" => Ok(Response::new(Body::from_reader(Bursts))),
        _ => Ok(Response::new(format!("{method} {path}").into())),
    }
}
