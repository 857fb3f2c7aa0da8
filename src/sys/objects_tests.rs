use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};

use super::*;
use crate::sys::process;

fn of(objects: &[Object], address: usize) -> &Object {
    objects.iter().find(|object| object.has_code(address)).unwrap()
}

#[test]
fn the_program_and_libc_are_found() {
    let objects = all();
    let own = of(&objects, all as *const () as usize);
    assert_eq!(own, &objects[0]);
    assert_eq!(own.path, std::env::current_exe().unwrap());
    assert!(own.unwind_index.is_some());
    let libc = of(&objects, process::definition(c"malloc"));
    assert!(libc.path.to_string_lossy().contains("libc"), "{libc:?}");
    assert!(libc.build_id.len() >= 16, "{libc:?}");
    let memory = memory().unwrap();
    assert!(objects.iter().all(|object| object.is_loaded(&memory)));
}

/// Where the objects' code and unwind tables are, as the loader says.
fn of_loader() -> BTreeSet<(Vec<usize>, Option<usize>)> {
    type Found = BTreeSet<(Vec<usize>, Option<usize>)>;
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid record, and `data` is the set below.
        let (base, headers, found) = unsafe {
            let info = &*info;
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            (info.dlpi_addr as usize, headers, &mut *data.cast::<Found>())
        };
        let place = |header: &libc::Elf64_Phdr| base + header.p_vaddr as usize;
        let is_code = |h: &&libc::Elf64_Phdr| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0;
        let code = headers.iter().filter(is_code).map(|header| place(header) & !(PAGE - 1)).collect();
        found.insert((code, headers.iter().find(|h| h.p_type == libc::PT_GNU_EH_FRAME).map(place)));
        0
    }
    let mut found = Found::new();
    // SAFETY: the callback has the right type, and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

#[test]
fn the_objects_are_those_of_the_loader_although_files_are_mapped_to_be_read() {
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: a new mapping.
    let mapped = unsafe {
        libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, descriptor, 0)
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    // Other tests may load a library meanwhile.
    let same = || {
        let start = |object: &Object| object.code.iter().map(|code| code.addresses.start).collect();
        let own: BTreeSet<_> =
            all().iter().map(|o| (start(o), o.unwind_index.as_ref().map(|index| index.start))).collect();
        own == of_loader()
    };
    assert!((0..10).any(|_| same()), "{:x?} {:x?}", all(), of_loader());
    // SAFETY: nobody uses it.
    unsafe { libc::munmap(mapped, length) };
}

#[test]
fn a_library_that_was_closed_is_not_there_any_more() {
    // Nothing else in this process uses it.
    const LIBRARY: &std::ffi::CStr = c"libBrokenLocale.so.1";
    let find = || all().into_iter().find(|object| object.path.to_string_lossy().contains("libBrokenLocale"));
    // SAFETY: it has no constructors.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return; // not every system has it
    }
    let object = find().unwrap();
    let memory = memory().unwrap();
    assert!(object.is_loaded(&memory));
    // SAFETY: it was opened above.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
    assert!(!object.is_loaded(&memory));
    assert!(find().is_none());
}
