//! Access control: decides whether a request may see the program.
//!
//! - A1. Without a token the server listens on loopback addresses only.
//! - A2. A web page of another site must not read answers in the user's browser. The browser keeps it from
//!   reading those of another origin; but a site may let its own name resolve to 127.0.0.1 (DNS rebinding).
//!   So without a token, the Host that the browser asked for must be an address or `localhost`.
//! - A3. Nor may it start what costs something, such as a profile: browsers say in `Sec-Fetch-Site` where a
//!   request comes from. Only the page itself may be opened from elsewhere.
//! - A4. With a token, each request has it: in `Authorization: Bearer`, as the parameter `token`, or in a
//!   cookie, which the page sets. How long the comparison takes does not depend on the token.

use std::net::IpAddr;

use super::{Answer, Refusal, Request};

/// The shortest token, in characters.
const SHORTEST: usize = 16;

/// What each request is checked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    token: Option<String>,
    /// The port, which is part of the cookie's name: cookies do not tell ports of a host apart.
    port: u16,
}

impl Access {
    /// The error says what is wrong with the token.
    pub(crate) fn new(token: Option<String>, port: u16) -> Result<Access, String> {
        let good = |token: &String| {
            token.len() >= SHORTEST
                && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b))
        };
        if token.as_ref().is_some_and(|token| !good(token)) {
            return Err(format!(
                "the token must have at least {SHORTEST} characters, and only letters and digits of ASCII \
                 and - _ . ~"
            ));
        }
        Ok(Access { token, port })
    }

    /// Whether the request may be answered. `Some`: with this answer, before any other.
    pub(super) fn check(&self, request: &Request) -> Result<Option<Answer>, Refusal> {
        let Some(host) = request.host.as_deref().filter(|host| !host.is_empty()) else {
            return Err(Refusal::bad_request("there is no Host header"));
        };
        let Some(name) = host_name(host) else {
            return Err(Refusal::bad_request(format!("the Host {host:?} is not a host")));
        };
        if self.token.is_none() && !is_local(name) {
            return Err(Refusal::new(
                403,
                format!(
                    "the Host {host:?} is neither localhost nor a loopback address; a server with a token \
                     (gort::debug::Server::token) answers under any name"
                ),
            ));
        }
        let from_elsewhere = request.fetch_site.as_deref().is_some_and(|s| s != "same-origin" && s != "none");
        if from_elsewhere && request.path != "/" {
            return Err(Refusal::new(403, "a page of another site has asked for this"));
        }
        self.check_token(request)
    }

    fn check_token(&self, request: &Request) -> Result<Option<Answer>, Refusal> {
        let Some(token) = &self.token else { return Ok(None) };
        let cookie = format!("gort-debug-{}", self.port);
        let bearer = request.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        let in_cookies = || {
            let mut pairs = request.cookies.iter().filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == cookie).map(|(_, value)| value)
        };
        let in_query = request.parameter("token");
        let Some(given) = bearer.or(in_query).or_else(in_cookies) else {
            return Err(unauthorized("this server asks for a token: ?token=… or Authorization: Bearer …"));
        };
        if !is_same(given.as_bytes(), token.as_bytes()) {
            return Err(unauthorized("the token is wrong"));
        }
        if in_query.is_some() && request.path == "/" {
            // The page goes on with a cookie, so that the token is not in the browser's address bar.
            let value = format!("{cookie}={token}; Path=/; HttpOnly; SameSite=Strict");
            return Ok(Some(Answer::redirect(303, "/").with("Set-Cookie", value)));
        }
        Ok(None)
    }
}

fn unauthorized(says: &str) -> Refusal {
    Refusal::new(401, says).with("WWW-Authenticate", "Bearer realm=\"gort debug server\"")
}

/// The name or address in a Host header, without its port and brackets.
fn host_name(host: &str) -> Option<&str> {
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        let (name, rest) = rest.split_once(']')?;
        let port = rest.strip_prefix(':').unwrap_or(rest);
        return (is_port(port) && name.parse::<std::net::Ipv6Addr>().is_ok()).then_some(name);
    }
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    (is_port(port) && !name.is_empty() && is_name(name)).then_some(name)
}

fn is_local(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Compares in a time that depends only on the length of `given`.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    let mut differs = u8::from(given.len() != wanted.len());
    for (index, byte) in given.iter().enumerate() {
        differs |= byte ^ wanted[index % wanted.len()];
    }
    std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_names_pass_without_a_token() {
        for host in ["localhost", "LOCALHOST:80", "a.localhost", "127.0.0.1:6060", "127.9.9.9", "[::1]:1"] {
            assert!(host_name(host).is_some_and(is_local), "{host}");
        }
        for host in
            ["evil.example", "10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io", "[2001:db8::1]"]
        {
            assert!(host_name(host).is_some_and(|name| !is_local(name)), "{host}");
        }
        for host in ["", "a b", "[::1", "[x]", "a:b", "a:999999", "a/b", "user@localhost"] {
            assert_eq!(host_name(host), None, "{host}");
        }
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same(b"0123456789abcdef", b"0123456789abcdef"));
        for wrong in
            [&b""[..], b"0", b"0123456789abcdeF", b"0123456789abcdef0", b"0123456789abcdef0123456789abcdef"]
        {
            assert!(!is_same(wrong, b"0123456789abcdef"));
        }
        assert!(Access::new(Some("short".into()), 1).is_err());
        assert!(Access::new(Some("with spaces in it, long".into()), 1).is_err());
        assert!(Access::new(Some("0123456789abcdef".into()), 1).is_ok());
    }
}
