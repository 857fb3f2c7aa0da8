//! Group "net": servers. The client is a separate process, the same one for every peer, on the same machine
//! as the server: `client/`, with one thread and epoll, and wrk for HTTP.
//!
//! `raw` is a plain server without a runtime. It shows about how much the client and the kernel cost with
//! every peer.

use super::{Metric, Of, Procs, Unit, Workload, gort, named, per_op, size, target};

const PEERS: &[&str] = &["gort", "go", "tokio"];
const ECHO_PEERS: &[&str] = &["gort", "go", "tokio", "raw"];
/// With what the flight recorder and a trace cost.
const OBSERVED: &[&str] = &["gort", "gort-flight", "gort-traced", "go", "tokio", "raw"];

const ECHO: &[Metric] = &[
    named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[gort(0.75, "go"), gort(1.0, "tokio")]),
    per_op(&[gort(1.0, "go")]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[]),
];

/// A server with little to do: what a wake-up costs, and which threads take part.
const RATE: &[Metric] = &[
    named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[gort(1.0, "tokio")]),
    named("switches of threads per request", "switches", Unit::Times, &[]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[gort(1.1, "tokio")]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[]),
];

/// The targets are for the time per request: half of Go's time means twice as many requests.
const HELLO: &[Metric] = &[
    per_op(&[gort(0.5, "go"), gort(1.0, "tokio")]),
    named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[]),
];

const CPU: &[Metric] = &[
    per_op(&[gort(1.0, "go")]),
    named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[]),
];

const BLOCK: &[Metric] = &[
    per_op(&[gort(1.0, "go"), target("gort-unmarked", 0.1, Of::Peer("tokio-naive"))]),
    named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[gort(1.0, "go")]),
];

const HTTP: &[&str] = &["gort", "go", "tokio", "may", "raw"];

pub const NET: &[Workload] = &[
    Workload {
        id: "tcp_echo-64",
        name: "tcp_echo",
        group: "net",
        what: "64 connections, each sends 64 bytes and waits for them to come back",
        procs: Procs::All,
        size: size(64, 64),
        sizes: &[],
        peers: OBSERVED,
        metrics: ECHO,
    },
    Workload {
        id: "tcp_echo-1000",
        name: "tcp_echo",
        group: "net",
        what: "the same with 1,000 connections",
        procs: Procs::All,
        size: size(1000, 1000),
        sizes: &[],
        peers: ECHO_PEERS,
        metrics: ECHO,
    },
    Workload {
        id: "echo_rate-100",
        name: "echo_rate",
        group: "net",
        what: "50 connections, on which 100 echoes a second are asked for in turn",
        procs: Procs::All,
        size: size(100, 100),
        sizes: &[],
        peers: ECHO_PEERS,
        metrics: RATE,
    },
    Workload {
        id: "echo_rate-1000",
        name: "echo_rate",
        group: "net",
        what: "the same with 1,000 a second",
        procs: Procs::All,
        size: size(1000, 1000),
        sizes: &[],
        peers: ECHO_PEERS,
        metrics: RATE,
    },
    Workload {
        id: "echo_rate-5000",
        name: "echo_rate",
        group: "net",
        what: "the same with 5,000 a second",
        procs: Procs::All,
        size: size(5000, 5000),
        sizes: &[],
        peers: ECHO_PEERS,
        metrics: RATE,
    },
    Workload {
        id: "echo_rate-20000",
        name: "echo_rate",
        group: "net",
        what: "the same with 20,000 a second",
        procs: Procs::All,
        size: size(20000, 20000),
        sizes: &[],
        peers: ECHO_PEERS,
        metrics: RATE,
    },
    Workload {
        id: "http_hello-64",
        name: "http_hello",
        group: "net",
        what: "64 connections, each asks for 13 bytes over HTTP/1.1 and waits for the answer",
        procs: Procs::All,
        size: size(64, 64),
        sizes: &[],
        peers: HTTP,
        metrics: HELLO,
    },
    Workload {
        id: "http_hello-1000",
        name: "http_hello",
        group: "net",
        what: "the same with 1,000 connections",
        procs: Procs::All,
        size: size(1000, 1000),
        sizes: &[],
        peers: HTTP,
        metrics: HELLO,
    },
    Workload {
        id: "http_cpu",
        name: "http_cpu",
        group: "net",
        what: "256 connections, and a handler that computes for 200 µs",
        procs: Procs::All,
        size: size(256, 256),
        sizes: &[],
        peers: PEERS,
        metrics: CPU,
    },
    Workload {
        id: "http_block",
        name: "http_block",
        group: "net",
        what: "256 connections, and a handler that sleeps 5 ms in the kernel",
        procs: Procs::All,
        size: size(256, 256),
        sizes: &[],
        peers: &["gort", "gort-unmarked", "go", "tokio", "tokio-naive"],
        metrics: BLOCK,
    },
    Workload {
        id: "http_idle",
        name: "http_idle",
        group: "net",
        what: "8,000 connections that were used once and stay open: the server's memory for each",
        procs: Procs::All,
        size: size(8000, 1000),
        sizes: &[],
        peers: PEERS,
        metrics: &[named("", "bytes_each", Unit::Bytes, &[target("gort", 12_000.0, Of::Absolute)])],
    },
];
