//! Group "core": spawning, joining, yielding, parking.

use super::{Metric, Of, PLAIN, Procs, Unit, Workload, gort, named, per_op, size, target};

const WITH_SHARED: &[&str] = &["gort", "gort-shared", "go", "tokio", "may", "std"];

const YIELD: &[Metric] = &[per_op(&[
    gort(0.35, "go"),
    gort(1.2, "tokio"),
    target("gort-shared", 0.15, Of::Peer("go")),
    target("gort-shared", 1.0, Of::Peer("may")),
])];

const MALLOC: &[Metric] = &[per_op(&[gort(1.05, "std")])];

pub const CORE: &[Workload] = &[
    Workload {
        id: "spawn_join",
        name: "spawn_join",
        group: "core",
        what: "spawn 1,000 that do nothing, join all, again and again; per goroutine",
        procs: Procs::All,
        size: size(1_000_000, 200_000),
        sizes: &[("std", size(10_000, 2_000))],
        peers: WITH_SHARED,
        metrics: &[per_op(&[gort(0.60, "go")])],
    },
    Workload {
        id: "spawn_one",
        name: "spawn_one",
        group: "core",
        what: "spawn one that does nothing and join it, again and again",
        procs: Procs::All,
        size: size(500_000, 100_000),
        sizes: &[("may", size(10_000, 2_000)), ("std", size(5_000, 1_000))],
        peers: PLAIN,
        metrics: &[per_op(&[gort(0.50, "go"), gort(1.2, "tokio")])],
    },
    Workload {
        id: "yield-1",
        name: "yield",
        group: "core",
        what: "2·P goroutines that only yield, on one P; per yield",
        procs: Procs::Just(1),
        size: size(4_000_000, 1_000_000),
        sizes: &[("std", size(1_000_000, 200_000))],
        peers: WITH_SHARED,
        metrics: YIELD,
    },
    Workload {
        id: "yield-all",
        name: "yield",
        group: "core",
        what: "2·P goroutines that only yield, on all Ps; wall time per yield",
        procs: Procs::All,
        size: size(8_000_000, 2_000_000),
        sizes: &[("std", size(1_000_000, 200_000))],
        peers: WITH_SHARED,
        metrics: YIELD,
    },
    Workload {
        id: "skynet",
        name: "skynet",
        group: "core",
        what: "a tree of goroutines, ten children each, a million leaves, results by join; per goroutine",
        procs: Procs::All,
        size: size(1_000_000, 100_000),
        sizes: &[("may", size(10_000, 1_000)), ("std", size(1_000, 100))],
        peers: PLAIN,
        metrics: &[per_op(&[gort(0.70, "go")])],
    },
    Workload {
        id: "fib",
        name: "fib",
        group: "core",
        what: "fork-join Fibonacci number of n, a goroutine for each left branch; per fork",
        procs: Procs::All,
        size: size(25, 22),
        sizes: &[("may", size(18, 16)), ("std", size(14, 12))],
        peers: PLAIN,
        metrics: &[per_op(&[gort(0.55, "go"), gort(1.2, "tokio")])],
    },
    Workload {
        id: "parked",
        name: "parked",
        group: "core",
        what: "a million goroutines wait at one gate: resident memory and page tables of each, time to \
               spawn, time from opening the gate until all have finished",
        procs: Procs::All,
        size: size(1_000_000, 100_000),
        sizes: &[("may", size(20_000, 10_000)), ("std", size(5_000, 1_000))],
        peers: WITH_SHARED,
        metrics: &[
            named(
                "memory each",
                "bytes_each",
                Unit::Bytes,
                &[target("gort", 5600.0, Of::Absolute), target("gort-shared", 4600.0, Of::Absolute)],
            ),
            named("spawn", "spawn_ns", Unit::Nanoseconds, &[]),
            named("wake all", "wake_ns", Unit::Nanoseconds, &[gort(1.0, "go")]),
        ],
    },
    Workload {
        id: "stack_deep",
        name: "stack_deep",
        group: "core",
        what: "1,000 at once recurse to 1 MiB of stack and end, again and again; per goroutine",
        procs: Procs::All,
        size: size(20_000, 4_000),
        sizes: &[],
        peers: &["gort", "go", "std"],
        metrics: &[per_op(&[gort(1.0, "go"), gort(1.0, "std")])],
    },
    malloc("malloc-P", "malloc", "P goroutines allocate and free buffers of 16 to 4,000 bytes; per buffer"),
    malloc("malloc-1000", "malloc_crowd", "the same with 1,000 goroutines"),
    scaling("scale-yield-2", "yield", "the cost of a yield with 2 Ps", 2, 4_000_000, &[]),
    scaling(
        "scale-yield-64",
        "yield",
        "the cost of a yield with 64 Ps",
        64,
        4_000_000,
        &[per_op(&[target("gort", 2.0, Of::Own("scale-yield-2"))])],
    ),
    scaling("scale-spawn-2", "spawn_join", "the cost of spawn and join with 2 Ps", 2, 1_000_000, &[]),
    scaling(
        "scale-spawn-64",
        "spawn_join",
        "the cost of spawn and join with 64 Ps",
        64,
        1_000_000,
        &[per_op(&[target("gort", 2.0, Of::Own("scale-spawn-2"))])],
    ),
];

const fn malloc(id: &'static str, name: &'static str, what: &'static str) -> Workload {
    Workload {
        id,
        name,
        group: "core",
        what,
        procs: Procs::All,
        size: size(10_000_000, 2_000_000),
        sizes: &[],
        peers: &["gort", "go", "std"],
        metrics: MALLOC,
    }
}

const fn scaling(
    id: &'static str,
    name: &'static str,
    what: &'static str,
    procs: usize,
    full: u64,
    metrics: &'static [Metric],
) -> Workload {
    let metrics = if metrics.is_empty() { const { &[per_op(&[])] } } else { metrics };
    Workload {
        id,
        name,
        group: "core",
        what,
        procs: Procs::Just(procs),
        size: size(full, full / 4),
        sizes: &[],
        peers: &["gort", "go"],
        metrics,
    }
}
