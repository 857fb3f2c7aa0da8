//! Finds out how many CPUs this process may use, which is the default for GOMAXPROCS.
//!
//! Two things limit that number. The affinity mask says on which CPUs the threads may run (`taskset`,
//! cpusets; the kernel already leaves out CPUs that are offline). The CPU quotas of control groups
//! ([`super::cgroup`]) say how much CPU time the threads may use on average. The default is the smaller of
//! the two, and at least 1.
//!
//! A quota of 2.5 CPUs gives 3 Ps. If it were rounded down, the process could never use the half CPU that was
//! paid for. Rounded up, the kernel may throttle the process, but only if all Ps are busy all the time. Go
//! argues the same way (go#76835); it also never goes below 2, because its garbage collector wants a second
//! P. gort has no garbage collector, so a quota of 1 gives one P.
//!
//! Both limits may change while the process runs. [`QuotaWatch::poll`] reads them again. It is meant for
//! sysmon, which must not wait for a lock that a preempted goroutine holds; therefore `poll` allocates
//! nothing.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use super::cgroup::{self, CpuGroup, Reading};

/// The largest number of Ps that gort supports.
pub(crate) const MAX_PROCS: usize = 1024;

/// The limits on this process's use of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuLimits {
    /// The number of CPUs on which the calling thread, and the threads that it starts, may run.
    pub(crate) affinity: usize,
    /// The tightest quota, if there is any.
    pub(crate) quota: Option<Quota>,
}

/// A limit on average CPU use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    /// The limit in CPUs: 1.5 means 150 ms of CPU time in every 100 ms.
    pub(crate) limit: f64,
    /// The directory of the group that sets it: the process's own or one above.
    pub(crate) set_by: PathBuf,
}

/// The limits as they are now.
pub(crate) fn read() -> CpuLimits {
    QuotaWatch::new().limits()
}

/// The default for GOMAXPROCS under these limits.
pub(crate) fn default_procs(limits: &CpuLimits) -> usize {
    procs(limits.affinity, limits.quota.as_ref().map(|quota| quota.limit))
}

fn procs(affinity: usize, quota: Option<f64>) -> usize {
    // The conversion saturates, so a quota of any size is fine.
    let quota = quota.map_or(usize::MAX, |limit| limit.ceil() as usize);
    affinity.min(quota).clamp(1, MAX_PROCS)
}

/// Follows the limits as they change. `new` finds the control groups, and allocates; `poll` costs a few short
/// system calls.
#[derive(Debug)]
pub(crate) struct QuotaWatch {
    groups: Vec<(CpuGroup, Option<f64>)>,
    affinity: usize,
    procs: usize,
    membership: Membership,
}

impl QuotaWatch {
    pub(crate) fn new() -> QuotaWatch {
        let root = Path::new("/");
        let affinity = affinity().unwrap_or_else(|| super::topology::online_cpus(root));
        QuotaWatch::at(root, affinity)
    }

    fn at(root: &Path, affinity: usize) -> QuotaWatch {
        // Read the membership before the groups: `moved` will then notice a move that happens in between.
        let membership = Membership::read(root);
        let groups = cgroup::cpu_groups(root).into_iter().map(|group| (group, None)).collect();
        let mut watch = QuotaWatch { groups, affinity, procs: 0, membership };
        watch.update(affinity);
        watch
    }

    /// Reads the limits again. Returns the new default number of Ps if it has changed. Allocates nothing.
    ///
    /// The affinity is that of the calling thread, so call this from a thread that the program does not pin.
    pub(crate) fn poll(&mut self) -> Option<usize> {
        let affinity = affinity().unwrap_or(self.affinity);
        self.update(affinity)
    }

    fn update(&mut self, affinity: usize) -> Option<usize> {
        self.affinity = affinity;
        for (group, limit) in &mut self.groups {
            match group.read() {
                Reading::Limit(now) => *limit = Some(now),
                Reading::Unlimited => *limit = None,
                Reading::Unknown => {}
            }
        }
        let now = procs(affinity, self.tightest().map(|(_, limit)| limit));
        let changed = now != self.procs;
        self.procs = now;
        changed.then_some(now)
    }

    /// Whether the process has been moved to other groups. If so, this watch reads the wrong groups, and the
    /// caller has to make a new one. Allocates nothing, but it may block: older kernels take a lock here that
    /// they also hold while any control group on the machine is created or removed. Call it where a wait does
    /// no harm.
    pub(crate) fn moved(&mut self) -> bool {
        self.membership.changed()
    }

    /// The limits as of the last `new` or `poll`.
    pub(crate) fn limits(&self) -> CpuLimits {
        let quota = self.tightest().map(|(group, limit)| Quota { limit, set_by: group.dir().to_owned() });
        CpuLimits { affinity: self.affinity, quota }
    }

    /// The default number of Ps under [`limits`](Self::limits).
    pub(crate) fn default_procs(&self) -> usize {
        self.procs
    }

    /// The group with the lowest limit; the innermost one if several have it.
    fn tightest(&self) -> Option<(&CpuGroup, f64)> {
        let limits = self.groups.iter().filter_map(|(group, limit)| Some((group, (*limit)?)));
        limits.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// The text of `/proc/self/cgroup`, kept to notice when it changes.
#[derive(Debug)]
struct Membership {
    file: Option<CString>,
    text: Vec<u8>,
    /// The buffer for reading the file again. It is one byte longer than `text`, so that a longer text is
    /// noticed.
    again: Vec<u8>,
}

impl Membership {
    fn read(root: &Path) -> Membership {
        let path = cgroup::membership_file(root);
        let text = std::fs::read(&path).ok();
        let file = text.as_ref().and_then(|_| cgroup::c_path(&path));
        let text = text.unwrap_or_default();
        Membership { file, again: vec![0; text.len() + 1], text }
    }

    fn changed(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        match cgroup::read_into(file, &mut self.again) {
            Ok(len) => self.again[..len] != self.text[..],
            // The file cannot be read any more, so a new watch would know less than this one.
            Err(_) => false,
        }
    }
}

/// The number of CPUs in the calling thread's affinity mask. `None` if the system call fails.
fn affinity() -> Option<usize> {
    // The kernel refuses a buffer that is shorter than its own mask. This one has room for 65,536 CPUs.
    let mut mask = [0u64; 1024];
    // SAFETY: the kernel writes at most the given number of bytes. (Thread 0 means the calling thread.)
    let len = unsafe {
        super::syscall::syscall6(
            libc::SYS_sched_getaffinity,
            0,
            size_of_val(&mask),
            mask.as_mut_ptr() as usize,
            0,
            0,
            0,
        )
    };
    let words = usize::try_from(len).ok()?.div_ceil(size_of::<u64>());
    Some(count(&mask[..words.min(mask.len())])).filter(|&cpus| cpus > 0)
}

fn count(mask: &[u64]) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

#[cfg(test)]
mod tests;
