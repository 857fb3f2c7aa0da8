//! Helpers that the integration tests share, by purpose:
//!
//! | File | Purpose |
//! | --- | --- |
//! | `amounts.rs` | how much a test does: quickly, or in a full run |
//! | `wait.rs` | waiting for a condition, with a limit |
//! | `watchdog.rs` | ending a test or a process that hangs |
//! | `child.rs` | running a test, or a part of it, in a process of its own |
//! | `procs.rs` | GOMAXPROCS for one test |
//! | `goroutines.rs` | goroutines that have a name, that hog a P, that move to another thread |
//! | `golang.rs` | Go's own tools, which read what gort writes |
//! | `net.rs` | TCP listeners and connections on private ports |
//! | `os.rs` | what the kernel says about this process: threads, CPU time, memory, limits; temporary paths |
//! | `panics.rs` | the message of a panic |
//! | `traces.rs` | what tests of traces do, and Go's view of the result |
//!
//! A test binary includes them with `#[path = "../common/mod.rs"] mod common;`.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

mod amounts;
mod child;
mod golang;
mod goroutines;
mod net;
mod os;
mod panics;
mod procs;
pub(crate) mod traces;
mod wait;
mod watchdog;

pub(crate) use amounts::{amount, full};
pub(crate) use child::{Printed, alone, alone_quietly, alone_with, child, is_child, run, run_ok};
pub(crate) use golang::go;
pub(crate) use goroutines::{Hogs, join_all, migrate, named};
pub(crate) use net::{connected_pair, listen};
pub(crate) use os::{TempDir, cpu_time, set_soft_limit, stack_bounds, status_bytes, threads, tid};
pub(crate) use panics::{message_of, panic_message};
pub(crate) use procs::Procs;
pub(crate) use wait::{patience, spin_until, until};
pub(crate) use watchdog::Watchdog;
