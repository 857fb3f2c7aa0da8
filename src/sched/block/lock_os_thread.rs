//! lock_os_thread: a goroutine bound to its M.
//!
//! When the bound goroutine stops, its M gives its P away and waits; no other goroutine runs on it. When
//! another M picks the goroutine from a queue, it hands its own P to the bound M and stops itself
//! (`idle/locked_m.rs`).

use crate::sched::run::runtime_section;
use crate::sched::types::g::thread_state::BINDING;

/// Binds the calling goroutine to its thread. Nests. False on a foreign thread, which is bound anyway.
pub(crate) fn lock() -> bool {
    let Some(section) = runtime_section::enter() else { return false };
    let (g, m) = (section.g(), section.m());
    g.lock_count.set(g.lock_count.get() + 1);
    g.locked_m.set(Some(m));
    m.locked_g.set(Some(g));
    true
}

/// Undoes one [`lock`]. False if there was none, but for the one that `thread_state.rs` counts.
pub(crate) fn unlock() -> bool {
    let Some(section) = runtime_section::enter() else { return false };
    let (g, m) = (section.g(), section.m());
    let for_state = u32::from(g.thread_state.get() & BINDING != 0);
    match g.lock_count.get() {
        count if count == for_state => return false,
        1 => {
            g.locked_m.set(None);
            m.locked_g.set(None);
        }
        _ => {}
    }
    g.lock_count.set(g.lock_count.get() - 1);
    true
}
