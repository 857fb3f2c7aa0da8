//! The gort-std peer: plain std code in goroutines. gort's feature `transparent` makes std's blocking calls
//! park the goroutine.
//!
//! It is a program of its own, because the feature puts gort's functions in the place of libc's in the whole
//! program, and gort's other workloads are measured without them. The workloads have the names of those of
//! the gort peer that they are compared with.

mod chan;
mod net;

use compare_common::{Args, Outcome, unknown};
use std::time::Duration;

fn main() {
    if let Err(why) = gort::transparent::enable() {
        eprintln!("{why}");
        std::process::exit(3);
    }
    compare_common::main("gort-std", dispatch)
}

fn dispatch(args: &Args) -> Outcome {
    gort::runtime::set_max_procs(args.procs);
    match args.workload.as_str() {
        "tcp_echo" => net::tcp_echo(args),
        "tiny_http" => net::tiny_http(args),
        "mutex" => chan::mutex(args),
        "pingpong" => chan::pingpong(args),
        "pingpong_queue" => chan::pingpong_queue(args),
        "timers" => chan::timers(args),
        _ => unknown(args),
    }
}

/// Runs `compare_common::warm_then_time` in a goroutine.
fn warm_then_time(size: u64, body: impl FnMut(u64) + Send + 'static) -> Duration {
    gort::run(move || compare_common::warm_then_time(size, body))
}
