//! Group "net": servers.

use compare_common::{Args, Outcome, http_report};
use may_minihttp::{HttpServer, HttpService, Request, Response};
use std::io;

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(&mut self, _request: Request<'_, '_, '_>, response: &mut Response<'_>) -> io::Result<()> {
        response.body("Hello, World!");
        Ok(())
    }
}

/// may_minihttp, the HTTP server that may's users use.
pub fn http_hello(args: &Args) -> Outcome {
    // may_minihttp needs a port number, so find a free one first.
    let address =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_err(|e| e.to_string())?;
    let server = HttpServer(Hello).start(address).map_err(|e| e.to_string())?;
    std::mem::forget(server);
    http_report(address, args.size(64), "/")
}
