//! The may peer: stackful goroutines on `--procs` threads, with may's own defaults for everything else.

mod block;
mod chan;
mod core;
mod net;

use compare_common::{Args, Outcome, unknown};
use may::coroutine::JoinHandle;
use std::time::Duration;

fn main() {
    compare_common::main("may", dispatch)
}

fn dispatch(args: &Args) -> Outcome {
    may::config().set_workers(args.procs);
    match args.workload.as_str() {
        "spawn_join" => core::spawn_join(args),
        "spawn_one" => core::spawn_one(args),
        "yield" => core::yield_now(args),
        "skynet" => core::skynet(args),
        "parked" => core::parked(args),
        "fib" => core::fib(args),
        // may's channels are queues anyway.
        "pingpong" | "pingpong_queue" => chan::pingpong(args),
        "chan_buffered" => chan::chan_buffered(args),
        "mpmc" => chan::mpmc(args),
        "skynet_chan" => chan::skynet_chan(args),
        "sieve" => chan::sieve(args),
        "select_ready2" | "select_ready8" | "select_blocked2" | "select_blocked8" => {
            Err("may's select spawns a goroutine for each case and cancels the losers: another operation"
                .into())
        }
        "mutex" => chan::mutex(args),
        "mutex_free" => chan::mutex_free(args),
        "rwlock" => chan::rwlock(args),
        "timers" => chan::timers(args),
        "ring" => chan::ring(args),
        "blocking" => block::blocking(args),
        "syscall_short" => block::syscall_short(args),
        "http_hello" => net::http_hello(args),
        "hog" | "hog_first" | "hog_crowd" | "fairness" => {
            Err("may does not preempt: an endless loop keeps its thread forever, so nothing else would run"
                .into())
        }
        _ => unknown(args),
    }
}

/// Spawns `f`.
fn go<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: may requires a body that neither keeps a thread-local reference across a switch nor overflows
    // its stack. The workloads use no thread-locals of their own, and their frames are far smaller than may's
    // stacks of 32 KiB.
    unsafe { may::coroutine::spawn(f) }
}

/// Runs `f` on one of may's own threads.
fn run<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    go(f).join().unwrap()
}

/// Runs `compare_common::warm_then_time` on one of may's own threads.
fn warm_then_time(size: u64, body: impl FnMut(u64) + Send + 'static) -> Duration {
    run(move || compare_common::warm_then_time(size, body))
}
