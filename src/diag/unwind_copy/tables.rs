//! The unwind tables of the program and its libraries.
//!
//! A library may be unloaded at any time, also while one of its tables is read. So tables are never read
//! where they are:
//!
//! - X1. The objects are listed without the loader's lock, which a goroutine may hold while it waits
//!   (`sys/objects.rs`).
//! - X2. The tables of an object are copied when an address in it is first looked up. /proc/self/mem makes
//!   the copy, so that it cannot fault. The copy counts if the object is still loaded afterwards.
//! - X3. Code is read through /proc/self/mem, too, and is not kept.
//!
//! Copies stay until [`Tables::refresh`] finds that the object is not there any more. What is wrong because
//! that was not asked in between leads to a wrong list of frames, and not to a fault.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhHdrTable, EndianSlice, Expression, FrameDescriptionEntry,
    NativeEndian, Pointer, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};

use crate::arch::{self, Call, REGISTER_COUNT, RETURN_ADDRESS};
use crate::sys::inspect::File;
use crate::sys::objects::{self, Object};

type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// How to find the caller of a function that is at a certain instruction.
pub(super) struct Row {
    /// The first byte of the function.
    pub(super) function: usize,
    pub(super) canonical: Canonical,
    /// The registers that are not what they were in the caller, by their numbers.
    pub(super) registers: Vec<(u16, Kept)>,
    /// The kernel called the function, in place of the next instruction of its caller.
    pub(super) is_signal_trampoline: bool,
}

/// The stack pointer that the caller had before the call, which tables call the canonical frame address: a
/// register plus an offset, or an expression.
#[derive(PartialEq)]
pub(super) enum Canonical {
    Register(u16, i64),
    Expression(Arc<[u8]>),
}

/// Where the caller's value of a register is.
pub(super) enum Kept {
    Nowhere,
    /// It is what it was, also in a register that functions need not keep.
    Same,
    /// In memory, this far from the canonical frame address.
    AtOffset(i64),
    /// It is that address plus this.
    Offset(i64),
    InRegister(u16),
    /// In memory, at the address that the expression yields; or it is what the expression yields.
    AtExpression(Arc<[u8]>),
    Expression(Arc<[u8]>),
}

/// Copies of the tables of an object.
struct Copies {
    /// Address and bytes of the index, and of the tables.
    index: (usize, Vec<u8>),
    tables: (usize, Vec<u8>),
}

struct Known {
    object: Object,
    /// `None`: nobody has asked. `Some(None)`: it has no tables.
    copies: Option<Option<Copies>>,
}

/// The tables of all objects, and what was looked up so far.
pub(crate) struct Tables {
    objects: Vec<Known>,
    rows: HashMap<usize, Option<Arc<Row>>>,
    /// A walk ended at code of no object, or of one that has gone.
    missed: bool,
    context: UnwindContext<usize>,
}

/// When this many rows are known, all are forgotten.
const MOST_ROWS: usize = 1 << 16;

impl Tables {
    pub(crate) fn new() -> Tables {
        let mut tables =
            Tables { objects: Vec::new(), rows: HashMap::new(), missed: true, context: UnwindContext::new() };
        tables.refresh();
        tables
    }

    /// Lists the objects again if one of those whose tables were copied has gone, or if a walk missed one.
    /// True: some have gone or come. A walk may find more frames then.
    pub(crate) fn refresh(&mut self) -> bool {
        let Some(memory) = objects::memory() else { return false };
        let mut used = self.objects.iter().filter(|known| known.copies.is_some());
        if !mem::take(&mut self.missed) && used.all(|known| known.object.is_loaded(&memory)) {
            return false;
        }
        let (mut old, mut changed) = (mem::take(&mut self.objects), false);
        for object in objects::all() {
            let same = old.iter().position(|known| known.object == object);
            changed |= same.is_none();
            self.objects.push(same.map_or(Known { object, copies: None }, |index| old.swap_remove(index)));
        }
        changed |= !old.is_empty();
        if changed {
            self.rows.clear();
        }
        changed
    }

    /// A walk ended at an address that is not code, as far as is known.
    pub(super) fn missed(&mut self) {
        self.missed = true;
    }

    /// The row for the instruction at `address`. `None`: no table has it.
    pub(super) fn row(&mut self, address: usize) -> Option<Arc<Row>> {
        if let Some(known) = self.rows.get(&address) {
            return known.clone();
        }
        if self.rows.len() >= MOST_ROWS {
            self.rows.clear();
        }
        let row = copies(&mut self.objects, &mut self.missed, address)
            .and_then(|copies| copies.row(address, &mut self.context))
            .map(Arc::new);
        // What was missed may be known soon.
        if !self.missed {
            self.rows.insert(address, row.clone());
        }
        row
    }

    /// The first byte of the function that has the byte at `address`.
    pub(super) fn function(&mut self, address: usize) -> Option<usize> {
        copies(&mut self.objects, &mut self.missed, address)?.function(address)
    }

    /// Whether the address is in the code of an object.
    pub(super) fn has_code(&self, address: usize) -> bool {
        self.objects.iter().any(|known| known.object.has_code(address))
    }
}

/// The copies of the object that has code at `address`.
fn copies<'a>(objects: &'a mut [Known], missed: &mut bool, address: usize) -> Option<&'a Copies> {
    let known = objects.iter_mut().find(|known| known.object.has_code(address))?;
    if known.copies.is_none() {
        let memory = objects::memory()?;
        let copies = Copies::of(&known.object, &memory);
        // X2.
        if !known.object.is_loaded(&memory) {
            *missed = true;
            return None;
        }
        known.copies = Some(copies);
    }
    known.copies.as_ref()?.as_ref()
}

/// The call that ends at `address`, which is in the function that begins at `function`, or at its end.
pub(super) fn call_before(function: usize, address: usize) -> Option<Call> {
    const LONGEST: usize = 7;
    let first = address.checked_sub(LONGEST)?.max(function);
    // X3.
    let code = objects::copy(&objects::memory()?, &(first..address))?;
    arch::call_at_end(&code, address)
}

impl Copies {
    fn of(object: &Object, memory: &File) -> Option<Copies> {
        let copy = |place: Range<usize>| Some((place.start, objects::copy(memory, &place)?));
        let index = copy(object.unwind_index.clone()?)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index.0 as u64);
        let header = EhFrameHdr::new(&index.1, NativeEndian).parse(&bases, size_of::<usize>() as u8).ok()?;
        let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
        // The index does not say how long the tables are; they end with their segment at the latest.
        let segment = object.segments.iter().find(|segment| segment.contains(&(start as usize)))?;
        let tables = copy(start as usize..segment.end)?;
        Some(Copies { index, tables })
    }

    fn section(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.tables.1, NativeEndian);
        section.set_address_size(size_of::<usize>() as u8);
        section
    }

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame_hdr(self.index.0 as u64).set_eh_frame(self.tables.0 as u64)
    }

    fn entry(&self, address: usize) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let bases = self.bases();
        let header = EhFrameHdr::new(&self.index.1, NativeEndian);
        let header = header.parse(&bases, size_of::<usize>() as u8).ok()?;
        let index: EhHdrTable<'_, Slice<'_>> = header.table()?;
        index.fde_for_address(&self.section(), &bases, address as u64, EhFrame::cie_from_offset).ok()
    }

    fn function(&self, address: usize) -> Option<usize> {
        Some(self.entry(address)?.initial_address() as usize)
    }

    fn row(&self, address: usize, context: &mut UnwindContext<usize>) -> Option<Row> {
        let (section, entry) = (self.section(), self.entry(address)?);
        let row = entry.unwind_info_for_address(&section, &self.bases(), context, address as u64).ok()?;
        let bytes = |expression: &UnwindExpression<usize>| {
            let Expression(slice) = expression.get(&section).ok()?;
            Some(Arc::from(slice.slice()))
        };
        let canonical = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Canonical::Register(register.0, *offset),
            CfaRule::Expression(expression) => Canonical::Expression(bytes(expression)?),
        };
        let kept = |rule: &RegisterRule<usize>| {
            Some(match rule {
                RegisterRule::SameValue => Kept::Same,
                RegisterRule::Offset(offset) => Kept::AtOffset(*offset),
                RegisterRule::ValOffset(offset) => Kept::Offset(*offset),
                RegisterRule::Register(register) => Kept::InRegister(register.0),
                RegisterRule::Expression(expression) => Kept::AtExpression(bytes(expression)?),
                RegisterRule::ValExpression(expression) => Kept::Expression(bytes(expression)?),
                _ => Kept::Nowhere,
            })
        };
        let changed = row.registers().filter(|(register, _)| usize::from(register.0) < REGISTER_COUNT);
        let registers =
            changed.map(|(register, rule)| Some((register.0, kept(rule)?))).collect::<Option<_>>()?;
        Some(Row {
            function: entry.initial_address() as usize,
            canonical,
            registers,
            is_signal_trampoline: entry.is_signal_trampoline(),
        })
    }
}

impl Row {
    /// Whether the function begins a stack: nobody called it.
    pub(super) fn has_no_caller(&self) -> bool {
        let back = self.registers.iter().find(|(number, _)| *number == RETURN_ADDRESS);
        back.is_none_or(|(_, kept)| matches!(kept, Kept::Nowhere))
    }
}
