//! A stand-in for the Note. No thread of a model sleeps on one: the actor that wakes an M plays its part
//! (`models/world.rs`).

pub(crate) struct Note;

impl Note {
    pub(crate) const fn new() -> Note {
        Note
    }
}
