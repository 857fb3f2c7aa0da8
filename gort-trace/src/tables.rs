//! Strings and stacks of all generations, each stored once.
//!
//! Each generation numbers its strings and stacks anew. These tables give equal ones the same id, so that
//! sites can be compared over the whole trace. Id 0 is the empty string, and the empty stack.

use std::borrow::Cow;
use std::collections::HashMap;

/// The index of a string in [`Strings`].
pub type StringId = u32;

/// The index of a stack in [`Stacks`].
pub type StackId = u32;

/// The strings of a trace. Invalid UTF-8 is replaced.
#[derive(Debug)]
pub struct Strings<'a> {
    list: Vec<Cow<'a, str>>,
    ids: HashMap<Cow<'a, str>, StringId>,
}

impl<'a> Strings<'a> {
    pub(crate) fn new() -> Strings<'a> {
        let mut strings = Strings { list: Vec::new(), ids: HashMap::new() };
        strings.add(b"");
        strings
    }

    pub(crate) fn add(&mut self, bytes: &'a [u8]) -> StringId {
        let text = String::from_utf8_lossy(bytes);
        if let Some(&id) = self.ids.get(&text) {
            return id;
        }
        let id = self.list.len() as StringId; // each takes more than one byte of a file below 4 GiB
        self.list.push(text.clone());
        self.ids.insert(text, id);
        id
    }

    /// The string with this id; an empty one if there is none.
    pub fn get(&self, id: StringId) -> &str {
        self.list.get(id as usize).map_or("", |text| text)
    }

    /// All strings, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|text| &**text)
    }
}

/// One frame of a stack.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Frame {
    /// The function's name.
    pub function: StringId,
    /// The file's name.
    pub file: StringId,
    /// The line in the file.
    pub line: u64,
}

/// The stacks of a trace.
#[derive(Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_ids: HashMap<Frame, u32>,
    list: Vec<Box<[u32]>>,
    ids: HashMap<Box<[u32]>, StackId>,
}

impl Stacks {
    pub(crate) fn new() -> Stacks {
        let mut stacks =
            Stacks { frames: Vec::new(), frame_ids: HashMap::new(), list: Vec::new(), ids: HashMap::new() };
        stacks.add(&[]);
        stacks
    }

    pub(crate) fn add(&mut self, frames: &[Frame]) -> StackId {
        let stack: Box<[u32]> = frames.iter().map(|&frame| self.add_frame(frame)).collect();
        if let Some(&id) = self.ids.get(&stack) {
            return id;
        }
        let id = self.list.len() as StackId;
        self.list.push(stack.clone());
        self.ids.insert(stack, id);
        id
    }

    fn add_frame(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            next
        })
    }

    /// How many stacks there are, the empty one included.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The frames of a stack, the innermost first; none if there is no such stack.
    pub fn get(&self, id: StackId) -> impl ExactSizeIterator<Item = Frame> + DoubleEndedIterator {
        let stack: &[u32] = self.list.get(id as usize).map_or(&[], |stack| stack);
        stack.iter().map(|&frame| self.frames[frame as usize])
    }

    /// All frames that occur in stacks.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The indices of a stack's frames in [`Stacks::frames`], the innermost first.
    pub fn indices(&self, id: StackId) -> &[u32] {
        self.list.get(id as usize).map_or(&[], |stack| stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_and_stacks_have_one_id() {
        let mut strings = Strings::new();
        let (a, b) = (strings.add(b"a"), strings.add(b"b"));
        assert_eq!((strings.add(b""), strings.add(b"a")), (0, a));
        assert_eq!(strings.get(b), "b");
        assert_eq!(strings.get(99), "");
        let mut stacks = Stacks::new();
        let frame = Frame { function: a, file: b, line: 1 };
        let id = stacks.add(&[frame, frame]);
        assert_eq!((stacks.add(&[]), stacks.add(&[frame, frame])), (0, id));
        assert_eq!(stacks.get(id).collect::<Vec<_>>(), [frame, frame]);
        assert_eq!(stacks.frames().len(), 1);
    }
}
