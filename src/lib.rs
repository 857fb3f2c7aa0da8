//! Goroutines for Rust: the Go scheduler (G, M, P) as a library.
//!
//! You write plain, blocking Rust; gort runs very many such straight-line functions on a few OS threads.
//!
//! > **To the code inside it, a goroutine is a thread.** `thread_local!`, panics, `std::sync::Mutex`, a blocking
//! > `std::fs` or C call, an endless `for` loop: all of them are correct, and none of them starves anybody.
//!
//! ```
//! use gort::chan;
//! use std::time::Duration;
//!
//! #[gort::main]
//! fn main() {
//!     let (jobs, queue) = chan::bounded::<u64>(16);
//!     let (results, done) = chan::unbounded();
//!     for _ in 0..4 {
//!         let (queue, results) = (queue.clone(), results.clone());
//!         gort::go! {
//!             for n in queue {
//!                 std::thread::sleep(Duration::from_millis(1)); // blocks this goroutine, and nobody else
//!                 results.send(n * n).unwrap();
//!             }
//!         };
//!     }
//!     drop(results);
//!     gort::go!((1..=20).for_each(|n| jobs.send(n).unwrap()));
//!     let sum: u64 = done.iter().sum();
//!     assert_eq!(sum, 2870);
//! }
//! ```
//!
//! # Where to go from here
//!
//! | you want | look at |
//! | --- | --- |
//! | to understand it | the [`guide`]: the model, blocking, preemption, stacks, safety |
//! | to move from something else | the guide for [Go](guide::from_go), [Tokio](guide::from_tokio), [threads](guide::from_threads) |
//! | to start and join goroutines | [`spawn`], [`go!`], [`scope`](scope()), [`Builder`], [`run`], [`main`], [`test`] |
//! | to talk between them | [`chan`], with `select!` |
//! | to share between them | [`sync`] |
//! | to wait, with limits | [`time`], [`context`], [`blocking`](blocking()) |
//! | sockets, processes, signals | [`net`], [`process`], [`signal`], and [`io`] for other descriptors |
//! | an HTTP server with blocking handlers | `gort::http` (feature `http`) |
//! | to use `async` libraries | [`future`]; features `hyper` and `tokio` |
//! | to see inside | [`runtime`]: `dump`, `stats`, `Config`; [the chapter on it](guide::inside) |
//! | tests with virtual time | [`testing`] |
//! | another allocator | [`alloc`] |
//!
//! # What it runs on
//!
//! Linux on x86-64 with glibc 2.34 or newer, dynamically linked. Elsewhere it does not compile, and says why.
//! Everything works from goroutines and from ordinary OS threads, in any mix. There is one runtime in a process; it starts
//! on first use.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod alloc;
mod atomic;
mod blocking;
pub mod chan;
pub mod context;
pub mod future;
mod goroutine;
pub mod guide;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
#[cfg(feature = "hyper")]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
pub mod hyper;
pub mod io;
pub mod net;
mod netpoll;
pub mod process;
pub mod runtime;
mod sched;
pub mod signal;
mod stack;
pub mod sync;
mod sys;
#[cfg(test)]
mod test_util;
pub mod testing;
pub mod time;
mod timer;
mod tls;

pub use blocking::{blocking, checkpoint};
pub use time::sleep;

pub use goroutine::{
    Builder, Goroutine, JoinHandle, Scope, ScopedJoinHandle, current, run, scope, spawn, yield_now,
};

pub use gort_macros::{main, test};

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
