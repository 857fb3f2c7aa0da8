//! Memory from the kernel: reserving address space, guarding pages, giving pages back.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::syscall::{returned, syscall6};

pub(crate) const PAGE: usize = 4096;

/// `madvise` advice that makes pages fault on access, without a mapping of their own. Linux 6.13 and newer.
pub(super) const MADV_GUARD_INSTALL: usize = 102;

/// Guard pages are made with mprotect, because the kernel does not know MADV_GUARD_INSTALL or the user asked
/// for it.
static GUARD_BY_MPROTECT: AtomicBool = AtomicBool::new(false);

/// Reserves zeroed memory that costs nothing until it is touched.
pub(crate) fn reserve(size: usize) -> io::Result<usize> {
    // SAFETY: a new anonymous mapping, at an address that the kernel chooses, replaces no other.
    let start = returned(unsafe {
        syscall6(
            libc::SYS_mmap,
            0,
            size,
            (libc::PROT_READ | libc::PROT_WRITE) as usize,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize,
            usize::MAX,
            0,
        )
    })
    .map_err(|e| explain(e, size))?;
    // A huge page would make every stack in it resident. A failure does not matter: a kernel that does not
    // know the advice has no huge pages.
    // SAFETY: the advice concerns only the mapping made here.
    unsafe { syscall6(libc::SYS_madvise, start, size, libc::MADV_NOHUGEPAGE as usize, 0, 0, 0) };
    Ok(start)
}

/// `count` values that live as long as the process, made of zeroes. They cost nothing until they are touched.
///
/// # Safety
/// All-zero bytes are the default value of the type.
pub(crate) unsafe fn zeroed_forever<T: Sync + Default>(count: usize) -> io::Result<&'static [T]> {
    let start = reserve(count * size_of::<T>())? as *const T;
    // SAFETY: the mapping is new, zeroed, large enough, aligned to a page, and never unmapped; the caller's
    // promise.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// The address space (bytes) that the process may use; 0 if each byte of it counts as memory
/// (`vm.overcommit_memory` is 2), so that none can be kept in reserve.
pub(crate) fn address_space() -> usize {
    let strict =
        std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|text| text.trim() == "2");
    if strict {
        return 0;
    }
    let limits = [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|resource| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the kernel fills in the struct.
        unsafe { libc::getrlimit(resource, &mut limit) };
        usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
    });
    // Kernels give user code at least this much.
    limits[0].min(limits[1]).min(1 << 47)
}

/// Whether everything that is mapped costs memory at once, because `mlockall(MCL_FUTURE)` is in force.
pub(crate) fn is_populated_at_once() -> bool {
    let Ok(page) = reserve(PAGE) else { return false };
    let mut resident = 0u8;
    // SAFETY: the kernel writes one byte for one page; nobody has seen the page.
    unsafe {
        let asked = syscall6(libc::SYS_mincore, page, PAGE, &raw mut resident as usize, 0, 0, 0);
        release(page, PAGE);
        asked == 0 && resident & 1 != 0
    }
}

/// Lets the child of a fork see zeros in `[start, start + size)`. Linux 4.14 and newer.
#[cfg(feature = "transparent")]
pub(crate) fn wipe_on_fork(start: usize, size: usize) -> io::Result<()> {
    // SAFETY: changes nothing in this process.
    let result = unsafe { syscall6(libc::SYS_madvise, start, size, libc::MADV_WIPEONFORK as usize, 0, 0, 0) };
    returned(result).map(drop)
}

/// Unmaps what [`reserve`] mapped.
///
/// # Safety
/// No code uses the memory any more.
pub(crate) unsafe fn release(start: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { syscall6(libc::SYS_munmap, start, size, 0, 0, 0, 0) };
}

/// Makes any access to `[start, start + size)` fault.
///
/// # Safety
/// No code uses that memory.
pub(crate) unsafe fn guard(start: usize, size: usize) -> io::Result<()> {
    if !GUARD_BY_MPROTECT.load(Ordering::Relaxed) {
        // SAFETY: the caller's promise.
        match returned(unsafe { syscall6(libc::SYS_madvise, start, size, MADV_GUARD_INSTALL, 0, 0, 0) }) {
            Ok(_) => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                GUARD_BY_MPROTECT.store(true, Ordering::Relaxed);
            }
            Err(e) => return Err(explain(e, size)),
        }
    }
    if GUARDS.fetch_add(1, Ordering::Relaxed) >= most_guards() {
        GUARDS.fetch_sub(1, Ordering::Relaxed);
        return Err(explain(io::Error::from_raw_os_error(libc::ENOMEM), size));
    }
    // SAFETY: the caller's promise.
    returned(unsafe { syscall6(libc::SYS_mprotect, start, size, libc::PROT_NONE as usize, 0, 0, 0) })
        .map(drop)
        .map_err(|e| {
            GUARDS.fetch_sub(1, Ordering::Relaxed);
            explain(e, size)
        })
}

/// Like [`guard`], for up to [`MOST_AT_ONCE`] places with one system call. Returns false if the kernel does
/// not support that or did not guard all of them.
///
/// # Safety
/// No code uses that memory.
pub(crate) unsafe fn guard_all(starts: impl Iterator<Item = usize>, size: usize) -> bool {
    static CANNOT: AtomicBool = AtomicBool::new(false);
    if guards_cost_mappings() || CANNOT.load(Ordering::Relaxed) {
        return false;
    }
    let mut places = [[0; 2]; MOST_AT_ONCE];
    let mut count = 0;
    for (place, start) in places.iter_mut().zip(starts) {
        *place = [start, size];
        count += 1;
    }
    // SAFETY: the caller's promise; the first `count` addresses and lengths are filled in.
    let done = unsafe {
        syscall6(
            libc::SYS_process_madvise,
            PIDFD_SELF as usize,
            places.as_ptr() as usize,
            count,
            MADV_GUARD_INSTALL,
            0,
            0,
        )
    };
    let all = usize::try_from(done) == Ok(count * size);
    CANNOT.fetch_or(!all, Ordering::Relaxed);
    all
}

/// The largest number of places that one call of [`guard_all`] guards.
pub(crate) const MOST_AT_ONCE: usize = 16;

/// A pidfd number that means the calling process. Linux 6.14 and newer.
const PIDFD_SELF: isize = -10001;

/// The number of guards made with mprotect so far.
static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// The largest number of guards made with mprotect. Each adds up to two mappings, because it splits one into
/// three. Some of the mappings that the kernel allows must be left for the allocator, threads and libraries:
/// a process that can map nothing more can only end.
fn most_guards() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let limit: Option<usize> = text.ok().and_then(|text| text.trim().parse().ok());
        limit.map_or(usize::MAX, |limit| limit.saturating_sub((limit / 16).max(1_000)) / 2)
    })
}

/// Whether each guard costs mappings, which `vm.max_map_count` limits. True for kernels before 6.13.
pub(crate) fn guards_cost_mappings() -> bool {
    GUARD_BY_MPROTECT.load(Ordering::Relaxed)
}

/// Makes [`guard`] use mprotect from now on, as on a kernel before 6.13 (`GORT_GUARD=mprotect`).
pub(crate) fn guard_by_mprotect() {
    GUARD_BY_MPROTECT.store(true, Ordering::Relaxed);
}

/// Gives the pages of `[start, start + size)` back to the kernel; they read as zeroes afterwards.
///
/// # Safety
/// No code needs the contents any more.
pub(crate) unsafe fn discard(start: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { syscall6(libc::SYS_madvise, start, size, libc::MADV_DONTNEED as usize, 0, 0, 0) };
}

/// If the kernel is out of memory or mappings, adds to the error which limit to check.
fn explain(error: io::Error, size: usize) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let limit = if guards_cost_mappings() {
        "the number of memory mappings is limited by the sysctl vm.max_map_count (guard pages need one \
         mapping each on this kernel; Linux 6.13 and newer need none)"
    } else {
        "check the address-space limit (ulimit -v), the sysctl vm.overcommit_memory, and the memory limit of \
         the cgroup"
    };
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!("the kernel refused {} KiB for goroutine stacks: {limit}", size >> 10),
    )
}

/// Makes the C library's allocator give unused pages back to the kernel. It holds the allocator's locks for
/// some milliseconds.
#[cfg(feature = "http")]
pub(crate) fn trim_heap() {
    // SAFETY: no preconditions.
    unsafe { libc::malloc_trim(0) };
}
