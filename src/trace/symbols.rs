//! Names for the addresses of stacks.

use std::collections::HashMap;
use std::ffi::c_void;
use std::rc::Rc;

/// A function and a place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) function: Box<str>,
    pub(super) file: Box<str>,
    pub(super) line: u32,
}

/// Looked-up frames. The format wants a program counter for each; because several functions may be inlined at
/// one address, each frame gets a number of its own instead.
#[derive(Default)]
pub(super) struct Symbols {
    known: HashMap<usize, Vec<Rc<Frame>>>,
    counters: HashMap<Rc<Frame>, u64>,
    /// The numbers of frames that are known by their places, in this generation. A program may give each of
    /// its goroutines a name of its own, so these are forgotten.
    places: HashMap<Frame, u64>,
    /// How many numbers were given to frames.
    numbers: u64,
}

/// Parts of the names of functions that call a goroutine's function: these frames and all outer ones are left
/// out.
const STARTED_BY: [&str; 2] = ["gort::goroutine::join::ResultPlace", "gort::sched::run::spawn::"];
/// Parts of the names of functions of the runtime that stop a goroutine.
const STOPPED_BY: [&str; 4] = ["gort::sched::", "gort::arch::", "gort::diag::", "gort::base::"];

impl Symbols {
    /// The frames of a stack, innermost first, without the runtime's at both ends.
    pub(super) fn frames(&mut self, addresses: &[usize]) -> Vec<(u64, Rc<Frame>)> {
        let mut frames = Vec::new();
        for &address in addresses {
            let known = self.known.entry(address).or_insert_with(|| look_up(address));
            frames.extend_from_slice(known);
        }
        let is_part = |frame: &Frame, parts: &[&str]| parts.iter().any(|part| frame.function.contains(part));
        if let Some(start) = frames.iter().position(|frame| is_part(frame, &STARTED_BY)) {
            frames.truncate(start);
        }
        let inner = frames.iter().take_while(|frame| is_part(frame, &STOPPED_BY)).count();
        if inner < frames.len() {
            frames.drain(..inner);
        }
        frames.into_iter().map(|frame| (self.counter(&frame), frame)).collect()
    }

    /// A frame that is known by its place.
    pub(super) fn place(&mut self, frame: &Frame) -> (u64, Rc<Frame>) {
        let number = *self.places.entry(frame.clone()).or_insert_with(|| {
            self.numbers += 1;
            self.numbers
        });
        (number, Rc::new(frame.clone()))
    }

    /// A generation is complete.
    pub(super) fn end_generation(&mut self) {
        self.places = HashMap::new();
    }

    fn counter(&mut self, frame: &Rc<Frame>) -> u64 {
        *self.counters.entry(Rc::clone(frame)).or_insert_with(|| {
            self.numbers += 1;
            self.numbers
        })
    }
}

fn look_up(address: usize) -> Vec<Rc<Frame>> {
    let mut frames = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let function = symbol.name().map_or_else(|| format!("{address:#x}"), |name| format!("{name:#}"));
        let file = symbol.filename().map_or(String::new(), |file| file.display().to_string());
        let line = symbol.lineno().unwrap_or(0);
        frames.push(Rc::new(Frame { function: function.into(), file: file.into(), line }));
    });
    if frames.is_empty() {
        let function = format!("{address:#x}").into();
        frames.push(Rc::new(Frame { function, file: "".into(), line: 0 }));
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_with_their_generation_and_numbers_are_not_used_again() {
        let mut symbols = Symbols::default();
        let mut last = 0;
        for generation in 0..3 {
            for name in 0..1000 {
                let function = format!("goroutine {generation} {name}").into();
                let frame = Frame { function, file: "main.rs".into(), line: 1 };
                let (number, _) = symbols.place(&frame);
                assert!(number > last);
                assert_eq!(symbols.place(&frame).0, number);
                last = number;
            }
            symbols.end_generation();
            assert!(symbols.places.is_empty() && symbols.counters.is_empty());
        }
        // Functions of the program keep their numbers.
        let address = [look_up as fn(usize) -> Vec<Rc<Frame>> as usize];
        let before = symbols.frames(&address)[0].0;
        symbols.end_generation();
        assert_eq!(symbols.frames(&address)[0].0, before);
    }
}
