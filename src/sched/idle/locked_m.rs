//! Stopping and starting an M that is bound to a goroutine (`block/lock_os_thread.rs`), as Go's `stoplockedm`
//! and `startlockedm`.

use super::stop_m::wait_for_p;
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sched::types::m::M;

/// Called on the bound M after its goroutine switched out: gives its P away and waits until the goroutine is
/// to run again.
pub(crate) fn stop_locked_m(m: &'static M) -> &'static G {
    if let Some(p) = m.p() {
        m.set_p(None);
        p.stats.hand_offs.add(1);
        SCHED.hand_off_p(p);
    }
    wait_for_p(m);
    match m.locked_g.get() {
        Some(g) => g,
        None => unreachable!("only the bound goroutine itself unbinds its M"),
    }
}

/// Called on another M, which took the bound goroutine from a queue: gives its P to the bound M.
pub(crate) fn start_locked_m(m: &'static M, owner: &'static M) {
    let p = m.p();
    m.set_p(None);
    owner.next_p.set(p);
    owner.note.set();
}
