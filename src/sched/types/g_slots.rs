//! Making a G in a slot, and iterating over all Gs.

use super::g::G;
use crate::stack::slab::{self, NewSlot};
use crate::stack::slot::{HEADER, Slot};

// The stack layer finds the `Slot` at the end of the header.
const _: () =
    assert!(size_of::<G>() == HEADER && std::mem::offset_of!(G, slot) + size_of::<Slot>() == HEADER);

impl G {
    /// Writes a G into a new slot.
    pub(crate) fn make(slot: &NewSlot) -> &'static G {
        let g = slot.header() as *mut G;
        // SAFETY: the header lies in the slot, is aligned, belongs to the caller alone, and stays a G
        // forever.
        unsafe {
            g.write(G::new(slot.end_of_header()));
            &*g
        }
    }

    /// The G of a slot.
    #[inline]
    pub(crate) fn of_slot(slot: &'static Slot) -> &'static G {
        // SAFETY: a slot that was made lies at the end of a G, which is never unmapped.
        unsafe { &*(slot.header() as *const G) }
    }

    /// Calls `f` for every G there is, in any state. Slots that are just being made are left out.
    pub(crate) fn for_each(mut f: impl FnMut(&'static G)) {
        slab::all_slots(|slot| {
            f(G::of_slot(slot));
            true
        });
    }

    /// As [`for_each`](G::for_each), but stops when `f` returns false. True: `f` never did.
    pub(crate) fn all(mut f: impl FnMut(&'static G) -> bool) -> bool {
        slab::all_slots(|slot| f(G::of_slot(slot)))
    }
}
