//! Checks the `content-length` that a handler has set. hyper trusts it: with a wrong one the client would
//! wait for bytes that never come, or take the rest of a body for the next answer.
//!
//! - A body in memory has a known length. If the header says something else, or is no number, the client gets
//!   a 500, and the reason is printed to standard error.
//! - A body that is read or written while it is sent has no known length. The server sends at most as many
//!   bytes as the header says. If the body ends earlier, the head has been sent already: the server prints
//!   the reason and cuts the connection off, so that the client does not mistake the part for the whole.
//! - An answer to HEAD, or one whose status has no body, may describe a body that it does not have.

use std::io;

use hyper::body::Bytes;
use hyper::header::{self, HeaderMap};

use super::Response;
use super::answer::has_body;
use super::handler::{IntoResponse, report};

/// The answer, or a 500 if it has a wrong `content-length`. `to_head`: the request's method is HEAD.
pub(super) fn checked(response: Response, to_head: bool) -> Response {
    if response.headers().is_empty() || !response.headers().contains_key(header::CONTENT_LENGTH) {
        return response;
    }
    check(response, to_head).unwrap_or_else(|wrong| io::Error::other(wrong).into_response())
}

fn check(mut response: Response, to_head: bool) -> Result<Response, String> {
    if response.headers().contains_key(header::TRANSFER_ENCODING) {
        // With an encoding, the length of what is sent is another one.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        return Ok(response);
    }
    let length = parse(response.headers())?;
    // In place of several equal ones.
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    let without_body = to_head || !has_body(response.status());
    match response.body().in_memory().map(<[u8]>::len) {
        Some(0) if without_body => Ok(response),
        Some(known) if known as u64 == length => Ok(response),
        Some(known) => Err(format!("it set content-length to {length}, but its body has {known} bytes")),
        None => Ok(response.map(|body| body.declared(length))),
    }
}

/// The length in the headers: a number, which may be there several times.
fn parse(headers: &HeaderMap) -> Result<u64, String> {
    let mut length = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let parsed = digits.and_then(|text| text.parse().ok());
        if parsed.is_none() || length.is_some_and(|length| Some(length) != parsed) {
            let all: Vec<_> = headers.get_all(header::CONTENT_LENGTH).iter().collect();
            return Err(format!("it set content-length to {all:?}"));
        }
        length = parsed;
    }
    length.ok_or_else(|| "it set no content-length".to_string())
}

/// What is left of the length that a handler declared.
pub(super) struct Left {
    declared: u64,
    left: u64,
}

impl Left {
    pub(super) fn new(declared: u64) -> Left {
        Left { declared, left: declared }
    }

    /// Counts the next piece of the body, `None` at its end. Returns what may be sent of it.
    pub(super) fn count(&mut self, piece: Option<Bytes>) -> io::Result<Option<Bytes>> {
        let declared = self.declared;
        match piece {
            None if self.left == 0 => Ok(None),
            None => {
                let sent = declared - self.left;
                let reason = format!("it set content-length to {declared}, but its body has {sent} bytes");
                report(&reason);
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason))
            }
            Some(mut piece) => {
                if piece.len() as u64 > self.left {
                    report(&format!("it set content-length to {declared}, but its body has more bytes"));
                    piece.truncate(self.left as usize);
                }
                self.left -= piece.len() as u64;
                Ok((!piece.is_empty()).then_some(piece))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Body, StatusCode};

    fn answer(body: impl Into<Body>, lengths: &[&str]) -> Response {
        let mut response = Response::new(body.into());
        for length in lengths {
            response.headers_mut().append("content-length", length.parse().unwrap());
        }
        response
    }

    fn status(response: Response) -> u16 {
        checked(response, false).status().as_u16()
    }

    #[test]
    fn a_wrong_length_is_an_error_of_the_handler() {
        assert_eq!(status(answer("seven", &[])), 200);
        assert_eq!(status(answer("seven", &["5"])), 200);
        let twice = checked(answer("seven", &["5", "5"]), false);
        assert_eq!(twice.headers().get_all("content-length").iter().count(), 1);
        for wrong in ["4", "6", "0", "", "+5", "five", "5, 5", "99999999999999999999999"] {
            assert_eq!(status(answer("seven", &[wrong])), 500, "{wrong:?}");
        }
        assert_eq!(status(answer("seven", &["5", "6"])), 500);
        assert_eq!(status(answer("", &["1"])), 500);
        assert_eq!(status(answer(Body::from_reader(io::empty()), &["x"])), 500);
    }

    #[test]
    fn an_answer_without_a_body_may_describe_one() {
        assert_eq!(checked(answer("", &["1000"]), true).headers()["content-length"], "1000");
        assert_eq!(checked(answer("seven", &["1000"]), true).status(), 500);
        let mut unchanged = answer("", &["1000"]);
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        assert_eq!(status(unchanged), 304);
    }

    #[test]
    fn an_encoding_takes_the_place_of_a_length() {
        let mut response = answer("seven", &["3"]);
        response.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
        let response = checked(response, false);
        assert_eq!((response.status().as_u16(), response.headers().len()), (200, 1));
    }

    #[test]
    fn a_stream_ends_where_its_declared_length_ends() {
        let mut left = Left::new(5);
        assert_eq!(left.count(Some("abc".into())).unwrap().unwrap(), "abc");
        assert_eq!(left.count(Some("defg".into())).unwrap().unwrap(), "de");
        assert_eq!(left.count(Some("h".into())).unwrap(), None);
        assert_eq!(left.count(None).unwrap(), None);
        let mut left = Left::new(5);
        left.count(Some("abc".into())).unwrap();
        assert_eq!(left.count(None).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
