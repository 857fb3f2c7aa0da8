//! With `gort::transparent::enable`, what std, other crates and C code wait for parks the goroutine.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::zombie_processes,
    reason = "system calls on descriptors and memory of the test; children are waited for by such calls"
)]

#[path = "../common/mod.rs"]
mod common;

mod children;
mod close;
mod contract;
mod crowd;
mod files;
mod futexes;
mod handlers;
mod like_threads;
mod limits;
mod sandbox;
mod sleep;
mod sockets;
mod stack;
mod stress;
mod trust;
mod who;

use std::sync::Once;

/// Waits until the process has no more threads than `before` and some for the runtime. Threads that were
/// needed for a moment, as when sysmon took the P of a slow call, end later.
#[track_caller]
fn until_few_threads(before: usize) {
    let most = before + gort::runtime::max_procs() + 8;
    common::until("few threads are left", || common::threads().len() <= most);
}

/// Enables the hooks for this process. All tests of this binary begin with it.
fn enable() -> common::Watchdog {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| gort::transparent::enable().unwrap());
    common::Watchdog::start()
}
