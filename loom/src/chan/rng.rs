//! No dice: models are repeatable.

pub(crate) struct Dice;

impl Dice {
    pub(crate) fn new() -> Dice {
        Dice
    }

    pub(crate) fn below(&mut self, _: usize) -> usize {
        0
    }
}
