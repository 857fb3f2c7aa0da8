//! Goroutines for Rust: the Go scheduler (G, M, P) as a library.
//!
//! You write plain, blocking Rust functions, and gort runs a great many of them on a few OS threads.
//!
//! > **To the code inside it, a goroutine is a thread.** `thread_local!`, panics, `std::sync::Mutex`, a
//! > blocking `std::fs` or C call, an endless `for` loop: all of these are correct inside a goroutine, and
//! > none of them starves other goroutines.
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
//!                 std::thread::sleep(Duration::from_millis(1)); // blocks only this goroutine
//!                 results.send(n * n).unwrap();
//!             }
//!         }
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
//! | You want to | Look at |
//! | --- | --- |
//! | understand goroutines | the [`guide`]: the model, blocking, preemption, stacks, safety |
//! | convert a program | the chapters on coming from [Go], [Tokio] or [threads] |
//! | start and join goroutines | [`spawn`], [`go!`], [`scope`](scope()), [`Builder`], [`run`] |
//! | write `main` and tests | the attributes [`main`] and [`test`] |
//! | send messages between goroutines | [`chan`], with `select!` |
//! | share data between goroutines | [`sync`] |
//! | sleep, set deadlines, cancel | [`time`], [`context`] |
//! | mark calls that block | [`blocking`](blocking()) |
//! | use sockets, processes, signals | [`net`], [`process`], [`signal`]; [`io`] for other descriptors |
//! | serve HTTP with blocking handlers | `gort::http` (feature `http`) |
//! | use `async` libraries | [`future`]; features `hyper` and `tokio` |
//! | see what the program is doing | [`runtime`]: `dump`, `stats`, `Config`; [the chapter on it][inside] |
//! | watch it with Prometheus | `gort::metrics` (feature `metrics`) |
//! | look inside with a browser | `gort::debug` (feature `debug`) |
//! | see what it did, and when | [`trace`] |
//! | test with virtual time | [`testing`] |
//! | let std, other crates and C park goroutines | `gort::transparent` (feature `transparent`) |
//! | use another global allocator | [`alloc`] |
//!
//! # Platforms
//!
//! gort runs on Linux on x86-64 with glibc 2.34 or newer, dynamically linked. For other targets it does not
//! compile, and the error message says why. With an older or statically linked glibc it compiles, but
//! starting a goroutine fails with an error that names what is missing.
//!
//! Everything works from goroutines and from ordinary OS threads, in any mix. A process has exactly one
//! runtime, which starts when it is first used.
//!
//! [Go]: guide::from_go
//! [Tokio]: guide::from_tokio
//! [threads]: guide::from_threads
//! [inside]: guide::inside
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod alloc;
mod arch;
mod base;
mod blocking;
pub mod chan;
pub mod context;
#[cfg(feature = "debug")]
#[cfg_attr(docsrs, doc(cfg(feature = "debug")))]
pub mod debug;
mod diag;
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
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub mod metrics;
pub mod net;
mod netpoll;
pub mod process;
#[cfg(feature = "debug")]
#[cfg_attr(docsrs, doc(cfg(feature = "debug")))]
pub mod profile;
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
pub mod trace;
#[cfg(feature = "transparent")]
#[cfg_attr(docsrs, doc(cfg(feature = "transparent")))]
pub mod transparent;
mod wiring;

pub use blocking::{blocking, checkpoint};
pub use time::sleep;

#[doc(hidden)]
pub use goroutine::__run_test;
pub use goroutine::{
    Builder, Goroutine, JoinHandle, Labels, Scope, ScopedJoinHandle, current, join, run, scope, spawn,
    with_labels, yield_now,
};

pub use gort_macros::{main, test};

/// The README's examples run as tests.
#[cfg(all(doctest, feature = "transparent"))]
#[doc = include_str!("../README.md")]
struct Readme;
