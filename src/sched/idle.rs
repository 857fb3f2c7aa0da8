//! Stopping an M that has nothing to do, until somebody hands it a P; and ending surplus threads.

use std::time::{Duration, Instant};

use super::global::{self, PROCS};
use super::m::M;
use crate::atomic::Ordering;
use crate::sys::thread;

/// A stopped M waits so long before it asks whether it is one too many.
const PATIENCE: Duration = Duration::from_secs(5);

/// Stops until somebody sets `next_p`. False: there are enough idle Ms, and this thread shall end.
pub(crate) fn stop_m(m: &'static M) -> bool {
    debug_assert!(m.p().is_none() && !m.spinning.get());
    m.cpu.set(thread::cpu());
    global::lock().put_idle_m(m);
    // Two waits at the most: an idle process has no periodic wake-ups.
    if !m.note.wait_until(Some(Instant::now() + PATIENCE)) {
        let keep = PROCS.load(Ordering::Relaxed).min(KEEP_AT_MOST) + 1;
        if global::lock().retire_idle_m(m, keep) {
            return false;
        }
        m.note.wait();
    }
    m.set_p(m.next_p.take());
    true
}

/// Idle threads beyond GOMAXPROCS + 1 end; with a large GOMAXPROCS already beyond this many.
const KEEP_AT_MOST: u32 = 16;
