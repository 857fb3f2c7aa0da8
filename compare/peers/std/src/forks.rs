//! Variant `rayon`: the pool that the field uses for fork-join, with `--procs` threads.

use compare_common::{Args, Join, Outcome, Report};

struct Rayon;

impl Join for Rayon {
    fn join<RA: Send, RB: Send>(a: impl FnOnce() -> RA + Send, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
        rayon::join(a, b)
    }
}

fn in_pool(args: &Args, workload: fn(&Args) -> Report) -> Outcome {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.procs).build().map_err(|e| e.to_string())?;
    Ok(pool.install(|| workload(args)))
}

pub fn join_fib(args: &Args) -> Outcome {
    in_pool(args, compare_common::join_fib::<Rayon>)
}

pub fn join_sort(args: &Args) -> Outcome {
    in_pool(args, compare_common::join_sort::<Rayon>)
}

pub fn join_matmul(args: &Args) -> Outcome {
    in_pool(args, compare_common::join_matmul::<Rayon>)
}
