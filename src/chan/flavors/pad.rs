//! Padding that keeps words written by different threads in different cache lines.

use std::mem::MaybeUninit;

/// The size of a cache line, in bytes, on the processors that gort runs on.
const LINE: usize = 64;

/// Padding to put between two words of a `repr(C)` struct: it keeps them in different cache lines wherever
/// the struct lies. Aligning the words instead would make every channel an aligned allocation, which takes
/// several times as long.
pub(crate) struct Pad {
    _room: MaybeUninit<[u8; LINE - size_of::<usize>()]>,
}

impl Pad {
    pub(crate) const fn new() -> Pad {
        Pad { _room: MaybeUninit::uninit() }
    }
}
