//! Looking at a parked goroutine, or working on its stack, without ending its wait (HELD, see
//! `word/park_word.rs`).
//!
//! A waker that readies it meanwhile is told that it need do nothing, and the holder makes it runnable when
//! it lets go. A bubble would take such a goroutine for one that waits, and move its clock or report a
//! deadlock; so the bubble is pinned as long as one of its goroutines is held.

use super::park_ready::make_runnable;
use crate::sched::machine::hooks;
use crate::sched::types::g::G;

/// Keeps a bubble from giving a goroutine the next turn.
struct Pin(u8);

impl Pin {
    fn new(bubble: u8) -> Option<Pin> {
        (hooks().bubble.pin)(bubble).then_some(Pin(bubble))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        (hooks().bubble.unpin)(self.0);
    }
}

/// Holds `g` while `f` looks at it. `None`: it is not parked, or it came to or left a bubble just now.
pub(crate) fn while_held<R>(g: &'static G, f: impl FnOnce() -> R) -> Option<R> {
    let number = g.bubble.get();
    let pin = match number {
        0 => None,
        _ => Some(Pin::new(number)?),
    };
    if !g.park.hold() {
        return None;
    }
    // Its slot may have become another goroutine's before it was held.
    let result = (g.bubble.get() == number).then(f);
    if g.park.release() {
        make_runnable(g);
    }
    drop(pin);
    result
}
