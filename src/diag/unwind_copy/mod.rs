//! Walking the frames of a copied stack, of which not all registers need to be known.
//!
//! The system's unwinder (`dump/unwind.rs`) reads whatever its registers lead to. That is right for code that
//! stopped with known registers. Here some are unknown, or guessed, or those of an instruction whose table is
//! wrong; where they lead cannot be said before a function's unwind table is read. So the tables are read
//! here (by the crate `gimli`), and:
//!
//! - W1. A word of the stack is read from the copy, by its place in the original: a checked index, whatever
//!   the address is. A word that is not in the copy is unknown.
//! - W2. Other memory is read in one file ([`tables`]), and never in place: unwind tables, and code before
//!   return addresses.
//! - W3. Each frame is above the last one, so a walk ends.
//!
//! So the walk is safe with any registers and any words on the stack, and whatever libraries are unloaded
//! meanwhile; the worst is a wrong list.
//!
//! # The frame pointer
//!
//! Of a thread in a system call the kernel tells only where it is and its stack pointer. Most functions need
//! no more. Where a function has a frame pointer, and no function that it called has saved that, the walk
//! looks upwards for the first place at which
//!
//! - a return address lies behind a call that may have been one of that function, and
//! - the walk, going on from there, comes to the bottom of the stack.
//!
//! Data that looks like a frame fails the second condition. What can pass both by chance is what an earlier
//! call of the same function left in the part of its own frame that it has not written yet. If the function
//! was reached by a jump at the end of another one, or if no place fits, the list ends there.

mod frame;
mod tables;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use self::frame::Frame;
pub(crate) use self::tables::Tables;
use self::tables::call_before;
use crate::arch::{Call, FRAME_POINTER, REGISTER_COUNT, RETURN_ADDRESS, Registers, STACK_POINTER};

const WORD: usize = size_of::<usize>();
/// The stack is aligned to this many bytes at a call, and so are frame pointers.
const ALIGNMENT: usize = 16;
/// At most this many frames of a stack are found.
const MOST_FRAMES: usize = 128;

/// The words of a stack, from `start` on.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) words: &'a [usize],
    /// Where the first one is in the original.
    pub(crate) start: usize,
}

impl Words<'_> {
    fn range(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.words.len() * WORD)
    }

    /// W1. (The stack pointer of interrupted code may be anything, so words may lie across two of the copy.)
    fn read(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start)?;
        let (index, shift) = (offset / WORD, offset % WORD * 8);
        let low = *self.words.get(index)?;
        if shift == 0 {
            return Some(low);
        }
        let high = *self.words.get(index + 1)?;
        Some(low >> shift | high << (usize::BITS as usize - shift))
    }
}

/// Where a thread is, as far as known: registers by their numbers in unwind tables.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    registers: [Option<usize>; REGISTER_COUNT],
    /// The address is that of the next instruction, and not one behind a call, which may end its function.
    exact: bool,
}

impl Place {
    /// Where a stopped thread is.
    pub(crate) fn stopped(registers: &Registers) -> Place {
        let mut place = Place { registers: [None; REGISTER_COUNT], exact: true };
        registers.numbered().into_iter().for_each(|(number, value)| place.set(number, Some(value)));
        place
    }

    /// Where a thread is of which only the next instruction and the stack pointer are known.
    pub(crate) fn known(pc: usize, sp: usize) -> Place {
        let mut place = Place { registers: [None; REGISTER_COUNT], exact: true };
        place.set(RETURN_ADDRESS, Some(pc));
        place.set(STACK_POINTER, Some(sp));
        place
    }

    pub(crate) fn stack_pointer(&self) -> Option<usize> {
        self.get(STACK_POINTER)
    }

    fn get(&self, register: u16) -> Option<usize> {
        self.registers.get(usize::from(register)).copied().flatten()
    }

    fn set(&mut self, register: u16, value: Option<usize>) {
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = value;
        }
    }

    /// An address inside the instruction that is executed, or that made the call.
    fn instruction(&self) -> Option<usize> {
        self.get(RETURN_ADDRESS)?.checked_sub(usize::from(!self.exact))
    }
}

/// The code addresses of a stack, the innermost first. For frames that made a call: an address within the
/// call instruction. For reports: they share tables, which stay until their objects go.
pub(crate) fn frames(stack: Words<'_>, place: Place) -> Vec<usize> {
    static TABLES: Mutex<Option<Tables>> = Mutex::new(None);
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let tables = tables.get_or_insert_with(Tables::new);
    tables.refresh();
    let found = Walk::new(tables, stack).frames(place);
    // The walk may have come to a library that is new.
    if tables.refresh() { Walk::new(tables, stack).frames(place) } else { found }
}

/// Why a place has no caller.
enum End {
    /// The stack begins here.
    Bottom,
    /// The caller would be known if the frame pointer were. With the first byte of the function.
    BehindFramePointer(usize),
    /// The place, or the caller, is in no object that the tables know.
    NoCode,
    Unknown,
}

/// A walk over a copied stack.
pub(crate) struct Walk<'a> {
    tables: &'a mut Tables,
    stack: Words<'a>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(tables: &'a mut Tables, stack: Words<'a>) -> Walk<'a> {
        Walk { tables, stack }
    }

    /// The frames from `place` outwards, as [`frames`] returns them.
    pub(crate) fn frames(&mut self, mut place: Place) -> Vec<usize> {
        let mut frames = Vec::new();
        while frames.len() < MOST_FRAMES
            && let Some(instruction) = place.instruction()
        {
            frames.push(instruction);
            let caller = match self.caller(&place) {
                Err(End::BehindFramePointer(function)) => self.guess(&place, function),
                Err(End::NoCode) => {
                    self.tables.missed();
                    None
                }
                known => known.ok(),
            };
            let Some(caller) = caller else { break };
            place = caller;
        }
        frames
    }

    /// Where the caller of the function that begins at `function`, is at `place` and needs a frame pointer,
    /// is: see the head of this file.
    fn guess(&mut self, place: &Place, function: usize) -> Option<Place> {
        let (first, end) =
            (place.get(STACK_POINTER)?.checked_next_multiple_of(ALIGNMENT)?, self.stack.range().end);
        (first..end).step_by(ALIGNMENT).find_map(|frame_pointer| {
            let back = self.stack.read(frame_pointer + WORD)?;
            let calling = self.tables.function(back.wrapping_sub(1))?;
            let may_call = match call_before(calling, back)? {
                Call::Indirect => true,
                // A target that begins no function is a stub.
                Call::Direct(to) => to == function || self.tables.function(to).is_none_or(|at| at != to),
            };
            if !may_call {
                return None;
            }
            let mut guessed = *place;
            guessed.set(FRAME_POINTER, Some(frame_pointer));
            self.caller(&guessed).ok().filter(|&caller| self.reaches_bottom(caller))
        })
    }

    fn reaches_bottom(&mut self, mut place: Place) -> bool {
        for _ in 0..MOST_FRAMES {
            match self.caller(&place) {
                Ok(caller) => place = caller,
                Err(end) => return matches!(end, End::Bottom),
            }
        }
        true // deeper than reports show
    }

    fn caller(&mut self, place: &Place) -> Result<Place, End> {
        let instruction = place.instruction().ok_or(End::Unknown)?;
        let Some(row) = self.tables.row(instruction) else {
            return Err(if self.tables.has_code(instruction) { End::Unknown } else { End::NoCode });
        };
        if row.has_no_caller() {
            return Err(End::Bottom);
        }
        let frame = Frame { stack: self.stack, place, row: &row };
        let Some(caller) = frame.caller() else {
            let needs = frame.needs_frame_pointer();
            return Err(if needs { End::BehindFramePointer(row.function) } else { End::Unknown });
        };
        // What is listed is code. (A row that was looked up before is found faster.)
        let is_code = |address| self.tables.row(address).is_some() || self.tables.has_code(address);
        if caller.instruction().is_some_and(is_code) { Ok(caller) } else { Err(End::NoCode) }
    }
}

#[cfg(test)]
mod tests;
