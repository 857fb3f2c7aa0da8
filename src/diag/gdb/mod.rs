//! gdb shows goroutines: `info goroutines`, `goroutine N bt`. The work is done by `gort-gdb.py`, a script
//! that runs inside gdb. It is part of every program that uses gort, in the section `.debug_gdb_scripts`,
//! where gdb looks for scripts when it loads the program.
//!
//! The script reads the memory of a process, which may be stopped anywhere, or of a core file. It does not
//! rely on debug information, which release builds have little or none of. Instead `gort_debugger` says where
//! everything is: it is a table of names and values (offsets of fields, addresses, names of states) that the
//! compiler fills. The script finds it by its symbol.
//!
//! - The offsets come from the files that own the structs (`FOR_DEBUGGERS`).
//! - The layout of `Location` is std's and private: the table has a sample of one with what is in it, and the
//!   script searches the sample for these values.
//! - The layout of `Option<Arc<str>>` (a goroutine's name) is taken as address and length, behind two counts.
//!   A unit test below checks that.

use std::panic::Location;
use std::ptr;

use crate::arch;
use crate::sched::machine::SCHED;
use crate::sched::types::{g, m};
use crate::sched::word::status::{Status, WaitReason};
use crate::stack::slab;

/// The script. Its interface to this file: the names of the table.
const SCRIPT: &[u8] = include_bytes!("gort-gdb.py");

/// How gdb wants it: the kind of the entry (a Python script as text), a name, the script, a zero.
const ENTRY: [&[u8]; 3] = [b"\x04gort-gdb.py\n", SCRIPT, b"\0"];

const fn entry_length() -> usize {
    ENTRY[0].len() + ENTRY[1].len() + ENTRY[2].len()
}

const fn entry() -> [u8; entry_length()] {
    let mut bytes = [0; entry_length()];
    let (mut at, mut part) = (0, 0);
    while part < ENTRY.len() {
        let mut index = 0;
        while index < ENTRY[part].len() {
            bytes[at] = ENTRY[part][index];
            (at, index) = (at + 1, index + 1);
        }
        part += 1;
    }
    bytes
}

// SAFETY: only gdb reads the section, and the bytes are what it expects there.
#[unsafe(link_section = ".debug_gdb_scripts")]
#[used]
static IN_SECTION: [u8; entry_length()] = entry();

/// A name and a value: an offset, a number or an address.
#[repr(C)]
struct Entry {
    name: *const u8,
    length: usize,
    value: *const (),
}

/// A text that an entry of the table points to.
#[repr(C)]
struct Text {
    start: *const u8,
    length: usize,
}

/// Everything here is constant.
#[repr(transparent)]
struct Constant<T>(T);
// SAFETY: nobody writes to it, and the addresses in it are only data.
unsafe impl<T> Sync for Constant<T> {}

const fn text(text: &'static str) -> Text {
    Text { start: text.as_ptr(), length: text.len() }
}

static STATUSES: Constant<[Text; Status::COUNT]> = Constant({
    let mut names = [const { text("") }; Status::COUNT];
    let mut number = 0;
    while number < names.len() {
        names[number] = text(Status::from_u8(number as u8).name());
        number += 1;
    }
    names
});

static WAIT_REASONS: Constant<[Text; WaitReason::COUNT]> = Constant({
    let mut names = [const { text("") }; WaitReason::COUNT];
    let mut number = 0;
    while number < names.len() {
        names[number] = text(WaitReason::from_u8(number as u8).name());
        number += 1;
    }
    names
});

static SITE: Location<'static> = *Location::caller();

/// The script understands tables with this number. It changes when a value changes its meaning.
const VERSION: usize = 1;

const OWN: [(&str, *const ()); 11] = [
    ("version", ptr::without_provenance(VERSION)),
    ("status names", (&raw const STATUSES).cast()),
    ("status count", ptr::without_provenance(Status::COUNT)),
    ("wait reason names", (&raw const WAIT_REASONS).cast()),
    ("wait reason count", ptr::without_provenance(WaitReason::COUNT)),
    ("coarse clock", (&raw const SCHED.platform.coarse_clock).cast()),
    ("site", (&raw const SITE).cast()),
    ("site file", SITE.file().as_ptr().cast()),
    ("site file length", ptr::without_provenance(SITE.file().len())),
    ("site line", ptr::without_provenance(SITE.line() as usize)),
    ("site column", ptr::without_provenance(SITE.column() as usize)),
];

const PARTS: [&[(&str, *const ())]; 5] =
    [&OWN, &slab::FOR_DEBUGGERS, &g::FOR_DEBUGGERS, &m::FOR_DEBUGGERS, &arch::FOR_DEBUGGERS];

const fn count() -> usize {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
}

/// The table; an entry without a name ends it.
// SAFETY: no other library defines a symbol of this name.
#[unsafe(no_mangle)]
#[used]
#[allow(non_upper_case_globals, reason = "a symbol, as a debugger sees it")]
static gort_debugger: Constant<[Entry; count() + 1]> = Constant({
    let mut table = [const { Entry { name: ptr::null(), length: 0, value: ptr::null() } }; count() + 1];
    let (mut at, mut part) = (0, 0);
    while part < PARTS.len() {
        let mut index = 0;
        while index < PARTS[part].len() {
            let (name, value) = PARTS[part][index];
            table[at] = Entry { name: name.as_ptr(), length: name.len(), value };
            (at, index) = (at + 1, index + 1);
        }
        part += 1;
    }
    table
});

/// Called at boot, so that the linker finds the table and the script in use and keeps them.
pub(super) fn keep() {
    std::hint::black_box((&raw const gort_debugger, &raw const IN_SECTION));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn names_in_the_table_are_unique() {
        let mut names: Vec<_> = PARTS.iter().flat_map(|part| part.iter()).map(|(name, _)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!((all, all), (names.len(), count()));
        assert!(gort_debugger.0[count()].name.is_null());
    }

    #[test]
    fn the_script_uses_only_names_that_the_table_has_and_all_of_them() {
        let script = str::from_utf8(SCRIPT).unwrap();
        let used = |name: &str| script.contains(&format!("\"{name}\""));
        let unused: Vec<_> =
            PARTS.iter().flat_map(|part| part.iter()).filter(|(name, _)| !used(name)).collect();
        assert!(unused.is_empty(), "not in the script: {unused:?}");
        let known = |name: &str| PARTS.iter().any(|part| part.iter().any(|entry| entry.0 == name));
        for use_of in script.split("table[\"").skip(1) {
            let name = use_of.split('"').next().unwrap();
            assert!(known(name), "not in the table: {name}");
        }
    }

    #[test]
    fn the_section_holds_one_entry() {
        assert_eq!((IN_SECTION[0], IN_SECTION[IN_SECTION.len() - 1]), (4, 0));
        assert!(!SCRIPT.contains(&0), "a zero would end the script");
    }

    #[test]
    fn a_name_is_an_address_and_a_length_behind_two_counts() {
        let name: Option<Arc<str>> = Some("a name".into());
        assert_eq!(size_of_val(&name), 16);
        // SAFETY: 16 bytes without padding: no other size fits a pointer to a str.
        let [start, length] = unsafe { *(&raw const name).cast::<[usize; 2]>() };
        assert_eq!((start + 16, length), (name.as_deref().unwrap().as_ptr() as usize, 6));
        let nobody: Option<Arc<str>> = None;
        // SAFETY: the first word, of which the niche of `None` makes a null pointer.
        assert_eq!(unsafe { *(&raw const nobody).cast::<usize>() }, 0);
    }

    #[test]
    fn the_sample_of_a_site_has_its_parts_once_each() {
        // SAFETY: reads the words of a `Location`, which has no padding that matters here.
        let words: [u32; size_of::<Location<'static>>() / 4] = unsafe { std::mem::transmute_copy(&SITE) };
        assert_eq!(words.iter().filter(|&&word| word == SITE.line()).count(), 1);
        assert_eq!(words.iter().filter(|&&word| word == SITE.column()).count(), 1);
        assert_ne!(SITE.line(), SITE.column());
    }
}
