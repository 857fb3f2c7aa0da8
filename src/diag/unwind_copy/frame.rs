//! One frame: from where a thread is, and what the tables say about the instruction there, to its caller.

use gimli::{Encoding, EndianSlice, EvaluationResult, Expression, Format, NativeEndian, Value};

use super::tables::{Canonical, Kept, Row};
use super::{Place, WORD, Words};
use crate::arch::{self, FRAME_POINTER, REGISTER_COUNT, STACK_POINTER};

/// More operations of an expression than tables have.
const MOST_OPERATIONS: u32 = 1000;

/// What functions with a frame pointer say: the caller's stack begins so many bytes above it.
const ABOVE_FRAME_POINTER: i64 = 2 * WORD as i64;

/// One frame, and what the tables say about the instruction where it is.
pub(super) struct Frame<'a> {
    pub(super) stack: Words<'a>,
    pub(super) place: &'a Place,
    pub(super) row: &'a Row,
}

impl Frame<'_> {
    /// Whether the caller would be known if the frame pointer were.
    pub(super) fn needs_frame_pointer(&self) -> bool {
        self.row.canonical == Canonical::Register(FRAME_POINTER, ABOVE_FRAME_POINTER)
            && self.place.get(FRAME_POINTER).is_none()
    }

    /// Where the caller is, with what is known of its registers. `None`: the stack pointer or the return
    /// address is not known, or the frame is not above this one (W3).
    pub(super) fn caller(&self) -> Option<Place> {
        let canonical = match &self.row.canonical {
            Canonical::Register(number, offset) => moved(self.place.get(*number)?, *offset),
            Canonical::Expression(code) => self.evaluate(code, None)?,
        };
        let exact = self.row.is_signal_trampoline;
        let mut caller = Place { registers: [None; REGISTER_COUNT], exact };
        for number in (0..REGISTER_COUNT as u16).filter(|&number| arch::is_callee_saved(number)) {
            caller.set(number, self.place.get(number));
        }
        caller.set(STACK_POINTER, Some(canonical));
        for (number, kept) in &self.row.registers {
            let value = match kept {
                Kept::Nowhere => None,
                Kept::Same => self.place.get(*number),
                Kept::AtOffset(offset) => self.stack.read(moved(canonical, *offset)),
                Kept::Offset(offset) => Some(moved(canonical, *offset)),
                Kept::InRegister(other) => self.place.get(*other),
                Kept::AtExpression(code) => {
                    self.evaluate(code, Some(canonical)).and_then(|address| self.stack.read(address))
                }
                Kept::Expression(code) => self.evaluate(code, Some(canonical)),
            };
            caller.set(*number, value);
        }
        let (sp, below) = (caller.get(STACK_POINTER)?, self.place.get(STACK_POINTER)?);
        let is_above = sp > below && sp <= self.stack.range().end;
        (is_above && caller.instruction().is_some()).then_some(caller)
    }

    /// The value of an expression. `first` is what it finds on its own stack.
    fn evaluate(&self, code: &[u8], first: Option<usize>) -> Option<usize> {
        let encoding = Encoding { address_size: WORD as u8, format: Format::Dwarf32, version: 4 };
        let mut evaluation = Expression(EndianSlice::new(code, NativeEndian)).evaluation(encoding);
        evaluation.set_max_iterations(MOST_OPERATIONS);
        if let Some(first) = first {
            evaluation.set_initial_value(first as u64);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, .. } if usize::from(size) == WORD => {
                    let word = self.stack.read(address as usize)?;
                    evaluation.resume_with_memory(Value::Generic(word as u64)).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.place.get(register.0)?;
                    evaluation.resume_with_register(Value::Generic(value as u64)).ok()?
                }
                _ => return None,
            };
        }
        evaluation.value_result()?.to_u64(u64::MAX).ok().map(|value| value as usize)
    }
}

fn moved(address: usize, offset: i64) -> usize {
    address.wrapping_add_signed(offset as isize)
}
