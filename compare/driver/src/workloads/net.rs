//! Group "net": servers. The client is a process of its own, `client/`, with one thread and epoll; it shares the machine with
//! the server, as it does for every peer.

use super::{Metric, Procs, Unit, Workload, gort, named, per_op, size};

const PEERS: &[&str] = &["gort", "go", "tokio"];

const ECHO: &[Metric] = &[
    named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[gort(0.75, "go"), gort(1.0, "tokio")]),
    per_op(&[gort(1.0, "go")]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[]),
];

pub const NET: &[Workload] = &[
    Workload {
        id: "tcp_echo-64",
        name: "tcp_echo",
        group: "net",
        what: "64 connections, each sends 64 bytes and waits for them to come back",
        procs: Procs::All,
        size: size(64, 64),
        sizes: &[],
        peers: PEERS,
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
        peers: PEERS,
        metrics: ECHO,
    },
];
