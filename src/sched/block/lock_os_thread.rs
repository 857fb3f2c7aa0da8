//! lock_os_thread: a goroutine bound to its M.
//!
//! When the bound goroutine stops, its M gives its P away and waits; no other goroutine runs on it. When
//! another M picks the goroutine from a queue, it hands its own P to the bound M and stops itself
//! (`idle/locked_m.rs`).

use crate::sched::run::runtime_section;
use crate::sched::types::g::G;
use crate::sched::types::g::thread_state::BINDING;
use crate::sched::types::m::M;

/// Binds the calling goroutine to its thread. Nests. False on a foreign thread, which is bound anyway.
pub(crate) fn lock() -> bool {
    let Some(section) = runtime_section::enter() else { return false };
    bind(section.g(), section.m());
    true
}

/// Binds `g`, which runs on `m` and is inside the runtime. Nests.
pub(super) fn bind(g: &'static G, m: &'static M) {
    g.lock_count.set(g.lock_count.get() + 1);
    g.locked_m.set(Some(m));
    m.locked_g.set(Some(g));
}

/// Undoes one [`bind`].
pub(super) fn unbind(g: &'static G, m: &'static M) {
    if g.lock_count.get() == 1 {
        g.locked_m.set(None);
        m.locked_g.set(None);
    }
    g.lock_count.set(g.lock_count.get() - 1);
}

/// Undoes one [`lock`]. False if there was none, but for the one that `thread_state.rs` counts.
pub(crate) fn unlock() -> bool {
    let Some(section) = runtime_section::enter() else { return false };
    let (g, m) = (section.g(), section.m());
    let for_state = u32::from(g.thread_state.get() & BINDING != 0);
    let locked = g.lock_count.get() != for_state;
    if locked {
        unbind(g, m);
    }
    locked
}
