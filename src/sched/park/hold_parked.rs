//! Looking at a parked goroutine, or working on its stack, without ending its wait (HELD, see
//! `word/park_word.rs`).
//!
//! If a waker readies the goroutine meanwhile, `notify` tells the waker to do nothing, and the holder makes
//! the goroutine runnable when it lets go. A bubble would take such a goroutine for a waiting one, and
//! advance its clock or report a deadlock. So the bubble is pinned while one of its goroutines is held.

use super::park_ready::make_runnable;
use crate::sched::machine::hooks;
use crate::sched::types::g::G;

/// Keeps a bubble from giving a goroutine the next turn.
struct Pin(u8);

impl Pin {
    fn new(bubble: u8) -> Option<Pin> {
        (hooks().bubble.pin)(bubble).then(|| Pin(bubble))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        (hooks().bubble.unpin)(self.0);
    }
}

/// Holds `g` while `f` looks at it. `None`: it is not parked, or it has just entered or left a bubble.
pub(crate) fn while_held<R>(g: &'static G, f: impl FnOnce() -> R) -> Option<R> {
    let number = g.bubble.get();
    let pin = match number {
        0 => None,
        _ => Some(Pin::new(number)?),
    };
    if !g.park.hold() {
        return None;
    }
    // Before it was held, its slot may have passed to another goroutine.
    let result = (g.bubble.get() == number).then(f);
    if g.park.release() {
        make_runnable(g);
    }
    drop(pin);
    result
}
