//! Distance between words that different threads write.

use std::mem::MaybeUninit;

/// A cache line is 64 bytes on the processors that gort runs on.
const LINE: usize = 64;

/// Put between two words (in a `repr(C)` struct), it keeps them in different cache lines wherever the struct lies.
/// Aligning them instead would make every channel an aligned allocation, which takes several times as long.
pub(crate) struct Pad {
    _room: MaybeUninit<[u8; LINE - size_of::<usize>()]>,
}

impl Pad {
    pub(crate) const fn new() -> Pad {
        Pad { _room: MaybeUninit::uninit() }
    }
}
