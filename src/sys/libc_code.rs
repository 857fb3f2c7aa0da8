//! Where the code of the C library is: of libc itself, of the dynamic loader, and of the library that
//! defines `malloc`, if that is another one. A goroutine that a signal finds in there may be in the middle
//! of something that belongs to its thread, such as malloc's cache.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::process;

/// Start and end of each executable segment; unused ones are empty.
static SEGMENTS: [(AtomicUsize, AtomicUsize); 8] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 8];

/// How many of them, the first ones, are the loader's.
static OF_LOADER: AtomicUsize = AtomicUsize::new(0);

/// All segments have been found.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// The library that defines malloc is libc itself.
static HAS_MALLOC: AtomicBool = AtomicBool::new(false);

/// What [`init`] looks for: the loader by its address, the others by an address inside.
struct Wanted {
    loader: usize,
    libc: usize,
    malloc: usize,
    of_loader: Vec<Range<usize>>,
    segments: Vec<Range<usize>>,
}

/// Finds the code. Called once, at start-up; takes the loader's lock.
pub(crate) fn init() {
    // SAFETY: getauxval only reads.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    let libc = process::definition(c"gnu_get_libc_version");
    let malloc = process::definition(c"malloc");
    let mut wanted = Wanted { loader, libc, malloc, of_loader: Vec::new(), segments: Vec::new() };
    // SAFETY: the callback has the right type, and `wanted` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut wanted).cast()) };
    let of_loader = wanted.of_loader.len();
    let segments: Vec<Range<usize>> = wanted.of_loader.into_iter().chain(wanted.segments).collect();
    let has = |address: usize| segments.iter().any(|segment| segment.contains(&address));
    let all_found = loader != 0 && of_loader != 0 && has(wanted.libc) && has(wanted.malloc);
    if !all_found || segments.len() > SEGMENTS.len() {
        return; // a statically linked program, or not glibc
    }
    for ((start, end), segment) in SEGMENTS.iter().zip(&segments) {
        start.store(segment.start, Ordering::Relaxed);
        end.store(segment.end, Ordering::Relaxed);
    }
    OF_LOADER.store(of_loader, Ordering::Relaxed);
    // Release pairs with the acquire in `is_known`.
    KNOWN.store(true, Ordering::Release);
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid record whose headers stay mapped, and `data` is the caller's.
    let (info, wanted, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (info, &mut *data.cast::<Wanted>(), headers)
    };
    let base = info.dlpi_addr as usize;
    let is_code = |h: &&libc::Elf64_Phdr| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0;
    let segments = headers.iter().filter(is_code).map(|h| {
        let start = base + h.p_vaddr as usize;
        start..start + h.p_memsz as usize
    });
    let has = |address: usize| segments.clone().any(|segment: Range<usize>| segment.contains(&address));
    if has(wanted.libc) && has(wanted.malloc) {
        HAS_MALLOC.store(true, Ordering::Relaxed);
    }
    if base == wanted.loader {
        wanted.of_loader.extend(segments);
    } else if has(wanted.libc) || has(wanted.malloc) {
        wanted.segments.extend(segments);
    }
    0
}

/// Whether [`init`] has found the code.
pub(crate) fn is_known() -> bool {
    // Acquire pairs with the release in `init`.
    KNOWN.load(Ordering::Acquire)
}

/// Whether the program's `malloc` is libc's own.
pub(crate) fn has_malloc() -> bool {
    is_known() && HAS_MALLOC.load(Ordering::Relaxed)
}

/// Whether the instruction at `pc` may belong to the C library. Safe in a signal handler.
pub(crate) fn may_contain(pc: usize) -> bool {
    !is_known() || is_in(&SEGMENTS, pc)
}

/// Whether `address` lies in the code of the dynamic loader. Safe in a signal handler.
pub(crate) fn is_of_loader(address: usize) -> bool {
    is_known() && is_in(&SEGMENTS[..OF_LOADER.load(Ordering::Relaxed)], address)
}

fn is_in(segments: &[(AtomicUsize, AtomicUsize)], address: usize) -> bool {
    segments
        .iter()
        .any(|(start, end)| (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_libc_and_of_the_loader_is_found_and_the_programs_is_not_among_it() {
        init();
        assert!(is_known());
        for name in [c"malloc", c"memcpy", c"qsort", c"__tls_get_addr", c"dlopen"] {
            assert!(may_contain(process::definition(name)), "{name:?}");
        }
        assert!(!may_contain(init as *const () as usize));
        assert!(!may_contain(process::definition(c"_Unwind_RaiseException")));
        assert!(is_of_loader(process::definition(c"__tls_get_addr")));
        assert!(!is_of_loader(process::definition(c"malloc")));
    }
}
