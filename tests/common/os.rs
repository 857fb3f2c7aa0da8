//! What the kernel says about this process, its limits, and temporary paths.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}

/// The ids of all threads of this process.
pub(crate) fn threads() -> HashSet<i32> {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The CPU time that this process has used.
pub(crate) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A field of /proc/self/status that is a number of kB, for example `VmRSS`, in bytes.
pub(crate) fn status_bytes(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

/// Sets the soft limit of a resource and leaves the hard one.
#[track_caller]
pub(crate) fn set_soft_limit(resource: libc::__rlimit_resource_t, soft: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes and reads one rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &raw mut limit), 0);
        limit.rlim_cur = soft;
        assert_eq!(libc::setrlimit(resource, &raw const limit), 0);
    }
}

/// A directory that only this test uses. The drop removes it and what is in it.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gort-test-{}-{n}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _nothing_to_be_done = std::fs::remove_dir_all(&self.0);
    }
}

/// Bounds of the calling goroutine's or thread's stack, its start and size, as the C library reports them.
pub(crate) fn stack_bounds() -> (usize, usize) {
    // SAFETY: queries about the running thread; the attributes are destroyed again.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
        let (mut address, mut size) = (std::ptr::null_mut(), 0);
        assert_eq!(libc::pthread_attr_getstack(&attributes, &mut address, &mut size), 0);
        libc::pthread_attr_destroy(&mut attributes);
        (address.addr(), size)
    }
}
