//! Parses the head of a plain request.
//!
//! A request is plain if it is a GET over HTTP/1.1 for a path, has no body, and asks for nothing special
//! about the connection (see [`is_plain`]). All other requests go to hyper, and so does everything that is
//! malformed: hyper alone decides how to reject it.

use std::mem::MaybeUninit;

use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Uri;

use super::{Body, Request};

/// The largest number of headers of a plain request. Their array is on the stack; hyper parses requests with
/// more.
const HEADERS: usize = 32;

/// Parses `bytes` if they are exactly one complete plain request.
pub(super) fn read(bytes: &Bytes) -> Option<Request> {
    if !bytes.starts_with(b"GET /") || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let mut room = [const { MaybeUninit::uninit() }; HEADERS];
    let mut head = httparse::Request::new(&mut []);
    let parsed = head.parse_with_uninit_headers(bytes, &mut room).ok()?;
    if parsed != httparse::Status::Complete(bytes.len()) || head.version != Some(1) {
        return None;
    }
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = Uri::from_maybe_shared(bytes.slice_ref(head.path?.as_bytes())).ok()?;
    *request.headers_mut() = headers(bytes, head.headers)?;
    Some(request)
}

/// Collects the headers. Returns `None` if one of them is not allowed in a plain request.
fn headers(bytes: &Bytes, parsed: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for header in parsed {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        if !is_plain(&name, header.value) {
            return None;
        }
        headers.append(name, HeaderValue::from_maybe_shared(bytes.slice_ref(header.value)).ok()?);
    }
    Some(headers)
}

/// Whether a plain request may have this header: none that announces a body, an upgrade or trailers, or that
/// asks to close the connection.
fn is_plain(name: &HeaderName, value: &[u8]) -> bool {
    match *name {
        header::CONTENT_LENGTH
        | header::TRANSFER_ENCODING
        | header::EXPECT
        | header::UPGRADE
        | header::TE
        | header::TRAILER => false,
        header::CONNECTION => value.eq_ignore_ascii_case(b"keep-alive"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Option<Request> {
        read(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_plain_request_is_read() {
        let request = read_text(
            "GET /a/b?c=d HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive\r\nAccept: a\r\naccept:  b \r\n\
             empty:\r\n\r\n",
        )
        .unwrap();
        assert_eq!(request.uri().path_and_query().unwrap(), "/a/b?c=d");
        assert_eq!(request.method(), hyper::Method::GET);
        assert_eq!(request.version(), hyper::Version::HTTP_11);
        assert_eq!(request.headers().len(), 5);
        assert_eq!(request.headers()["host"], "x");
        assert_eq!(request.headers().get_all("accept").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(request.headers()["empty"], "");
    }

    #[test]
    fn all_else_is_left_to_hyper() {
        for text in [
            "",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.2\r\n\r\n",
            "GET /\r\n\r\n",
            "get / HTTP/1.1\r\n\r\n",
            "HEAD / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\n\r\n",
            "GET http://x/ HTTP/1.1\r\n\r\n",
            "GET * HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nconnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nconnection: keep-alive, upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nexpect: 100-continue\r\n\r\n",
            "GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n",
            "GET / HTTP/1.1\r\nte: trailers\r\n\r\n",
            "GET / HTTP/1.1\r\nhost : x\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: \u{1}\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\n\r\n",
        ] {
            assert!(read_text(text).is_none(), "{text:?}");
        }
        let many = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert!(read_text(&many(HEADERS)).is_some());
        assert!(read_text(&many(HEADERS + 1)).is_none());
    }
}
