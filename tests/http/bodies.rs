//! Bodies of requests and of answers.

use std::io::Read;

use gort::http::Server;

use crate::server::{echo, start};

#[test]
fn bodies_of_all_kinds_arrive_whole() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    for length in [0usize, 1, 1000, 65_536, 65_537, 3_000_000] {
        client.send(format!("POST /sum HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"));
        client.send(vec![2; length]);
        assert_eq!(client.answer().unwrap().body, (2 * length).to_string().into_bytes(), "{length}");
    }
    client.send("POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in ["3\r\nabc\r\n", "2\r\nde\r\n", "0\r\n\r\n"] {
        client.send(piece);
    }
    assert_eq!(client.answer().unwrap().body, b"abcde");
    client.send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n");
    let waiting = client.answer().unwrap();
    assert_eq!(waiting.status, 100);
    client.send("later");
    assert_eq!(client.answer().unwrap().body, b"later");
    assert_eq!(client.get("/read").body, vec![b'r'; 1_000_000]);
    let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    assert_eq!(client.get("/write").body, lines.clone().into_bytes());
    assert_eq!(client.get("/pieces").body, lines.into_bytes());
    client.send("HEAD /write HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(client.head().unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.get("/after").body, b"GET /after");
    running.stop();
}

/// The server sends an answer while the request that it is made of still comes.
#[test]
fn an_answer_is_sent_while_the_request_still_comes() {
    let running = start(Server::new(), echo);
    let mut client = running.connect();
    client.send("POST /again HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send("3\r\none\r\n");
    let head = client.head().unwrap();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    for piece in ["3\r\none\r\n", "3\r\ntwo\r\n"] {
        let mut buf = [0; 8];
        client.0.read_exact(&mut buf).unwrap();
        assert_eq!(&buf, piece.as_bytes());
        client.send("3\r\ntwo\r\n");
    }
    client.0.read_exact(&mut [0; 8]).unwrap();
    client.send("0\r\n\r\n");
    let mut buf = [0; 5];
    client.0.read_exact(&mut buf).unwrap();
    assert_eq!(&buf, b"0\r\n\r\n");
    running.stop();
}
