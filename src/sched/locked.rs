//! lock_os_thread: a goroutine bound to its M.
//!
//! When the bound goroutine stops, its M gives its P away and waits; no other goroutine runs on it. When another
//! M picks the goroutine from a queue, it hands its own P to the bound M and stops itself.

use super::g::G;
use super::m::M;
use super::section;
use super::wake;

/// Binds the calling goroutine to its thread. Nests. False on a foreign thread, which is bound anyway.
pub(crate) fn lock() -> bool {
    let Some(section) = section::enter() else { return false };
    let (g, m) = (section.g(), section.m());
    g.lock_count.set(g.lock_count.get() + 1);
    g.locked_m.set(Some(m));
    m.locked_g.set(Some(g));
    true
}

/// Undoes one [`lock`]. False if there was none.
pub(crate) fn unlock() -> bool {
    let Some(section) = section::enter() else { return false };
    let (g, m) = (section.g(), section.m());
    match g.lock_count.get() {
        0 => return false,
        1 => {
            g.locked_m.set(None);
            m.locked_g.set(None);
        }
        _ => {}
    }
    g.lock_count.set(g.lock_count.get() - 1);
    true
}

/// On the bound M, after its goroutine switched out: waits until the goroutine is to run again.
pub(crate) fn stop_locked_m(m: &'static M) -> &'static G {
    if let Some(p) = m.p() {
        m.set_p(None);
        p.stats.hand_offs.add(1);
        wake::hand_off_p(p);
    }
    m.wait_for_p();
    match m.locked_g.get() {
        Some(g) => g,
        None => unreachable!("only the bound goroutine itself unbinds its M"),
    }
}

/// On another M, which took the bound goroutine from a queue: gives its P to the bound M.
pub(crate) fn start_locked_m(m: &'static M, owner: &'static M) {
    let p = m.p();
    m.set_p(None);
    owner.next_p.set(p);
    owner.note.set();
}
