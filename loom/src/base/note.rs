//! No thread of a model sleeps on a Note: the thread that wakes an M plays its part (`models/world.rs`).

pub(crate) struct Note;

impl Note {
    pub(crate) const fn new() -> Note {
        Note
    }
}
