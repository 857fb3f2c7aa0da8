//! Models of channels: the library's source files over loom's atomics. What parks and what reads the clock is
//! replaced (see `sched/` here and `../sync/context.rs`): the deadline of a wait races at once against its wakers.

#![allow(dead_code, unreachable_pub, reason = "the included files are public in gort, and models use a part")]

mod atomic;
mod chan;
#[path = "../sync/context.rs"]
mod context;
mod sched;
mod time;
