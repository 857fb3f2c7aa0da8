//! The std peer: plain OS threads. It ignores `--procs`, because the kernel uses every core. Variant `raw`,
//! which has `--procs` threads, is not a runtime but a yardstick: see `raw.rs`. Variant `rayon` is rayon's
//! pool with `--procs` threads: see `forks.rs`.

mod block;
mod chan;
mod core;
mod forks;
mod net;
mod raw;

use compare_common::{Args, HOG_CROWD, HOGS_PER_P, MALLOC_CROWD, Outcome, unknown};

fn main() {
    compare_common::main("std", dispatch)
}

fn dispatch(args: &Args) -> Outcome {
    match args.workload.as_str() {
        "spawn_join" => core::spawn_join(args),
        "spawn_one" => core::spawn_one(args),
        "yield" => core::yield_now(args),
        "skynet" => core::skynet(args),
        "parked" => core::parked(args),
        "fib" => core::fib(args),
        "stack_deep" => core::stack_deep(args),
        "malloc" => core::malloc(args, args.procs as u64),
        "malloc_crowd" => core::malloc(args, MALLOC_CROWD),
        "pingpong" => chan::pingpong(args),
        "pingpong_queue" => chan::pingpong_queue(args),
        "chan_buffered" => chan::chan_buffered(args),
        "mpmc" => chan::mpmc(args),
        "skynet_chan" => chan::skynet_chan(args),
        "sieve" => chan::sieve(args),
        "select_ready2" => chan::select_ready2(args),
        "select_ready8" => chan::select_ready8(args),
        "select_blocked2" => chan::select_blocked2(args),
        "select_blocked8" => chan::select_blocked8(args),
        "mutex" => chan::mutex(args),
        "mutex_free" => chan::mutex_free(args),
        "rwlock" => chan::rwlock(args),
        "timers" if args.is("raw") => raw::timers(args),
        "timers" => chan::timers(args),
        "ring" => chan::ring(args),
        "hog" => block::hog(args, HOGS_PER_P * args.procs),
        "hog_crowd" => block::hog(args, HOG_CROWD),
        "hog_noisy" => block::hog_noisy(args),
        "hog_first" => block::hog_first(args),
        "blocking" => block::blocking(args),
        "blocking_burst" => block::blocking_burst(args),
        "syscall_short" => block::syscall_short(args),
        "fairness" => block::fairness(args),
        "join_fib" if args.is("rayon") => forks::join_fib(args),
        "join_sort" if args.is("rayon") => forks::join_sort(args),
        "join_matmul" if args.is("rayon") => forks::join_matmul(args),
        "tcp_echo" if args.is("raw") => raw::tcp_echo(args),
        "tcp_echo" => net::tcp_echo(args),
        "echo_rate" => raw::echo_rate(args),
        "http_hello" if args.is("raw") => raw::http_hello(args),
        "tiny_http" => net::tiny_http(args),
        _ => unknown(args),
    }
}
