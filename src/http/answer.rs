//! Formats the answer to a plain request, byte for byte as hyper would.

use std::cell::RefCell;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use hyper::header::{self, HeaderMap};

use super::{Response, StatusCode, Version};

/// The longest body, in bytes, of a plain answer, which copies it behind the head. hyper sends longer bodies
/// without copying them.
const SHORT: usize = 8 << 10;
/// The number of bytes reserved for the head: enough for a status line and the usual headers.
const HEAD: usize = 256;

/// Formats the answer as it is sent at `now`, if it is plain: its body is short and in memory, and neither
/// its status nor its version, headers or extensions need hyper.
pub(super) fn write(response: &Response, now: Instant) -> Option<Vec<u8>> {
    let body = response.body().in_memory().filter(|body| body.len() <= SHORT)?;
    let (status, headers) = (response.status(), response.headers());
    if !has_body(status)
        || response.version() != Version::HTTP_11
        || !response.extensions().is_empty()
        || !are_plain(headers)
    {
        return None;
    }
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason()?.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"content-length: ");
    write_number(&mut out, body.len());
    out.extend_from_slice(b"\r\n");
    if !headers.contains_key(header::DATE) {
        write_date(&mut out, now);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    Some(out)
}

/// Whether an answer with this status may have a body.
pub(super) fn has_body(status: StatusCode) -> bool {
    !status.is_informational() && ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}

fn are_plain(headers: &HeaderMap) -> bool {
    let special = [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
        header::UPGRADE,
        header::TRAILER,
    ];
    headers.is_empty() || !special.iter().any(|name| headers.contains_key(name))
}

fn write_number(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// A formatted `date` header line, and the time until which it is valid.
struct Date {
    line: Vec<u8>,
    until: Option<Instant>,
}

fn write_date(out: &mut Vec<u8>, now: Instant) {
    thread_local! {
        static DATE: RefCell<Date> = const { RefCell::new(Date { line: Vec::new(), until: None }) };
    }
    DATE.with_borrow_mut(|date| {
        if date.until.is_none_or(|until| until <= now) {
            *date = Date::at(SystemTime::now(), now);
        }
        out.extend_from_slice(&date.line);
    });
}

impl Date {
    fn at(time: SystemTime, now: Instant) -> Date {
        let mut line = Vec::with_capacity(48);
        let _to_memory = write!(line, "date: {}\r\n", httpdate::HttpDate::from(time));
        let past = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        Date { line, until: Some(now + (Duration::from_secs(1) - Duration::from_nanos(past.into()))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Body, IntoResponse};

    fn text(response: impl IntoResponse) -> Option<String> {
        write(&response.into_response(), Instant::now()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_plain_answer_is_written() {
        let mut response = (StatusCode::NOT_FOUND, "none\n").into_response();
        response.headers_mut().insert("x-one", "1".parse().unwrap());
        response.headers_mut().append("x-two", "a".parse().unwrap());
        response.headers_mut().append("x-two", "b".parse().unwrap());
        response.headers_mut().insert("date", "now".parse().unwrap());
        let expected = "HTTP/1.1 404 Not Found\r\nx-one: 1\r\nx-two: a\r\nx-two: b\r\ndate: now\r\n\
                        content-length: 5\r\n\r\nnone\n";
        assert_eq!(text(response).unwrap(), expected);
        let answer = text(()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\ndate: "), "{answer}");
        assert!(answer.ends_with(" GMT\r\n\r\n"), "{answer}");
    }

    #[test]
    fn all_else_is_left_to_hyper() {
        let status = |number| StatusCode::from_u16(number).unwrap();
        for number in [100, 199, 204, 304, 299] {
            assert_eq!(text((status(number), "x")), None, "{number}");
        }
        for name in ["content-length", "transfer-encoding", "connection", "upgrade", "trailer"] {
            let mut response = "x".into_response();
            response.headers_mut().insert(name, "1".parse().unwrap());
            assert_eq!(text(response), None, "{name}");
        }
        let mut old = "x".into_response();
        *old.version_mut() = Version::HTTP_10;
        assert_eq!(text(old), None);
        let mut extended = "x".into_response();
        extended.extensions_mut().insert(hyper::ext::ReasonPhrase::from_static(b"Fine"));
        assert_eq!(text(extended), None);
        assert_eq!(text(vec![b'x'; SHORT + 1]), None);
        assert!(text(vec![b'x'; SHORT]).is_some());
        assert_eq!(text(Body::from_reader(std::io::empty())), None);
    }

    #[test]
    fn numbers_of_all_lengths() {
        for number in [0, 1, 9, 10, 12345, usize::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_date_holds_until_its_second_ends() {
        let (now, milli) = (Instant::now(), Duration::from_millis(1));
        let date = Date::at(SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_250), now);
        assert_eq!(date.line, b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        assert_eq!(date.until, Some(now + 750 * milli));
    }
}
