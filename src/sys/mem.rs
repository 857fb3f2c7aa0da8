//! Memory from the kernel: reserved address space, guard pages, giving pages back.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::syscall::{returned, syscall6};

pub(crate) const PAGE: usize = 4096;

/// Linux 6.13 and newer: a page that faults, without a mapping of its own.
const MADV_GUARD_INSTALL: usize = 102;

static GUARD_BY_MPROTECT: AtomicBool = AtomicBool::new(false);

/// Reserves zeroed memory that costs nothing until it is touched.
pub(crate) fn reserve(size: usize) -> io::Result<usize> {
    // SAFETY: a new anonymous mapping at a place the kernel chooses.
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
    // A huge page would make every stack in it resident. Old kernels without the option need no telling.
    // SAFETY: advice on our own mapping.
    unsafe { syscall6(libc::SYS_madvise, start, size, libc::MADV_NOHUGEPAGE as usize, 0, 0, 0) };
    Ok(start)
}

/// Unmaps what [`reserve`] mapped.
///
/// # Safety
/// Nobody uses the memory any more.
pub(crate) unsafe fn release(start: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { syscall6(libc::SYS_munmap, start, size, 0, 0, 0, 0) };
}

/// Makes any access to `[start, start + size)` fault.
///
/// # Safety
/// Nobody uses that memory.
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

/// As [`guard`], of many places with one call; false where the kernel cannot, or did not do all.
///
/// # Safety
/// Nobody uses that memory.
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
    // SAFETY: the caller's promise; so many addresses and lengths are there.
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

/// How many places [`guard_all`] takes.
pub(crate) const MOST_AT_ONCE: usize = 16;

/// Linux 6.14 and newer: the process itself, without a descriptor.
const PIDFD_SELF: isize = -10001;

/// Guards by mprotect so far.
static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// How many guards by mprotect there may be: each splits a mapping into two more, and the allocator, threads and
/// libraries need some of those that the kernel allows. A process without any can do nothing but end.
fn most_guards() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let limit: Option<usize> = text.ok().and_then(|text| text.trim().parse().ok());
        limit.map_or(usize::MAX, |limit| limit.saturating_sub((limit / 16).max(1_000)) / 2)
    })
}

/// Whether guards cost a mapping each (a kernel before 6.13), which `vm.max_map_count` limits.
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
/// Nobody needs what is in them.
pub(crate) unsafe fn discard(start: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { syscall6(libc::SYS_madvise, start, size, libc::MADV_DONTNEED as usize, 0, 0, 0) };
}

/// Says which limit the kernel ran into.
fn explain(error: io::Error, size: usize) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let limit = if guards_cost_mappings() {
        "the number of memory mappings is limited by the sysctl vm.max_map_count (guard pages need one mapping \
         each on this kernel; Linux 6.13 and newer need none)"
    } else {
        "check the address-space limit (ulimit -v), the sysctl vm.overcommit_memory, and the memory limit of \
         the cgroup"
    };
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!("the kernel refused {} KiB for goroutine stacks: {limit}", size >> 10),
    )
}

/// Lets the C library's allocator give unused pages back to the system. Takes its locks for some milliseconds.
#[cfg(feature = "http")]
pub(crate) fn trim_heap() {
    // SAFETY: no preconditions.
    unsafe { libc::malloc_trim(0) };
}
