//! Code that all Rust peers of the comparison share.
//!
//! A peer is one executable: `peer WORKLOAD --procs P [--size N] [--variant V]`. It warms up, measures, and
//! prints one line of JSON on standard output. Its exit status has this meaning:
//!
//! | status | meaning |
//! | --- | --- |
//! | 0 | measured |
//! | 2 | invalid arguments |
//! | 3 | this peer cannot run this workload; the reason is on standard error |
//!
//! The Go peer implements the same contract in `peers/go/main.go`.

mod args;
mod echo;
mod fork_join;
mod measure;
mod memory_work;
mod report;

pub use args::Args;
pub use echo::{burn, echo_report, http_report, idle_report, nap, rate_report};
pub use fork_join::{Join, join_fib, join_matmul, join_sort};
pub use measure::{
    BLOCK_NAP, BLOCKERS, BURST_NAP, BusyNeighbours, Counters, FAIR_HOGS_PER_P, FIB_REPEAT, HOG_CROWD,
    HOGS_PER_P, HogRun, LOCKERS, Lateness, Lcg, Oversleep, RING, SLEEPERS_REPEAT, SPAWN_BATCH,
    context_switches, cpu_ns, fib_forks, memory, nth_prime, sieve_messages, skynet_nodes, skynet_sum,
    warm_then_time, worst_lateness,
};
pub use memory_work::{DEEP_FRAMES, MALLOC_CROWD, deep, use_malloc};
pub use report::Report;

/// A measurement, or the reason why this peer cannot run the workload.
pub type Outcome = Result<Report, String>;

/// The whole `main` of a peer: parses the arguments, runs `dispatch`, and prints the line or the reason.
pub fn main(peer: &str, dispatch: fn(&Args) -> Outcome) -> ! {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("{why}");
            eprintln!("usage: peer WORKLOAD --procs P [--size N] [--variant V]");
            std::process::exit(2);
        }
    };
    match dispatch(&args) {
        Ok(report) => println!("{}", report.to_json(peer, &args)),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(3);
        }
    }
    // `exit` instead of `return`, so that goroutines, threads or runtimes of the workload need not be torn
    // down.
    std::process::exit(0);
}

/// The outcome for a workload that the peer does not have. The driver adds its name.
pub fn unknown(args: &Args) -> Outcome {
    let variant = args.variant.as_ref().map(|v| format!(" in variant {v:?}")).unwrap_or_default();
    Err(format!("has no such workload{variant}"))
}
