//! Group "join": fork-join. gort and rayon run the same code; go and tokio have a goroutine or a task for
//! each fork, as in `fib`.

use super::{Metric, Procs, Workload, gort, per_op, size};

const FORKERS: &[&str] = &["gort", "rayon"];

const BESIDE_RAYON: &[Metric] = &[per_op(&[gort(1.1, "rayon")])];

pub const JOIN: &[Workload] = &[
    Workload {
        id: "join_fib",
        name: "join_fib",
        group: "join",
        what: "fork-join Fibonacci number of n by `join`, a fork for each call; per fork",
        procs: Procs::All,
        size: size(27, 22),
        sizes: &[],
        peers: &["gort", "rayon", "go", "tokio"],
        metrics: &[per_op(&[gort(2.0, "rayon")])],
    },
    Workload {
        id: "join_sort",
        name: "join_sort",
        group: "join",
        what: "parallel merge sort of 4 million numbers by `join`; per number",
        procs: Procs::All,
        size: size(4_000_000, 500_000),
        sizes: &[],
        peers: FORKERS,
        metrics: BESIDE_RAYON,
    },
    Workload {
        id: "join_matmul",
        name: "join_matmul",
        group: "join",
        what: "product of two matrices by `join`, in blocks of 32 rows and columns; per product of two \
               blocks",
        procs: Procs::All,
        size: size(512, 256),
        sizes: &[],
        peers: FORKERS,
        metrics: BESIDE_RAYON,
    },
];
