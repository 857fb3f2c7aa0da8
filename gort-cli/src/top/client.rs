//! The client of a debug server: one GET for each answer, over HTTP/1.1.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// How long the server may take for an answer.
const WITHIN: Duration = Duration::from_secs(20);

pub(super) struct Client {
    /// Host and port.
    address: String,
    token: Option<String>,
}

impl Client {
    /// `target` is `HOST:PORT`, or the URL that `gort::debug::Handle::url` returns.
    pub(super) fn new(target: &str, token: Option<&str>) -> Result<Client, String> {
        if target.starts_with("https://") {
            return Err(format!("{target}: the debug server speaks plain http"));
        }
        let rest = target.strip_prefix("http://").unwrap_or(target);
        let (address, query) = rest.split_once('/').unwrap_or((rest, ""));
        let in_url = query.split_once("token=").map(|(_, token)| token.split('&').next().unwrap_or_default());
        if !address.contains(':') {
            return Err(format!(
                "{target:?} is neither a process id nor HOST:PORT, for example 127.0.0.1:6060"
            ));
        }
        Ok(Client { address: address.to_owned(), token: token.or(in_url).map(str::to_owned) })
    }

    pub(super) fn get(&self, target: &str) -> Result<Value, String> {
        let fail =
            |error: std::io::Error| format!("no answer from the debug server at {}: {error}", self.address);
        let bytes = self.request(target).map_err(fail)?;
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Err(format!("what answers at {} does not speak HTTP", self.address));
        };
        if !head.starts_with("HTTP/1.1 200") {
            let says =
                if body.trim().is_empty() { head.lines().next().unwrap_or_default() } else { body.trim() };
            let hint = if head.starts_with("HTTP/1.1 401") { " (--token)" } else { "" };
            return Err(format!("the debug server at {} says: {says}{hint}", self.address));
        }
        let value = serde_json::from_str(body);
        value.map_err(|_| format!("what answers at {} is not gort's debug server", self.address))
    }

    fn request(&self, target: &str) -> std::io::Result<Vec<u8>> {
        let mut error = None;
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, WITHIN) {
                Ok(mut stream) => {
                    stream.set_read_timeout(Some(WITHIN))?;
                    let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
                    let token = token.unwrap_or_default();
                    let head =
                        format!("GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
                    stream.write_all(format!("{head}{token}Accept: application/json\r\n\r\n").as_bytes())?;
                    let mut bytes = Vec::new();
                    stream.take(64 << 20).read_to_end(&mut bytes)?;
                    return Ok(bytes);
                }
                Err(failed) => error = Some(failed),
            }
        }
        Err(error.unwrap_or_else(|| std::io::Error::other("the name has no address")))
    }
}

/// Percent-encodes a value of a query.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses_or_urls() {
        let client = Client::new("http://127.0.0.1:60/?token=abc&x=1", None).unwrap();
        assert_eq!((client.address.as_str(), client.token.as_deref()), ("127.0.0.1:60", Some("abc")));
        let client = Client::new("localhost:60", Some("t")).unwrap();
        assert_eq!((client.address.as_str(), client.token.as_deref()), ("localhost:60", Some("t")));
        assert!(Client::new("https://localhost:60", None).is_err());
        assert!(Client::new("localhost", None).is_err());
        assert_eq!(encode("a b=ä"), "a%20b%3d%c3%a4");
    }
}
