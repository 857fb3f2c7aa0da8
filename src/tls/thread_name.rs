//! Gives the std `Thread` of a goroutine the goroutine's name.
//!
//! In a goroutine std makes a `Thread` of its own at the first call of `std::thread::current`, as for any
//! thread that it has not started: without a name. Panic messages show that name. std has no function that
//! sets it, so the name is written to its place in the new `Thread`, before anything else knows that
//! `Thread`.
//!
//! The place is not assumed, but found at start-up ([`learn`]): in a `Thread` that std has named itself, it
//! is where the address of the name is followed by its length. Then a name is written to a `Thread` without
//! one, on a block made for that, and must be read back by std ([`check`]). Where any of this is different,
//! goroutines stay unnamed for std.
//!
//! - N1. `Thread` is one pointer, to the two counts of an `Arc` and then the fields. The fields have at least
//!   [`FIELDS`] words: a name (two words), an id, and a word for parking.
//! - N2. std keeps a name as a `CString`: a box with as many bytes as the second word says. A name that was
//!   not given is a null address. So std frees what is written here as its own.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread, ThreadId};

/// The words of an `Arc` before its value.
const COUNTS: usize = 2;
/// The words of a `Thread` that are looked at (N1).
const FIELDS: usize = 2 + size_of::<ThreadId>() / size_of::<usize>();

/// The index of the name's address among the words; 0 if it is unknown.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// The words of a `Thread`, if it is one pointer.
fn words(thread: &Thread) -> Option<*mut usize> {
    if size_of::<Thread>() != size_of::<usize>() {
        return None;
    }
    // SAFETY: as large as a word, and without padding: a pointer (N1).
    let address: usize = unsafe { std::mem::transmute_copy(thread) };
    (address != 0 && address.is_multiple_of(align_of::<usize>())).then_some(address as *mut usize)
}

/// Finds the place. The calling thread has a name.
pub(super) fn learn() {
    let thread = thread::current();
    let (Some(words), Some(name)) = (words(&thread), thread.name()) else { return };
    let expected = (name.as_ptr() as usize, name.len() + 1);
    // SAFETY: N1: the words lie in the `Thread`, which nobody changes.
    let pair = |index: usize| unsafe { (*words.add(index), *words.add(index + 1)) };
    let mut places = (COUNTS..COUNTS + FIELDS - 1).filter(|&index| pair(index) == expected);
    if let (Some(place), None) = (places.next(), places.next()) {
        PLACE.store(place, Ordering::Relaxed);
    }
}

/// Tries the place on a block that no other code has used. The result says whether std reads the name.
pub(super) fn check() {
    const NAME: &str = "gort-check-name";
    set(NAME);
    if thread::current().name() != Some(NAME) {
        PLACE.store(0, Ordering::Relaxed);
    }
}

/// Gives the calling goroutine's `Thread` a name, if it has none yet and the place is known. The caller runs
/// on a private block.
pub(crate) fn set(name: &str) {
    let place = PLACE.load(Ordering::Relaxed);
    if place == 0 {
        return;
    }
    // A name with a NUL is none for std.
    let Ok(name) = CString::new(name) else { return };
    let thread = thread::current();
    let Some(words) = words(&thread).filter(|_| thread.name().is_none()) else { return };
    let length = name.as_bytes_with_nul().len();
    // SAFETY: the place was found in such a `Thread`. Only this goroutine knows this one, which it has just
    // made and holds no reference into. There is no name (null), so nothing is overwritten, and from now on
    // the box belongs to the `Thread` (N2).
    unsafe {
        if *words.add(place) == 0 {
            words.add(place + 1).write(length);
            words.add(place).write(name.into_raw() as usize);
        }
    }
}
