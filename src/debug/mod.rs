//! A server to see inside the running program (feature `debug`): a live page, profiles, traces, metrics.
//!
//! ```no_run
//! #[gort::main]
//! fn main() -> std::io::Result<()> {
//!     let debug = gort::debug::serve("127.0.0.1:6060")?;
//!     println!("the program from inside: {}", debug.url());
//!     // ... what the program does ...
//!     Ok(())
//! }
//! ```
//!
//! | Path | Answer |
//! | --- | --- |
//! | `/` | the live page: Ps, Ms and queues as they change, latencies, all goroutines |
//! | `/metrics` | [`metrics::prometheus`](crate::metrics::prometheus) |
//! | `/debug/goroutines` | goroutines as JSON, or as text with `?text`; see below |
//! | `/debug/trace?seconds=1` | an execution trace, for `gort trace` and `go tool trace` |
//! | `/debug/flight` | what the [flight recorder](crate::trace::FlightRecorder) has, if the program has one |
//! | `/debug/pprof/` | profiles, with Go's names and parameters, for `go tool pprof` |
//!
//! `gort top PID` shows the goroutines in a terminal.
//!
//! # Goroutines
//!
//! `/debug/goroutines` takes `q=` (a part of the name, a label, the state or spawn site, or an id), `state=`,
//! `site=`, `name=` and `label=key=value` (exactly), `sort=` (`id`, `name`, `state`, `wait`, `site`, `cpu`
//! for the share of a core used of late, `time` for all CPU time; with a `-` before it: downwards), `offset=`
//! and `limit=` (at most 1000). `group=site` has numbers by state and spawn site, `group=name` by name,
//! `group=labels` by labels. `id=` has one goroutine with its stack, what it waits for and which goroutine
//! holds that.
//!
//! # What it does to the program
//!
//! Nothing is stopped, but for the search for leaked goroutines (`goroutineleak`). The server runs on
//! threads that gort does not schedule, so it answers also while endless loops run on all processors, and
//! takes none of them. While nobody asks, it does nothing. The page and the table of goroutines are shared
//! between all clients: ten cost as much as one. For the table it looks at the goroutines at most one
//! twentieth of the time of one core, so with a million of them the numbers are some seconds old. Profiles
//! and traces are made for each request.
//!
//! # Who may ask
//!
//! The answers show names, stacks and files of the program. Without a token the server listens on loopback
//! addresses only, and answers only if the client has asked for `localhost` or such an address, so that web
//! pages of other sites cannot read from it. But every user of the machine can.
//! [`Server::token`] and [`Server::allow_remote`] ask clients for a token. Nothing is encrypted: from another
//! machine, a tunnel (`ssh -L 6060:localhost:6060 machine`) is safer than `allow_remote`.

mod http;
mod json;
mod look;
mod page;
mod profiles;
mod routes;
mod streams;

use std::fmt;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::sched::boot;
use http::access::Access;
use http::listener::{self, Listening};

/// Starts a debug server on a loopback address. The port 0 means any free one.
///
/// # Errors
/// If the address is not a loopback address, is in use, or cannot be resolved.
///
/// ```
/// let debug = gort::debug::serve("127.0.0.1:0")?;
/// println!("the program from inside: {}", debug.url());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn serve(address: impl ToSocketAddrs) -> io::Result<Handle> {
    Server::new().serve(address)
}

/// The settings of a debug server. See [`serve`] for one without.
///
/// ```
/// let token = "k3Jd-92mf_0aLqPz"; // better a random one
/// let debug = gort::debug::Server::new().token(token).serve("127.0.0.1:0")?;
/// assert!(debug.url().ends_with(token));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "nothing happens before `serve`"]
pub struct Server {
    token: Option<String>,
    remote: bool,
}

impl Server {
    /// A server for loopback addresses that asks for no token.
    pub fn new() -> Server {
        Server::default()
    }

    /// Asks clients for this token: `?token=…`, or the header `Authorization: Bearer …`. The page keeps it in
    /// a cookie. It needs at least 16 characters, and only letters and digits of ASCII and `- _ . ~`.
    pub fn token(mut self, token: impl Into<String>) -> Server {
        self.token = Some(token.into());
        self
    }

    /// Allows addresses that other machines can reach, and asks clients for the token. Nothing is encrypted:
    /// whoever sees the traffic sees the token.
    pub fn allow_remote(mut self, token: impl Into<String>) -> Server {
        self.remote = true;
        self.token(token)
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If the address is not a loopback address and [`allow_remote`](Server::allow_remote) was not called, if
    /// the token is too short, or if the address is in use or cannot be resolved.
    pub fn serve(&self, address: impl ToSocketAddrs) -> io::Result<Handle> {
        let invalid = |says: String| io::Error::new(ErrorKind::InvalidInput, says);
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        if let Some(remote) = addresses.iter().find(|address| !self.remote && !address.ip().is_loopback()) {
            return Err(invalid(format!(
                "the debug server shows the inside of the program, and other machines can reach {remote}: \
                 take a loopback address such as 127.0.0.1:{}, or call gort::debug::Server::allow_remote",
                remote.port()
            )));
        }
        let name = |error: io::Error| {
            let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            let says = format!("the debug server cannot listen at {}: {error}", addresses.join(" or "));
            io::Error::new(error.kind(), says)
        };
        let bound = TcpListener::bind(&addresses[..]).map_err(name)?;
        let access = Access::new(self.token.clone(), bound.local_addr()?.port()).map_err(invalid)?;
        boot::ensure();
        let listening = listener::start(bound, access, routes::route)?;
        Ok(Handle { listening, token: self.token.clone() })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("Server").field("token", &token).field("remote", &self.remote).finish()
    }
}

/// A debug server that runs. It ends with this handle, or with [`forget`](Handle::forget) at the end of the
/// program.
#[must_use = "the server ends when this is dropped; `forget` lets it run"]
pub struct Handle {
    listening: Listening,
    token: Option<String>,
}

impl Handle {
    /// The address at which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.address
    }

    /// The address of the live page, with the token, if there is one.
    pub fn url(&self) -> String {
        let mut address = self.local_addr();
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        match &self.token {
            Some(token) => format!("http://{address}/?token={token}"),
            None => format!("http://{address}/"),
        }
    }

    /// Ends the server: it closes all connections. The drop does the same.
    pub fn shutdown(self) {}

    /// Lets the server run until the program ends.
    ///
    /// ```
    /// gort::debug::serve("127.0.0.1:0")?.forget();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn forget(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.listening.end();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("address", &self.local_addr()).finish_non_exhaustive()
    }
}
