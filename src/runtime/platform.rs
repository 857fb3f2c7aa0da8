//! What this machine offers, and what gort makes of it.

use std::fmt;

use crate::sys::facts::{Facts, HugePages, Limit, Overcommit};

/// What this machine, kernel and libc offer, one line each, with what gort does about it. `gort doctor` prints it.
///
/// ```
/// println!("{}", gort::runtime::platform());
/// ```
#[derive(Clone, Debug)]
pub struct Platform(Facts);

/// Looks at this machine. Takes a millisecond or so.
pub fn platform() -> Platform {
    Platform(Facts::read())
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &self.0;
        let mut line =
            |name: &str, value: String, meaning: &str| writeln!(f, "{name:<18} {value:<28} {meaning}");
        let unknown = || "unknown".to_string();
        let kernel = facts.kernel.as_ref();
        let release = kernel.map_or_else(unknown, |k| k.release.clone());
        let new_enough = kernel.is_some_and(|k| k.version >= (5, 11));
        line(
            "kernel",
            release,
            if new_enough {
                "timers are exact to the microsecond"
            } else {
                "older than 5.11: timers are exact to the ms"
            },
        )?;
        line(
            "guard pages",
            yes_no(facts.guard_install),
            match facts.guard_install {
                Some(true) => "MADV_GUARD_INSTALL: stacks need no mappings of their own",
                _ => "by mprotect: vm.max_map_count limits the number of goroutines",
            },
        )?;
        line(
            "wrfsbase",
            yes_no(facts.fsgsbase),
            match facts.fsgsbase {
                Some(true) => "thread pointers are switched by an instruction",
                _ => "thread pointers are switched by a system call: switches are slower",
            },
        )?;
        line(
            "glibc",
            facts.glibc.clone().unwrap_or_else(unknown),
            &match crate::tls::self_check_result() {
                Ok(()) => "layout found: goroutines have private thread-locals".to_string(),
                Err(missing) => format!("no private thread-locals: {missing}"),
            },
        )?;
        let quota = match &facts.limits.quota {
            Some(quota) => format!("quota {:.2} set by {}", quota.limit, quota.set_by.display()),
            None => "no quota".to_string(),
        };
        line(
            "CPUs",
            format!("{} online, {} usable", facts.cpus_online, facts.limits.affinity),
            &format!("{quota}: GOMAXPROCS is {} by default", facts.default_procs),
        )?;
        line("NUMA nodes", facts.numa_nodes.to_string(), "near processors are stolen from first")?;
        line("vm.max_map_count", number(facts.max_map_count), "mappings of the process")?;
        line("open files", limit(facts.open_files), "connections of the process")?;
        line("user's threads", limit(facts.user_threads), "goroutines in blocking calls need one each")?;
        line("kernel.pid_max", number(facts.pid_max), "threads of the machine")?;
        line("threads-max", number(facts.threads_max), "threads of the machine")?;
        line(
            "huge pages",
            facts.huge_pages.map_or_else(unknown, |mode| {
                match mode {
                    HugePages::Always => "always",
                    HugePages::Madvise => "where asked for",
                    HugePages::Never => "never",
                }
                .to_string()
            }),
            "stacks are excluded from them",
        )?;
        line(
            "overcommit",
            facts.overcommit.map_or_else(unknown, |mode| {
                match mode {
                    Overcommit::Heuristic => "heuristic",
                    Overcommit::Always => "always",
                    Overcommit::Never => "never",
                }
                .to_string()
            }),
            match facts.overcommit {
                Some(Overcommit::Never) => {
                    "each goroutine counts with its whole stack size against the limit"
                }
                _ => "stacks count only with the pages that were touched",
            },
        )
    }
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
    value.map_or_else(|| "unknown".to_string(), |n| n.to_string())
}

fn limit(value: Option<Limit>) -> String {
    match value {
        None => "unknown".to_string(),
        Some(limit) => {
            let text = |n: Option<u64>| n.map_or_else(|| "unlimited".to_string(), |n| n.to_string());
            format!("{} (hard limit {})", text(limit.soft), text(limit.hard))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_line_has_a_value_and_a_meaning() {
        let text = super::platform().to_string();
        assert!(text.lines().count() >= 13, "{text}");
        assert!(text.lines().all(|line| line.len() > 48), "{text}");
    }
}
