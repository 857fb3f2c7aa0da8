//! Looking at a parked goroutine, or working on its stack, without ending its wait (HELD, see `parkword.rs`).
//!
//! Who readies it meanwhile is told that it need do nothing, and the holder makes it runnable when it lets go. A bubble would
//! take such a goroutine for one that waits, and move its clock or speak of a deadlock, so it gives nobody a turn as long as
//! one of its goroutines is held (`bubble::pin`).

use super::bubble;
use super::g::G;
use super::wake;

/// Holds `g` while `f` looks at it. `None`: it is not parked, or it came to or left a bubble just now.
pub(crate) fn while_held<R>(g: &'static G, f: impl FnOnce() -> R) -> Option<R> {
    let number = g.bubble.get();
    let pin = match number {
        0 => None,
        _ => Some(bubble::pin(number)?),
    };
    if !g.park.hold() {
        return None;
    }
    // Its slot may have become another goroutine's before it was held.
    let result = (g.bubble.get() == number).then(f);
    if g.park.release() {
        wake::make_runnable(g);
    }
    drop(pin);
    result
}
