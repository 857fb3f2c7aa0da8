//! Group "block": endless loops ("hogs") and blocking system calls. Tokio and may cannot run workloads that
//! need preemption.

use super::{Field, Metric, Of, PLAIN, Procs, Unit, Workload, gort, named, per_op, size, target};

/// The average number of runnable threads for each P. A runtime that lets more goroutines run than it has Ps
/// leaves the sharing of the cores to the kernel: its sleeper wakes soon, and the oversleep says nothing
/// about preemption. So both figures belong together. Go stays at P except for short moments.
const RUNNING: Metric = Metric {
    label: "running per P",
    field: Field::RunningPerP,
    unit: Unit::Times,
    targets: &[gort(1.25, "go")],
};

const HOG: &[Metric] = &[
    RUNNING,
    named("oversleep p50", "over_p50_ns", Unit::Nanoseconds, &[gort(0.2, "go")]),
    named("oversleep p99", "over_p99_ns", Unit::Nanoseconds, &[gort(0.25, "go")]),
    named("hogs' share of CPU", "hog_share", Unit::Share, &[]),
    named("what hogs lose by the sleeper", "hog_loss", Unit::Share, &[target("gort", 0.05, Of::Absolute)]),
];

pub const BLOCK: &[Workload] = &[
    Workload {
        id: "hog",
        name: "hog",
        group: "block",
        what: "a goroutine sleeps 1 ms at a time while 2·P others loop without end: by how much it \
               oversleeps, and how much less the others do than alone",
        procs: Procs::All,
        size: size(200, 50),
        sizes: &[],
        peers: PLAIN,
        metrics: HOG,
    },
    Workload {
        id: "hog_first",
        name: "hog_first",
        group: "block",
        what: "the same, but the loops run before the sleeper is spawned",
        procs: Procs::All,
        size: size(200, 50),
        sizes: &[],
        peers: PLAIN,
        metrics: HOG,
    },
    Workload {
        id: "hog_noisy",
        name: "hog_noisy",
        group: "block",
        what: "as hog, while other processes compute, one for each core",
        procs: Procs::All,
        size: size(200, 50),
        sizes: &[],
        peers: &["gort", "go", "std"],
        metrics: &[
            named("oversleep p50", "over_p50_ns", Unit::Nanoseconds, &[gort(0.25, "go")]),
            named("oversleep p99", "over_p99_ns", Unit::Nanoseconds, &[gort(3.0, "std")]),
        ],
    },
    Workload {
        id: "hogs-1000",
        name: "hog_crowd",
        group: "block",
        what: "as hog, with 1,000 loops",
        procs: Procs::All,
        size: size(200, 50),
        sizes: &[],
        peers: PLAIN,
        metrics: &[
            RUNNING,
            named("oversleep p50", "over_p50_ns", Unit::Nanoseconds, &[]),
            named("oversleep p99", "over_p99_ns", Unit::Nanoseconds, &[gort(0.25, "go")]),
        ],
    },
    Workload {
        id: "blocking",
        name: "blocking",
        group: "block",
        what: "64 goroutines sleep 10 ms in the kernel, n times: wall time as a multiple of n · 10 ms",
        procs: Procs::All,
        size: size(20, 5),
        sizes: &[("may", size(2, 1))],
        peers: &["gort", "gort-unmarked", "go", "tokio", "may", "std"],
        metrics: &[named(
            "",
            "ideal_ratio",
            Unit::Times,
            &[target("gort", 1.05, Of::Absolute), target("gort-unmarked", 2.5, Of::Absolute)],
        )],
    },
    Workload {
        id: "blocking_burst",
        name: "blocking_burst",
        group: "block",
        what: "n goroutines start at once and sleep 100 ms in the kernel (in gort without telling the \
               scheduler), beside one that sleeps 1 ms at a time: wall time as a multiple of 100 ms, threads \
               started in it, and by how much the sleeper is late at worst",
        procs: Procs::All,
        size: size(1000, 200),
        sizes: &[],
        peers: &["gort", "go", "tokio", "std"],
        metrics: &[
            named("", "ideal_ratio", Unit::Times, &[gort(1.3, "std")]),
            named(
                "sleeper's worst lateness",
                "late_max_ns",
                Unit::Nanoseconds,
                &[target("gort", 50e6, Of::Absolute)],
            ),
        ],
    },
    Workload {
        id: "syscall_short",
        name: "syscall_short",
        group: "block",
        what: "getppid, a true system call, announced to the scheduler where the peer has a way to",
        procs: Procs::All,
        size: size(2_000_000, 500_000),
        sizes: &[],
        peers: PLAIN,
        metrics: &[per_op(&[gort(1.0, "go")])],
    },
    Workload {
        id: "fairness",
        name: "fairness",
        group: "block",
        what: "4·P equal endless loops for n ms: the largest deviation from an equal share",
        procs: Procs::All,
        size: size(3000, 1000),
        sizes: &[],
        peers: PLAIN,
        metrics: &[named("deviation", "deviation", Unit::Times, &[]), RUNNING],
    },
];
