//! Collects what this machine, kernel and libc offer: the data for answering "why does gort not …".
//!
//! Each field is found independently. One that cannot be found is `None`; nothing here fails. The facts are
//! read on demand, never on a path whose speed matters.

use std::ffi::{CStr, c_char};
use std::path::Path;

use super::cpus::{self, CpuLimits};
use super::mem;
use super::topology::{self, Topology};

/// What the machine, the kernel and libc offer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    pub(crate) kernel: Option<Kernel>,
    /// Whether guard pages need no mapping of their own (`MADV_GUARD_INSTALL`). Found by trying it.
    pub(crate) guard_install: Option<bool>,
    /// Whether user code may switch the thread pointer with `wrfsbase`. `None` if the architecture has no
    /// such instruction.
    pub(crate) fsgsbase: Option<bool>,
    /// The version of glibc; `None` for another libc.
    pub(crate) glibc: Option<String>,
    /// The number of online CPUs of the machine.
    pub(crate) cpus_online: usize,
    /// How much of them this process may use.
    pub(crate) limits: CpuLimits,
    /// The default for GOMAXPROCS under these limits.
    pub(crate) default_procs: usize,
    /// The number of NUMA nodes that have CPUs.
    pub(crate) numa_nodes: usize,
    /// `vm.max_map_count`: the number of mappings that a process may have.
    pub(crate) max_map_count: Option<u64>,
    /// `RLIMIT_NOFILE`: the number of file descriptors that the process may have.
    pub(crate) open_files: Option<Limit>,
    /// `RLIMIT_NPROC`: the number of threads that the user may have.
    pub(crate) user_threads: Option<Limit>,
    /// `kernel.pid_max`: the number of thread ids on the machine.
    pub(crate) pid_max: Option<u64>,
    /// `kernel.threads-max`: the number of threads that the machine may have.
    pub(crate) threads_max: Option<u64>,
    /// When the kernel uses transparent huge pages, which could inflate stacks.
    pub(crate) huge_pages: Option<HugePages>,
    /// `vm.overcommit_memory`: whether address space may be reserved without memory behind it.
    pub(crate) overcommit: Option<Overcommit>,
}

impl Facts {
    /// Collects the facts about this machine.
    pub(crate) fn read() -> Facts {
        let root = Path::new("/");
        let limits = cpus::read();
        Facts {
            kernel: read_kernel(),
            guard_install: try_guard_install(),
            fsgsbase: crate::arch::thread_pointer_is_fast(),
            glibc: read_glibc(),
            cpus_online: topology::online_cpus(root),
            default_procs: cpus::default_procs(&limits),
            limits,
            numa_nodes: Topology::read().nodes().len(),
            max_map_count: number_in(root, "proc/sys/vm/max_map_count"),
            open_files: read_limit(libc::RLIMIT_NOFILE),
            user_threads: read_limit(libc::RLIMIT_NPROC),
            pid_max: number_in(root, "proc/sys/kernel/pid_max"),
            threads_max: number_in(root, "proc/sys/kernel/threads-max"),
            huge_pages: text_in(root, "sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|t| HugePages::parse(&t)),
            overcommit: text_in(root, "proc/sys/vm/overcommit_memory").and_then(|t| Overcommit::parse(&t)),
        }
    }
}

/// The kernel's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// As `uname -r` prints it.
    pub(crate) release: String,
    /// The first two numbers of the release.
    pub(crate) version: (u32, u32),
}

impl Kernel {
    fn parse(release: &str) -> Option<Kernel> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let version = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(Kernel { release: release.to_owned(), version })
    }
}

/// A resource limit; `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) soft: Option<u64>,
    pub(crate) hard: Option<u64>,
}

/// When the kernel backs memory with huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugePages {
    Always,
    /// Only where a program asks for them with `madvise`.
    Madvise,
    Never,
}

impl HugePages {
    /// Parses the choice in brackets: `always [madvise] never`.
    fn parse(text: &str) -> Option<HugePages> {
        let (_, rest) = text.split_once('[')?;
        match rest.split_once(']')?.0 {
            "always" => Some(HugePages::Always),
            "madvise" => Some(HugePages::Madvise),
            "never" => Some(HugePages::Never),
            _ => None,
        }
    }
}

/// How much more memory the kernel may promise than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overcommit {
    /// 0: it refuses only obvious excess.
    Heuristic,
    /// 1: it promises anything.
    Always,
    /// 2: it promises no more than a fixed limit, even with `MAP_NORESERVE`.
    Never,
}

impl Overcommit {
    fn parse(text: &str) -> Option<Overcommit> {
        match text.trim() {
            "0" => Some(Overcommit::Heuristic),
            "1" => Some(Overcommit::Always),
            "2" => Some(Overcommit::Never),
            _ => None,
        }
    }
}

fn text_in(root: &Path, file: &str) -> Option<String> {
    std::fs::read_to_string(root.join(file)).ok()
}

fn number_in(root: &Path, file: &str) -> Option<u64> {
    text_in(root, file)?.trim().parse().ok()
}

fn read_kernel() -> Option<Kernel> {
    // SAFETY: the struct is plain bytes, for which zeros are valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills a struct on this stack.
    if unsafe { libc::uname(&mut name) } != 0 {
        return None;
    }
    // Cast to bytes, because it depends on the architecture whether `c_char` is signed.
    let bytes = name.release.map(|c: c_char| c as u8);
    Kernel::parse(CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?)
}

/// Tries to install a guard in a newly mapped page. `None` if no page can be mapped.
fn try_guard_install() -> Option<bool> {
    let len = 4096;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: only the mapping just made is affected, and no other code has its address.
    let result = unsafe { libc::madvise(page, len, mem::MADV_GUARD_INSTALL as libc::c_int) };
    // SAFETY: as for `madvise`.
    unsafe { libc::munmap(page, len) };
    Some(result == 0)
}

#[cfg(target_env = "gnu")]
fn read_glibc() -> Option<String> {
    // SAFETY: returns a constant, NUL-terminated string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_str().ok().map(str::to_owned)
}

#[cfg(not(target_env = "gnu"))]
fn read_glibc() -> Option<String> {
    None
}

/// The type of the resource constants, which differs between libcs.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn read_limit(resource: Resource) -> Option<Limit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills a struct on this stack.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0).then(|| Limit { soft: finite(limit.rlim_cur), hard: finite(limit.rlim_max) })
}

fn finite(value: libc::rlim_t) -> Option<u64> {
    (value != libc::RLIM_INFINITY).then_some(value)
}

#[cfg(test)]
mod tests;
