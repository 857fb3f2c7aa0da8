//! HTTP: the client `ureq`, and the servers `touche` and `tiny_http`.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use touche::{Body, HttpBody, Request, Response, Server};

use super::common::{alone, until};
use super::{Gate, MANY, results, until_few_threads};

/// Serves each connection in a goroutine. `/wait/…` passes the gate first; every answer is the path and the
/// body of the request.
pub(crate) fn serve(gate: Arc<Gate>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    gort::spawn(move || {
        for stream in listener.incoming() {
            let (stream, gate) = (stream.unwrap(), Arc::clone(&gate));
            let answer = move |request: Request<Body>| {
                let path = request.uri().path().to_owned();
                if path.starts_with("/wait/") {
                    gate.pass();
                }
                let body = request.into_body().into_bytes().unwrap();
                Response::builder().body([path.as_bytes(), &body].concat())
            };
            gort::spawn(move || Server::builder().from_connections([stream]).serve_single_thread(answer));
        }
    });
    address
}

/// What the server answers to a request.
pub(crate) fn answer(path: &str, body: &[u8]) -> Vec<u8> {
    [path.as_bytes(), body].concat()
}

fn body_of(response: ureq::http::Response<ureq::Body>) -> Vec<u8> {
    assert_eq!(response.status(), 200);
    let mut body = Vec::new();
    response.into_body().into_reader().read_to_end(&mut body).unwrap();
    body
}

#[test]
fn requests_that_wait_hold_no_threads() {
    if !alone("http::requests_that_wait_hold_no_threads") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let gate = Arc::new(Gate::new());
        let address = serve(Arc::clone(&gate));
        // One agent, and its pool of connections, for all.
        let agent = ureq::agent();
        let clients = (0..MANY)
            .map(|n| {
                let agent = agent.clone();
                gort::spawn(move || {
                    let path = format!("/wait/{n}");
                    let response = agent.get(format!("http://{address}{path}")).call().unwrap();
                    assert!(body_of(response) == answer(&path, b""));
                    for round in 0..5 {
                        let path = format!("/{n}/{round}");
                        let body = vec![n as u8; 50_000 * round];
                        let response = agent.post(format!("http://{address}{path}")).send(&body).unwrap();
                        assert!(body_of(response) == answer(&path, &body));
                    }
                })
            })
            .collect();
        until("all requests wait", || gate.arrived() == MANY);
        until_few_threads("ureq and touche", 0);
        gate.open();
        results::<()>(clients);
    });
}

/// tiny_http starts threads with `std::thread::spawn`: one that accepts connections, and one for each of
/// them. These stay threads with gort; the goroutines that answer, and the clients, hold none. (It does not
/// always start enough: of 200 connections at once, 8 waited in its queue until others ended. So this does
/// not wait until the server has all requests.)
#[test]
fn a_server_with_its_own_threads_adds_no_others() {
    if !alone("http::a_server_with_its_own_threads_adds_no_others") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let gate = Arc::new(Gate::new());
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let address = server.server_addr().to_ip().unwrap();
        let workers = (0..MANY)
            .map(|_| {
                let (server, gate) = (Arc::clone(&server), Arc::clone(&gate));
                gort::spawn(move || {
                    while let Ok(mut request) = server.recv() {
                        let path = request.url().to_owned();
                        let mut body = Vec::new();
                        request.as_reader().read_to_end(&mut body).unwrap();
                        gate.pass();
                        request.respond(tiny_http::Response::from_data(answer(&path, &body))).unwrap();
                    }
                })
            })
            .collect();
        let clients = (0..MANY)
            .map(|n| {
                gort::spawn(move || {
                    let agent = ureq::agent();
                    for round in 0..5 {
                        let (path, body) = (format!("/{n}/{round}"), vec![n as u8; 10_000 * round]);
                        let response = agent.post(format!("http://{address}{path}")).send(&body).unwrap();
                        assert!(body_of(response) == answer(&path, &body));
                    }
                })
            })
            .collect();
        until("all clients and workers wait", || {
            gate.arrived() > 0 && gort::runtime::stats().goroutines.waiting >= 2 * MANY
        });
        until_few_threads("ureq and tiny_http", MANY + 1);
        gate.open();
        results::<()>(clients);
        (0..MANY).for_each(|_| server.unblock());
        results::<()>(workers);
    });
}
