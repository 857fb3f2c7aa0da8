//! Parses requests. `httparse` splits the head; this file bounds it, and refuses what the server does not do.

use super::Refusal;

/// The largest head of a request, in bytes. Browsers send less than 2 kB.
pub(super) const LARGEST_HEAD: usize = 16 << 10;
/// The longest request line, in bytes.
const LONGEST_LINE: usize = 8 << 10;
/// The most header fields.
const HEADERS: usize = 64;

/// A request that the server may answer, if the client may see the answer ([`access`](super::access)).
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// Only the head of the answer is wanted.
    pub(crate) head_only: bool,
    /// The method is GET or HEAD.
    pub(crate) method_is_known: bool,
    pub(crate) path: String,
    raw_query: String,
    query: Vec<(String, String)>,
    pub(super) host: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) cookies: Vec<String>,
    pub(super) fetch_site: Option<String>,
    accept: String,
    /// HTTP/1.1, so the answer may be in chunks.
    pub(super) knows_chunks: bool,
    pub(super) keep_alive: bool,
}

impl Request {
    /// The last value of a parameter; `Some("")` if it has none (`?text`).
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The query as it was sent.
    pub(crate) fn raw_query(&self) -> &str {
        &self.raw_query
    }

    /// A parameter that is a number in a range; `default` if it is not given.
    pub(crate) fn number(&self, name: &str, default: f64, least: f64, most: f64) -> Result<f64, Refusal> {
        let Some(text) = self.parameter(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| {
            Refusal::bad_request(format!("{name}={text:?}: it must be a number from {least} to {most}"))
        })
    }

    /// Whether the client prefers plain text to JSON.
    pub(crate) fn wants_text(&self) -> bool {
        self.parameter("text").is_some()
            || (self.accept.contains("text/plain") && !self.accept.contains("application/json"))
    }
}

/// Parses the head at the beginning of `bytes`. Returns the request and the length of its head; `None` if
/// the rest of it has yet to arrive.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let parsed = head.parse(bytes);
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    if line > LONGEST_LINE {
        return Err(Refusal::new(414, format!("the request line is longer than {LONGEST_LINE} bytes")));
    }
    match parsed {
        Ok(httparse::Status::Complete(length)) => {
            if length > LARGEST_HEAD {
                return Err(too_large());
            }
            Ok(Some((request(&head)?, length)))
        }
        Ok(httparse::Status::Partial) if bytes.len() >= LARGEST_HEAD => Err(too_large()),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            Err(Refusal::new(431, format!("there are more than {HEADERS} header fields")))
        }
        Err(error) => Err(Refusal::bad_request(format!("this is not a request of HTTP/1.1: {error}"))),
    }
}

fn too_large() -> Refusal {
    Refusal::new(431, format!("the head of the request is larger than {LARGEST_HEAD} bytes"))
}

fn request(head: &httparse::Request<'_, '_>) -> Result<Request, Refusal> {
    let target = head.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(Refusal::bad_request(format!("the target {target:?} is not a path")));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        head_only: head.method == Some("HEAD"),
        method_is_known: matches!(head.method, Some("GET" | "HEAD")),
        path: path.to_owned(),
        raw_query: query.to_owned(),
        query: parameters(query)?,
        knows_chunks: head.version == Some(1),
        keep_alive: head.version == Some(1),
        ..Request::default()
    };
    for header in &*head.headers {
        let text = || {
            let text = std::str::from_utf8(header.value).ok();
            text.ok_or_else(|| Refusal::bad_request(format!("the header {} is not UTF-8", header.name)))
        };
        match header.name.to_ascii_lowercase().as_str() {
            "host" if request.host.is_some() => {
                return Err(Refusal::bad_request("there are two Host headers"));
            }
            "host" => request.host = Some(text()?.trim().to_owned()),
            "authorization" => request.authorization = Some(text()?.trim().to_owned()),
            "cookie" => request.cookies.extend(text()?.split(';').map(|cookie| cookie.trim().to_owned())),
            "sec-fetch-site" => request.fetch_site = Some(text()?.trim().to_owned()),
            "accept" => request.accept = text()?.to_ascii_lowercase(),
            "connection" => {
                request.keep_alive &= !text()?.to_ascii_lowercase().contains("close");
            }
            "content-length" if text()?.trim() == "0" => {}
            "content-length" | "transfer-encoding" => {
                return Err(Refusal::new(413, "a request to this server has no body"));
            }
            _ => {}
        }
    }
    Ok(request)
}

/// The parameters of a query, decoded.
fn parameters(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let decoded = |text: &str| {
        decode(text).ok_or_else(|| Refusal::bad_request(format!("{text:?} in the query cannot be decoded")))
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(key)?, decoded(value)?))
        })
        .collect()
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Option<u16> {
        parse(text.as_bytes()).err().map(|refusal| refusal.status)
    }

    #[test]
    fn requests_are_taken_apart() {
        let text = "GET /a/b?x=1&y=%C3%A4+b&text HTTP/1.1\r\nHost: h:1\r\nCookie: a=b; c=d\r\n\r\nrest";
        let (request, length) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(length, text.len() - 4);
        assert_eq!((request.path.as_str(), request.parameter("y")), ("/a/b", Some("ä b")));
        assert_eq!((request.parameter("text"), request.parameter("z")), (Some(""), None));
        assert_eq!(request.cookies, ["a=b", "c=d"]);
        assert!(request.keep_alive && request.method_is_known && request.wants_text());
        assert_eq!(request.number("x", 0.0, 0.0, 5.0).unwrap(), 1.0);
        assert_eq!(request.number("y", 0.0, 0.0, 5.0).unwrap_err().status, 400);
        assert!(parse(&text.as_bytes()[..40]).unwrap().is_none());
    }

    #[test]
    fn what_is_too_large_or_no_request_is_refused() {
        assert_eq!(status("\u{0}\u{1}garbage\r\n\r\n"), Some(400));
        assert_eq!(status("GET http://x/ HTTP/1.1\r\n\r\n"), Some(400));
        assert_eq!(status("GET /?a=%zz HTTP/1.1\r\n\r\n"), Some(400));
        assert_eq!(status("PRI * HTTP/2.0\r\n\r\n"), Some(400));
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(LONGEST_LINE))), Some(414));
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(LARGEST_HEAD))), Some(431));
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1))), Some(431));
        assert_eq!(status("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), Some(413));
        assert_eq!(status("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(413));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Some(400));
    }
}
