//! HTTP/1.1 for the debug server: as much of it as a browser, `curl`, Prometheus and `go tool pprof` need.
//!
//! - One thread accepts connections, and each connection has a thread. gort schedules none of them: the
//!   server answers also while all Ps are busy, and takes no P from the program.
//! - Everything is bounded: the number of connections ([`listener`]), the size of a request ([`request`]),
//!   the time for a request and for its answer ([`connection`]).
//! - A request that is not answered gets a [`Refusal`] with one line that says why.
//!
//! `gort::http` is not used, because its handlers are goroutines, and goroutines wait when the Ps are busy.

pub(super) mod access;
pub(super) mod answer;
pub(super) mod connection;
pub(super) mod listener;
pub(super) mod request;

pub(super) use answer::{Answer, Out, Refusal};
pub(super) use request::Request;
