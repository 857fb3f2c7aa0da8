//! Group "chan": channels, select, locks, timers. gort must not be slower than Tokio in any of them.

use super::{Metric, PLAIN, Procs, Size, Unit, Workload, gort, named, per_op, size};

const PINGPONG: &[Metric] = &[per_op(&[gort(0.45, "go"), gort(1.0, "tokio")])];
const SELECT: &[Metric] = &[per_op(&[gort(0.60, "go"), gort(1.0, "tokio")])];
const MUTEX: &[Metric] = &[per_op(&[gort(0.95, "go"), gort(1.0, "tokio")])];
const ONLY_TOKIO: &[Metric] = &[per_op(&[gort(1.0, "tokio")])];

/// With what the flight recorder and a trace cost: here goroutines do nothing but switch.
const OBSERVED: &[&str] = &["gort", "gort-flight", "gort-traced", "go", "tokio", "may", "std"];

pub const CHAN: &[Workload] = &[
    Workload {
        procs: Procs::Just(1),
        peers: OBSERVED,
        sizes: &[("std", size(30_000, 10_000))],
        ..plain(
            "pingpong-1",
            "pingpong",
            "round trip over two rendezvous channels, on one P",
            size(1_000_000, 200_000),
            PINGPONG,
        )
    },
    Workload {
        sizes: &[("std", size(30_000, 10_000))],
        ..plain(
            "pingpong-all",
            "pingpong",
            "round trip over two rendezvous channels, on all Ps",
            size(1_000_000, 200_000),
            PINGPONG,
        )
    },
    Workload {
        sizes: &[("std", size(1_000_000, 200_000))],
        ..plain(
            "chan_buffered",
            "chan_buffered",
            "one sender, one receiver, capacity 128; per message",
            size(10_000_000, 1_000_000),
            &[per_op(&[gort(0.60, "go"), gort(1.0, "tokio")])],
        )
    },
    Workload {
        sizes: &[("std", size(1_000_000, 200_000))],
        ..plain(
            "mpmc",
            "mpmc",
            "four senders, four receivers, capacity 128; per message",
            size(4_000_000, 1_000_000),
            &[per_op(&[gort(0.60, "go"), gort(1.0, "tokio")])],
        )
    },
    Workload {
        sizes: &[("may", size(10_000, 1_000)), ("std", size(1_000, 100))],
        ..plain(
            "skynet_chan",
            "skynet_chan",
            "the tree of skynet, results over one rendezvous channel for each inner node; per goroutine",
            size(1_000_000, 100_000),
            &[per_op(&[gort(0.60, "go"), gort(1.0, "tokio")])],
        )
    },
    Workload {
        sizes: &[("std", size(200, 100))],
        ..plain(
            "sieve",
            "sieve",
            "a chain of prime filters for the first n primes, over rendezvous channels; per message",
            size(2_000, 500),
            &[per_op(&[gort(0.45, "go"), gort(1.0, "tokio")])],
        )
    },
    Workload {
        sizes: &[("std", size(20_000, 5_000))],
        ..plain(
            "ring",
            "ring",
            "a token passes 1,000 goroutines over rendezvous channels; per hop",
            size(2_000_000, 400_000),
            ONLY_TOKIO,
        )
    },
    plain(
        "select_ready-2",
        "select_ready2",
        "select among 2 receives, all ready",
        size(5_000_000, 1_000_000),
        SELECT,
    ),
    plain(
        "select_ready-8",
        "select_ready8",
        "select among 8 receives, all ready",
        size(2_000_000, 500_000),
        SELECT,
    ),
    Workload {
        sizes: &[("std", size(30_000, 10_000))],
        ..plain(
            "select_blocked-2",
            "select_blocked2",
            "select among 2 receives that must wait for a sender",
            size(1_000_000, 200_000),
            SELECT,
        )
    },
    Workload {
        sizes: &[("std", size(30_000, 10_000))],
        ..plain(
            "select_blocked-8",
            "select_blocked8",
            "select among 8 receives that must wait for a sender",
            size(1_000_000, 200_000),
            SELECT,
        )
    },
    plain(
        "mutex",
        "mutex",
        "100 goroutines increment under one mutex; per increment",
        size(5_000_000, 1_000_000),
        MUTEX,
    ),
    plain(
        "mutex_free",
        "mutex_free",
        "lock and unlock a mutex that nobody else wants",
        size(20_000_000, 5_000_000),
        MUTEX,
    ),
    plain(
        "rwlock",
        "rwlock",
        "100 goroutines, 15 reads for each write under one lock; per operation",
        size(4_000_000, 1_000_000),
        ONLY_TOKIO,
    ),
    Workload {
        sizes: &[("may", size(20_000, 5_000)), ("std", size(1_000, 500))],
        ..plain(
            "timers",
            "timers",
            "100,000 goroutines sleep 10 times for 1 to 100 ms: how late they wake, and the CPU time of a \
             sleep",
            size(100_000, 20_000),
            &[
                named("lateness", "late_ns", Unit::Nanoseconds, &[gort(1.0, "go"), gort(1.0, "tokio")]),
                named("CPU time", "cpu_ns", Unit::Nanoseconds, &[gort(0.8, "go"), gort(1.0, "tokio")]),
            ],
        )
    },
    few_timers("timers-500", "the same with 500", size(500, 500)),
    few_timers("timers-2000", "the same with 2,000", size(2_000, 500)),
    few_timers("timers-10000", "the same with 10,000", size(10_000, 500)),
];

/// Sparse timers: each has a wake-up of its own, unless timers are late.
const fn few_timers(id: &'static str, what: &'static str, size: Size) -> Workload {
    const PEERS: &[&str] = &["gort", "go", "tokio", "raw"];
    const METRICS: &[Metric] = &[
        named("lateness", "late_ns", Unit::Nanoseconds, &[gort(1.0, "go")]),
        named("CPU time", "cpu_ns", Unit::Nanoseconds, &[gort(1.0, "go")]),
    ];
    Workload { peers: PEERS, metrics: METRICS, ..plain(id, "timers", what, size, &[]) }
}

const fn plain(
    id: &'static str,
    name: &'static str,
    what: &'static str,
    size: Size,
    metrics: &'static [Metric],
) -> Workload {
    Workload { id, name, group: "chan", what, procs: Procs::All, size, sizes: &[], peers: PLAIN, metrics }
}
