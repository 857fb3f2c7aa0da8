//! Facts on which the figures depend: the machine, the versions and the date.

use crate::cli::Choice;
use crate::load;
use crate::peers::Built;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names and values, for the head of the Markdown and the JSON file.
pub struct Facts(pub Vec<(&'static str, String)>);

impl Facts {
    /// Collects the facts before the run starts.
    pub fn collect(home: &Path, choice: &Choice, built: &Built, wrk: Option<String>) -> Facts {
        let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
        let mut versions: Vec<&str> = built.values().flatten().map(|p| p.version.as_str()).collect();
        versions.extend(wrk.as_deref());
        versions.sort_unstable();
        let kind = if choice.quick { "quick: small sizes, not for figures" } else { "full" };
        Facts(vec![
            ("date", said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"], home)),
            ("commit", commit(home)),
            ("CPU", cpu_model(&read("/proc/cpuinfo"))),
            ("cores", cores.to_string()),
            ("memory", memory(&read("/proc/meminfo"))),
            ("kernel", read("/proc/sys/kernel/osrelease")),
            ("load before the run", format!("{:.2}", load::average())),
            (
                "run",
                format!("{kind}; {} rounds, P = {} where all cores are used", choice.rounds, choice.procs),
            ),
            ("versions", versions.join(", ")),
        ])
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_string()
}

fn said_by(program: &str, args: &[&str], home: &Path) -> String {
    let output = Command::new(program).args(args).current_dir(home).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default()
}

fn commit(home: &Path) -> String {
    let commit = said_by("git", &["rev-parse", "--short=12", "HEAD"], home);
    match (commit.is_empty(), said_by("git", &["status", "--porcelain"], home).is_empty()) {
        (true, _) => "not in a git repository".into(),
        (false, true) => commit,
        (false, false) => format!("{commit} with changes"),
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|l| l.starts_with("model name"));
    line.and_then(|l| l.split_once(": ")).map_or("unknown", |(_, model)| model).to_string()
}

fn memory(meminfo: &str) -> String {
    let kb =
        meminfo.lines().next().and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse::<f64>().ok());
    kb.map_or("unknown".into(), |kb| format!("{:.1} GiB", kb / 1024.0 / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_files_are_read() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n"), "Some CPU @ 3 GHz");
        assert_eq!(cpu_model(""), "unknown");
        assert_eq!(memory("MemTotal:       25165824 kB\nMemFree: 1 kB"), "24.0 GiB");
        assert_eq!(memory(""), "unknown");
    }
}
