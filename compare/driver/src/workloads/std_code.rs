//! Group "std": code that knows only std, in goroutines, with gort's feature `transparent` (peer gort-std).
//!
//! Most of these are workloads of other groups, run once more: gort-std does with std's sockets, channels,
//! locks and sleeps what gort does with its own, and std does the same on threads. So a row tells how much it
//! costs that the code does not know gort.

use super::{Metric, Of, Procs, Size, Unit, Workload, named, per_op, size, target};

/// Short for a target of gort-std against `peer`.
const fn gort_std(at_most: f64, peer: &'static str) -> super::Target {
    target("gort-std", at_most, Of::Peer(peer))
}

const ECHO: &[Metric] = &[
    named(
        "server CPU per request",
        "cpu_ns",
        Unit::Nanoseconds,
        &[gort_std(1.15, "gort"), gort_std(0.9, "go")],
    ),
    per_op(&[]),
    named("p50", "p50_ns", Unit::Nanoseconds, &[]),
    named("p99", "p99_ns", Unit::Nanoseconds, &[]),
];

/// std waits by way of a futex, and its channels park the receiver for each message.
const CHANNEL: &[Metric] = &[per_op(&[gort_std(1.2, "gort")])];

const ECHO_PEERS: &[&str] = &["gort", "gort-std", "go", "tokio", "std"];
const PEERS: &[&str] = &["gort", "gort-std", "go", "tokio", "may", "std"];

pub const STD: &[Workload] = &[
    Workload {
        peers: ECHO_PEERS,
        ..again(
            "std_echo-64",
            "tcp_echo",
            "as tcp_echo-64, over std's sockets in gort-std and std",
            size(64, 64),
            ECHO,
        )
    },
    Workload {
        peers: ECHO_PEERS,
        ..again("std_echo-1000", "tcp_echo", "the same with 1,000 connections", size(1000, 1000), ECHO)
    },
    again(
        "std_mutex",
        "mutex",
        "as mutex, with std's Mutex in gort-std and std",
        size(5_000_000, 1_000_000),
        &[per_op(&[gort_std(1.2, "gort")])],
    ),
    Workload {
        sizes: &[("std", size(30_000, 10_000))],
        ..again(
            "std_mpsc",
            "pingpong_queue",
            "round trip over two channels whose sender never waits: std's mpsc::channel in gort-std and std, \
             in Go channels with room for one message",
            size(1_000_000, 200_000),
            CHANNEL,
        )
    },
    Workload {
        sizes: &[("std", size(30_000, 10_000))],
        ..again(
            "std_rendezvous",
            "pingpong",
            "as pingpong-all, with std's sync_channel(0) in gort-std and std",
            size(1_000_000, 200_000),
            CHANNEL,
        )
    },
    Workload {
        sizes: &[("may", size(20_000, 5_000)), ("std", size(1_000, 500))],
        ..again(
            "thread_sleep",
            "timers",
            "as timers, with std's thread::sleep in gort-std and std",
            size(100_000, 20_000),
            &[
                named("CPU time", "cpu_ns", Unit::Nanoseconds, &[gort_std(1.1, "gort")]),
                named("lateness", "late_ns", Unit::Nanoseconds, &[]),
            ],
        )
    },
    Workload {
        peers: &["gort-std", "std"],
        ..again(
            "tiny_http-64",
            "tiny_http",
            "64 connections to tiny_http, which has a thread (in gort-std a goroutine) for each of them: \
             each asks for 13 bytes and waits for the answer",
            size(64, 64),
            &[
                per_op(&[]),
                named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[]),
                named("p50", "p50_ns", Unit::Nanoseconds, &[]),
                named("p99", "p99_ns", Unit::Nanoseconds, &[]),
            ],
        )
    },
    Workload {
        peers: &["gort-std", "std"],
        ..again(
            "tiny_http-1000",
            "tiny_http",
            "the same with 1,000 connections",
            size(1000, 1000),
            &[
                // A third of the time per request means three times as many requests.
                per_op(&[gort_std(0.333, "std")]),
                named("server CPU per request", "cpu_ns", Unit::Nanoseconds, &[]),
                named("p50", "p50_ns", Unit::Nanoseconds, &[]),
                named("p99", "p99_ns", Unit::Nanoseconds, &[]),
            ],
        )
    },
];

const fn again(
    id: &'static str,
    name: &'static str,
    what: &'static str,
    size: Size,
    metrics: &'static [Metric],
) -> Workload {
    Workload { id, name, group: "std", what, procs: Procs::All, size, sizes: &[], peers: PEERS, metrics }
}
