//! What the server looks at: the Ps, Ms and queues ([`machine`], kept for some seconds by [`history`]), all
//! goroutines ([`table`], queried by [`query`]), and one goroutine ([`goroutine`]).
//!
//! - L1. Nothing is stopped. What is read changes meanwhile, so numbers of one sample may differ by what has
//!   just happened. Gs, Ms and Ps are never freed (G1, M3, P3), so their addresses can be kept.
//! - L2. Ten browsers cost as much as one: they share samples and tables, which are made at intervals.
//! - L3. Looking at all goroutines takes at most one part in [`SHARE`] of one core: the pause between two
//!   tables grows with the time that a table takes.
//! - L4. If nobody has asked for some seconds, nothing is looked at, and no memory is kept.

pub(super) mod goroutine;
pub(super) mod history;
pub(super) mod machine;
pub(super) mod query;
pub(super) mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// See L3.
const SHARE: u32 = 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
