//! Fetching the next goroutine's memory into the cache while the current one still runs. Thousands of goroutines do not
//! fit there: each switch to a cold one costs a dozen misses in a row, unless they have begun before.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ptr;

use super::g::G;
use super::m::M;
use super::section;
use crate::tls;

/// The line at `offset` bytes from `g`.
#[inline(always)]
fn line(g: *const G, offset: isize) {
    // SAFETY: a prefetch has no effect on the program, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(g.cast::<i8>().wrapping_offset(offset)) };
}

/// `g` will run soon on `m`, and its head was asked for before: the rest of it, where its stack is in use, and of its
/// thread-locals the one by which it finds itself and, if it comes from another thread, the thread id. (The others are needed
/// when it ends, if at all: they only push out what is.)
#[inline(always)]
pub(crate) fn to_be_run(g: *const G, m: &M) {
    line(g, 64);
    // SAFETY: Gs are never unmapped. If somebody else has it by now, what is fetched is not needed.
    let (tp, context, last_m) = unsafe { ((*g).tp.get(), (*g).context.get(), (*g).peek_m()) };
    if tp != 0 {
        head(section::current_in(tp));
        if !last_m.is_some_and(|last| ptr::eq(last, m)) {
            head(tls::block::tid_in(tp));
        }
    }
    let depth = (g as isize - context as isize).clamp(64, 64 * DEEPEST);
    for line_number in 0..DEEPEST {
        let offset = depth - 64 * line_number;
        if offset < 0 {
            break;
        }
        line(g, -offset);
    }
}

/// So many lines of a stack are asked for.
const DEEPEST: isize = 12;

/// Something at that address will be touched soon: a goroutine, or a timer.
#[inline(always)]
pub(crate) fn head(address: usize) {
    line(address as *const G, 0);
}

/// `g` is the next dead slot that will be filled with a new goroutine.
#[inline(always)]
pub(crate) fn to_be_filled(g: *const G) {
    for offset in [0, 64, -64] {
        line(g, offset);
    }
}
