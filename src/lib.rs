#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod alloc;
mod atomic;
mod blocking;
pub mod chan;
pub mod context;
pub mod future;
mod goroutine;
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
