//! The Tokio peer: the multi-thread runtime with `--procs` threads.

// A function that spawns itself must declare in its signature that its future is `Send`; `async fn` cannot do
// that.
#![allow(clippy::manual_async_fn)]

mod block;
mod chan;
mod core;
mod net;

use compare_common::{Args, Outcome, unknown};
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

fn main() {
    compare_common::main("tokio", dispatch)
}

fn dispatch(args: &Args) -> Outcome {
    match args.workload.as_str() {
        "spawn_join" => core::spawn_join(args),
        "spawn_one" => core::spawn_one(args),
        "yield" => core::yield_now(args),
        "skynet" => core::skynet(args),
        "parked" => core::parked(args),
        "fib" | "join_fib" => core::fib(args),
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
        "timers" => chan::timers(args),
        "ring" => chan::ring(args),
        "blocking" => block::blocking(args),
        "blocking_burst" => block::blocking_burst(args),
        "tcp_echo" => net::tcp_echo(args),
        "echo_rate" => net::echo_rate(args),
        "http_hello" => net::http_hello(args),
        "http_cpu" => net::http_cpu(args),
        "http_block" if args.variant.as_deref() == Some("naive") => net::http_block_naive(args),
        "http_block" => net::http_block(args),
        "http_idle" => net::http_idle(args),
        "syscall_short" => block::syscall_short(args),
        "hog" | "hog_first" | "hog_noisy" | "hog_crowd" | "fairness" => {
            Err("Tokio does not preempt: an endless loop keeps its thread forever, so nothing else would run"
                .into())
        }
        _ => unknown(args),
    }
}

fn runtime(args: &Args) -> Runtime {
    builder(args).build().expect("runtime starts")
}

fn builder(args: &Args) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(args.procs).enable_all();
    builder
}

/// Runs `body` as a Tokio task on one of the runtime's own threads, because the thread that calls `block_on`
/// is slower.
fn run<T: Send + 'static>(args: &Args, body: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = runtime(args);
    runtime.block_on(runtime.spawn(body)).unwrap()
}

/// Does what `compare_common::warm_then_time` does, in a Tokio task.
fn warm_then_time<F>(args: &Args, size: u64, body: impl Fn(u64) -> F + Send + 'static) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    // Both futures are created first, so that `body` itself need not be shared between threads.
    let (warm, measured) = (body((size / 10).max(1)), body(size));
    run(args, async move {
        warm.await;
        let start = Instant::now();
        measured.await;
        start.elapsed()
    })
}
