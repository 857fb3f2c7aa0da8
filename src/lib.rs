#![doc = include_str!("../README.md")]

pub mod alloc;
mod atomic;
mod blocking;
pub mod chan;
pub mod context;
pub mod future;
mod goroutine;
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
