//! How many CPUs this process may use: what GOMAXPROCS defaults to.
//!
//! Two things limit it. The affinity mask says on which CPUs threads may run (`taskset`, cpusets; the kernel
//! already leaves out CPUs that are offline). CPU quotas of control groups ([`super::cgroup`]) say how much
//! CPU time they may use on average. The default is the smaller of the two, at least 1.
//!
//! A quota of 2.5 CPUs gives 3 Ps. Rounded down, the half CPU that was paid for could never be used;
//! rounded up, the process can be throttled, but only if all Ps are busy all the time. Go argues the same
//! way (go#76835); it also never goes below 2, because its garbage collector wants a second P. gort has
//! none, so a quota of 1 is one P.
//!
//! Both limits may change while the process runs: [`QuotaWatch`] looks again when asked. It is meant for
//! sysmon, which must not wait for a lock that a preempted goroutine holds: `poll` allocates nothing.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use super::cgroup::{self, CpuGroup, Reading};

/// The most Ps there can be.
pub(crate) const MAX_PROCS: usize = 1024;

/// What limits the use of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuLimits {
    /// CPUs that the calling thread, and those it starts, may run on.
    pub(crate) affinity: usize,
    /// The tightest quota, if there is any.
    pub(crate) quota: Option<Quota>,
}

/// A limit on average CPU use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    /// In CPUs: 1.5 is 150 ms of CPU time in 100 ms.
    pub(crate) limit: f64,
    /// The directory of the group that sets it: the process's own or one above.
    pub(crate) set_by: PathBuf,
}

/// The limits as they are now.
pub(crate) fn read() -> CpuLimits {
    QuotaWatch::new().limits()
}

/// What GOMAXPROCS is unless somebody says otherwise.
pub(crate) fn default_procs(limits: &CpuLimits) -> usize {
    procs(limits.affinity, limits.quota.as_ref().map(|quota| quota.limit))
}

fn procs(affinity: usize, quota: Option<f64>) -> usize {
    // The conversion saturates, so a quota of any size is fine.
    let quota = quota.map_or(usize::MAX, |limit| limit.ceil() as usize);
    affinity.min(quota).clamp(1, MAX_PROCS)
}

/// Follows the limits as they change. Making one finds the control groups (and allocates); looking again is
/// a few short system calls.
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
        // First the membership, then the groups: a move in between shows as a move later on.
        let membership = Membership::read(root);
        let groups = cgroup::cpu_groups(root).into_iter().map(|group| (group, None)).collect();
        let mut watch = QuotaWatch { groups, affinity, procs: 0, membership };
        watch.update(affinity);
        watch
    }

    /// Looks again. Returns the new default if it is another one than before. Allocates nothing.
    ///
    /// The affinity is the calling thread's: call it from a thread that nobody pins.
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

    /// Whether the process has been moved to other groups: then this watch looks at the wrong ones, and only a
    /// new one helps. Allocates nothing, but older kernels take a lock that creating and removing any control
    /// group on the machine holds, so this may wait: ask where that does not hurt.
    pub(crate) fn moved(&mut self) -> bool {
        self.membership.changed()
    }

    /// What the last look saw.
    pub(crate) fn limits(&self) -> CpuLimits {
        let quota = self.tightest().map(|(group, limit)| Quota { limit, set_by: group.dir().to_owned() });
        CpuLimits { affinity: self.affinity, quota }
    }

    /// The default that goes with [`limits`](Self::limits).
    pub(crate) fn default_procs(&self) -> usize {
        self.procs
    }

    /// The innermost of the groups with the lowest limit.
    fn tightest(&self) -> Option<(&CpuGroup, f64)> {
        let limits = self.groups.iter().filter_map(|(group, limit)| Some((group, (*limit)?)));
        limits.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// The text of `/proc/self/cgroup`, to notice when it becomes another one.
#[derive(Debug)]
struct Membership {
    file: Option<CString>,
    text: Vec<u8>,
    /// One byte longer than the text, so that a longer one is noticed.
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
            // It cannot be seen any more; a new watch would know less than this one.
            Err(_) => false,
        }
    }
}

/// The number of CPUs in the calling thread's affinity mask. `None` if the kernel does not tell.
fn affinity() -> Option<usize> {
    // The kernel refuses a mask that is shorter than its own; this is room for 65,536 CPUs.
    let mut mask = [0u64; 1024];
    // SAFETY: the kernel writes at most the given number of bytes; 0 is the calling thread.
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
