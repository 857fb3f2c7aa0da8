//! Stopping an M that has nothing to do, until another thread hands it a P; and ending surplus threads.

use std::time::{Duration, Instant};

use crate::sched::machine::SCHED;
use crate::sched::types::m::M;
use crate::sys::thread;

/// A stopped M waits this long before it checks whether there are too many idle Ms.
const SURPLUS_AFTER: Duration = Duration::from_secs(5);

/// The most idle threads that are kept, minus one. With a smaller GOMAXPROCS, GOMAXPROCS + 1 are kept.
const KEEP_AT_MOST: u32 = 16;

/// Stops the M until another thread hands it a P. False: there are too many idle Ms, and this thread must
/// end.
pub(crate) fn stop_m(m: &'static M) -> bool {
    debug_assert!(m.p().is_none() && !m.spinning.get());
    m.lone.set(None); // if it is set, another thread has taken the P
    m.cpu.set(thread::cpu());
    SCHED.lock().put_idle_m(m);
    // At most two waits, so that an idle process has no periodic wake-ups.
    if !m.note.wait_until(Some(Instant::now() + SURPLUS_AFTER)) {
        let keep = (SCHED.procs() as u32).min(KEEP_AT_MOST) + 1;
        if SCHED.lock().retire_idle_m(m, keep) {
            return false;
        }
        m.note.wait();
    }
    m.set_p(m.next_p.take());
    true
}

/// Sleeps until another thread hands the M a P, with which it goes on with the goroutine that it already has.
pub(crate) fn wait_for_p(m: &'static M) {
    m.lone.set(None);
    m.cpu.set(thread::cpu());
    m.note.wait();
    let p = m.next_p.take();
    m.set_p(p);
    if let Some(p) = p {
        p.begin_slice();
        p.answer_preempt();
    }
}
