//! The gort peer, with P = `--procs`.
//!
//! Variant `shared` runs goroutines on their M's thread-local storage. Variant `unmarked` does not use
//! `gort::blocking`. With `flight` the flight recorder is on, with `traced` a trace is made and thrown away.

#[cfg(feature = "block")]
mod block;
#[cfg(feature = "chan")]
mod chan;
mod core;
mod forks;
mod gate;
mod kind;
#[cfg(feature = "net")]
mod net;
#[cfg(feature = "sync")]
mod sync;
#[cfg(feature = "time")]
mod time;

use compare_common::{Args, HOG_CROWD, HOGS_PER_P, MALLOC_CROWD, Outcome, unknown};
use gort::trace::{FlightRecorder, FlightRecorderConfig};
use kind::{Private, Shared};
use std::time::Duration;

fn main() {
    compare_common::main("gort", dispatch)
}

fn dispatch(args: &Args) -> Outcome {
    gort::runtime::set_max_procs(args.procs);
    match args.variant.as_deref() {
        None => plain(args),
        Some("shared") => shared(args),
        Some("flight") => with_flight_recorder(args),
        Some("traced") => traced(args),
        #[cfg(feature = "block")]
        Some("unmarked") if args.workload == "blocking" => block::blocking_unmarked(args),
        #[cfg(feature = "net")]
        Some("unmarked") if args.workload == "http_block" => net::http_block_unmarked(args),
        Some(_) => unknown(args),
    }
}

fn with_flight_recorder(args: &Args) -> Outcome {
    let recorder = FlightRecorder::new(FlightRecorderConfig::new());
    recorder.start().expect("the flight recorder can be started");
    plain(args)
}

fn traced(args: &Args) -> Outcome {
    gort::trace::start(std::io::sink()).expect("a trace can be started");
    let outcome = plain(args);
    gort::trace::stop().expect("the trace can be ended");
    outcome
}

fn shared(args: &Args) -> Outcome {
    match args.workload.as_str() {
        "spawn_join" => core::spawn_join::<Shared>(args),
        "yield" => core::yield_now::<Shared>(args),
        "parked" => core::parked::<Shared>(args),
        _ => unknown(args),
    }
}

fn plain(args: &Args) -> Outcome {
    match args.workload.as_str() {
        "spawn_join" => core::spawn_join::<Private>(args),
        "spawn_one" => core::spawn_one(args),
        "yield" => core::yield_now::<Private>(args),
        "skynet" => core::skynet(args),
        "parked" => core::parked::<Private>(args),
        "fib" => core::fib(args),
        "join_fib" => forks::join_fib(args),
        "join_sort" => forks::join_sort(args),
        "join_matmul" => forks::join_matmul(args),
        "stack_deep" => core::stack_deep(args),
        "malloc" => core::malloc(args, args.procs as u64),
        "malloc_crowd" => core::malloc(args, MALLOC_CROWD),
        #[cfg(feature = "chan")]
        "pingpong" => chan::pingpong(args),
        #[cfg(feature = "chan")]
        "pingpong_queue" => chan::pingpong_queue(args),
        #[cfg(feature = "chan")]
        "chan_buffered" => chan::chan_buffered(args),
        #[cfg(feature = "chan")]
        "mpmc" => chan::mpmc(args),
        #[cfg(feature = "chan")]
        "skynet_chan" => chan::skynet_chan(args),
        #[cfg(feature = "chan")]
        "sieve" => chan::sieve(args),
        #[cfg(feature = "chan")]
        "select_ready2" => chan::select_ready2(args),
        #[cfg(feature = "chan")]
        "select_ready8" => chan::select_ready8(args),
        #[cfg(feature = "chan")]
        "select_blocked2" => chan::select_blocked2(args),
        #[cfg(feature = "chan")]
        "select_blocked8" => chan::select_blocked8(args),
        #[cfg(feature = "sync")]
        "mutex" => sync::mutex(args),
        #[cfg(feature = "sync")]
        "mutex_free" => sync::mutex_free(args),
        #[cfg(feature = "sync")]
        "rwlock" => sync::rwlock(args),
        #[cfg(feature = "time")]
        "timers" => time::timers(args),
        #[cfg(feature = "chan")]
        "ring" => chan::ring(args),
        #[cfg(feature = "time")]
        "hog" => time::hog(args, HOGS_PER_P * args.procs),
        #[cfg(feature = "time")]
        "hog_crowd" => time::hog(args, HOG_CROWD),
        #[cfg(feature = "time")]
        "hog_noisy" => time::hog_noisy(args),
        #[cfg(feature = "time")]
        "hog_first" => time::hog_first(args),
        #[cfg(feature = "block")]
        "blocking" => block::blocking(args),
        #[cfg(feature = "block")]
        "blocking_burst" => block::blocking_burst(args),
        #[cfg(feature = "block")]
        "syscall_short" => block::syscall_short(args),
        #[cfg(feature = "net")]
        "tcp_echo" => net::tcp_echo(args),
        #[cfg(feature = "net")]
        "echo_rate" => net::echo_rate(args),
        #[cfg(feature = "net")]
        "http_hello" => net::http_hello(args),
        #[cfg(feature = "net")]
        "http_cpu" => net::http_cpu(args),
        #[cfg(feature = "net")]
        "http_block" => net::http_block(args),
        #[cfg(feature = "net")]
        "http_idle" => net::http_idle(args),
        #[cfg(feature = "time")]
        "fairness" => time::fairness(args),
        _ => unknown(args),
    }
}

/// Runs `compare_common::warm_then_time` in a goroutine.
fn warm_then_time(size: u64, body: impl FnMut(u64) + Send + 'static) -> Duration {
    gort::run(move || compare_common::warm_then_time(size, body))
}
