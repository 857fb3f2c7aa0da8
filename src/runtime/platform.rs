//! `gort::runtime::platform`: what this machine, kernel and libc offer, and how gort uses it.

use std::fmt;

use crate::sys::facts::{Facts, HugePages, Limit, Overcommit};

/// What this machine, kernel and libc offer, and how gort uses it. `gort doctor` prints it.
///
/// ```
/// println!("{}", gort::runtime::platform());
/// ```
#[derive(Clone, Debug)]
pub struct Platform(Facts);

/// One fact that [`platform`] found out.
///
/// ```
/// for finding in gort::runtime::platform().findings() {
///     println!("{}: {}: {}", finding.name, finding.value, finding.meaning);
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    pub value: String,
    /// What gort does about it.
    pub meaning: String,
    /// How well gort works with it.
    pub grade: Grade,
}

/// How well gort works with a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, but slower or with fewer goroutines than elsewhere.
    Reduced,
    /// Goroutines with private thread-locals are not possible here.
    Missing,
}

/// Examines this machine. Takes about a millisecond.
pub fn platform() -> Platform {
    Platform(Facts::read())
}

impl Platform {
    /// All facts that were found out.
    pub fn findings(&self) -> Vec<Finding> {
        let facts = &self.0;
        vec![
            kernel(facts),
            guards(facts),
            thread_pointer(facts),
            glibc(facts),
            cpus(facts),
            quota(facts),
            good("NUMA nodes", facts.numa_nodes.to_string(), "processors steal from near ones first"),
            mappings(facts),
            open_files(facts),
            user_threads(facts),
            thread_ids("kernel.pid_max", facts.pid_max),
            thread_ids("kernel.threads-max", facts.threads_max),
            huge_pages(facts),
            overcommit(facts),
        ]
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.findings();
        findings.iter().try_for_each(|Finding { name, value, meaning, .. }| {
            writeln!(f, "{name:<18} {value:<28} {meaning}")
        })
    }
}

fn finding(name: &'static str, value: String, grade: Grade, meaning: impl Into<String>) -> Finding {
    Finding { name, value, meaning: meaning.into(), grade }
}

fn good(name: &'static str, value: String, meaning: impl Into<String>) -> Finding {
    finding(name, value, Grade::Good, meaning)
}

/// `Good` if the machine has it.
fn grade(has: bool) -> Grade {
    if has { Grade::Good } else { Grade::Reduced }
}

fn kernel(facts: &Facts) -> Finding {
    let release = facts.kernel.as_ref().map_or_else(unknown, |kernel| kernel.release.clone());
    let exact = facts.kernel.as_ref().is_some_and(|kernel| kernel.version >= (5, 11));
    let meaning = if exact {
        "timers are exact to the microsecond"
    } else {
        "older than 5.11: timers are exact to the millisecond"
    };
    finding("kernel", release, grade(exact), meaning)
}

fn guards(facts: &Facts) -> Finding {
    let light = facts.guard_install == Some(true);
    let meaning = if light {
        "guard pages of stacks need no mappings: millions of goroutines"
    } else {
        "guard pages by mprotect (Linux 6.13 is better): vm.max_map_count limits the number of goroutines"
    };
    finding("MADV_GUARD_INSTALL", yes_no(facts.guard_install), grade(light), meaning)
}

fn thread_pointer(facts: &Facts) -> Finding {
    let fast = facts.fsgsbase == Some(true);
    let meaning = if fast {
        "thread pointers are switched by an instruction (wrfsbase)"
    } else {
        "thread pointers are switched by a system call: switches are slower"
    };
    finding("FSGSBASE", yes_no(facts.fsgsbase), grade(fast), meaning)
}

fn glibc(facts: &Facts) -> Finding {
    let version = facts.glibc.clone().unwrap_or_else(unknown);
    match crate::tls::self_check_result() {
        Ok(()) => good("glibc", version, "its layout was found: goroutines have private thread-locals"),
        Err(missing) => {
            finding("glibc", version, Grade::Missing, format!("no private thread-locals: {missing}"))
        }
    }
}

fn cpus(facts: &Facts) -> Finding {
    let value = format!("{} online, {} usable", facts.cpus_online, facts.limits.affinity);
    good("CPUs", value, format!("GOMAXPROCS is {} unless you set it", facts.default_procs))
}

fn quota(facts: &Facts) -> Finding {
    match &facts.limits.quota {
        Some(quota) => good(
            "cgroup CPU quota",
            format!("{:.2} CPUs", quota.limit),
            format!(
                "set by {}: GOMAXPROCS is at most the quota, rounded up, and follows it",
                quota.set_by.display()
            ),
        ),
        None => good("cgroup CPU quota", "none".to_string(), "GOMAXPROCS follows if one is set later"),
    }
}

fn mappings(facts: &Facts) -> Finding {
    let light = facts.guard_install == Some(true);
    let meaning = match facts.max_map_count {
        _ if light => "does not limit goroutines: many stacks share one mapping".to_string(),
        Some(count) => {
            format!(
                "about {} goroutines at once, beyond that spawn fails; sysctl can raise it",
                count / 16 * 15 / 2
            )
        }
        None => "limits the number of goroutines".to_string(),
    };
    finding("vm.max_map_count", number(facts.max_map_count), grade(light), meaning)
}

/// A limit of open files below this is graded as reduced: a server may need more.
const FEW_FILES: u64 = 4096;

fn open_files(facts: &Facts) -> Finding {
    let enough = facts.open_files.is_none_or(|limit| limit.soft.is_none_or(|soft| soft >= FEW_FILES));
    let meaning = if enough {
        "at the limit, accept waits until a descriptor is free"
    } else {
        "few connections: at the limit, accept waits until a descriptor is free; ulimit -n can raise it"
    };
    finding("open files", limit(facts.open_files), grade(enough), meaning)
}

fn user_threads(facts: &Facts) -> Finding {
    good(
        "user's threads",
        limit(facts.user_threads),
        "one for each goroutine in a blocking call; at the limit, goroutines wait for a thread",
    )
}

fn thread_ids(name: &'static str, value: Option<u64>) -> Finding {
    good(name, number(value), "limits the threads of the machine; gort uses 10,000 at most unless told")
}

fn huge_pages(facts: &Facts) -> Finding {
    let mode = facts.huge_pages.map_or_else(unknown, |mode| {
        match mode {
            HugePages::Always => "always",
            HugePages::Madvise => "where asked for",
            HugePages::Never => "never",
        }
        .to_string()
    });
    good("huge pages", mode, "stacks are excluded from them: a stack uses what it touches")
}

fn overcommit(facts: &Facts) -> Finding {
    let mode = facts.overcommit.map_or_else(unknown, |mode| {
        match mode {
            Overcommit::Heuristic => "heuristic",
            Overcommit::Always => "always",
            Overcommit::Never => "never",
        }
        .to_string()
    });
    let lenient = facts.overcommit != Some(Overcommit::Never);
    let meaning = if lenient {
        "stacks count only with the pages that were touched"
    } else {
        "each goroutine counts with its whole stack size against the limit"
    };
    finding("vm.overcommit", mode, grade(lenient), meaning)
}

fn unknown() -> String {
    "unknown".to_string()
}

fn yes_no(value: Option<bool>) -> String {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
    .to_string()
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(unknown, |n| n.to_string())
}

fn limit(value: Option<Limit>) -> String {
    let text = |n: Option<u64>| n.map_or_else(|| "unlimited".to_string(), |n| n.to_string());
    match value {
        None => unknown(),
        Some(limit) if limit.soft == limit.hard => text(limit.soft),
        Some(limit) => format!("{} (at most {})", text(limit.soft), text(limit.hard)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_a_value_and_a_meaning() {
        let findings = platform().findings();
        assert!(findings.len() >= 13, "{findings:#?}");
        assert!(findings.iter().all(|f| !f.value.is_empty() && f.meaning.len() > 20), "{findings:#?}");
    }

    #[test]
    fn goroutines_are_safe_where_the_tests_run() {
        assert!(platform().findings().iter().all(|f| f.grade != Grade::Missing));
    }
}
