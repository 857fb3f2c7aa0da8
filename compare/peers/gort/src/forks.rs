//! Group "join": fork-join with `gort::join`.

use compare_common::{Args, Join, Outcome, Report};

struct Gort;

impl Join for Gort {
    fn join<RA: Send, RB: Send>(a: impl FnOnce() -> RA + Send, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
        gort::join(a, b)
    }
}

fn in_goroutine(args: &Args, workload: fn(&Args) -> Report) -> Outcome {
    Ok(gort::run(|| workload(args)))
}

pub fn join_fib(args: &Args) -> Outcome {
    in_goroutine(args, compare_common::join_fib::<Gort>)
}

pub fn join_sort(args: &Args) -> Outcome {
    in_goroutine(args, compare_common::join_sort::<Gort>)
}

pub fn join_matmul(args: &Args) -> Outcome {
    in_goroutine(args, compare_common::join_matmul::<Gort>)
}
