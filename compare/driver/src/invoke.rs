//! Runs one peer once and parses the line that it prints.

use crate::load::{self, Reading};
use crate::peers::{self, Peer};
use crate::probe;
use crate::workloads::{Field, Workload};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A run that takes longer than this hangs, and is killed.
const AT_MOST: Duration = Duration::from_secs(60);

/// The time between two counts of a peer's runnable threads, in workloads that ask for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The exit status of a peer that cannot run a workload.
const CANNOT: i32 = 3;

/// Environment variables that would change how a peer behaves. The driver removes them.
const SCRUBBED: [&str; 9] = [
    "GOMAXPROCS",
    "GODEBUG",
    "GOGC",
    "GOMEMLIMIT",
    "GORT_GOMAXPROCS",
    "GORT_GODEBUG",
    "TOKIO_WORKER_THREADS",
    "RUST_BACKTRACE",
    "RUST_MIN_STACK",
];

/// What a peer measured in one run.
#[derive(Clone, Debug)]
pub struct Sample {
    /// One value for each metric of the workload.
    pub values: Vec<f64>,
    /// The share of all cores that other processes took during the run.
    pub others: f64,
    /// By how much the machine was slower than at its best, right before or after the run.
    pub slowness: f64,
    /// How long the whole process took; used to estimate the time left.
    pub wall: Duration,
}

impl Sample {
    /// Whether other processes took so much, or the machine was so slow, that the sample is disturbed.
    pub fn disturbed(&self) -> bool {
        load::disturbs(self.others) || probe::is_slow(self.slowness)
    }

    /// Of two samples of the same run, the one with the smaller value is less disturbed.
    pub fn disturbance(&self) -> f64 {
        self.others + self.slowness.max(0.0)
    }
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer reports that it cannot run the workload.
    Cannot(String),
    /// The peer crashed, hung, or printed something that cannot be parsed.
    Broke(String),
}

/// Runs `program` as `peer` on `workload`.
pub fn invoke(
    program: &Path,
    peer: &Peer,
    workload: &Workload,
    procs: usize,
    size: u64,
) -> Result<Sample, Failure> {
    let mut command = Command::new(program);
    command.arg(workload.name).args(["--procs", &procs.to_string(), "--size", &size.to_string()]);
    if let Some(variant) = peer.variant {
        command.args(["--variant", variant]);
    }
    for name in SCRUBBED {
        command.env_remove(name);
    }
    if let Some(client) = peers::client() {
        command.env(peers::CLIENT_VARIABLE, client);
    }
    let probed = probe::run();
    let (before, start) = (Reading::now(), Instant::now());
    let watch = workload.metrics.iter().any(|m| m.field == Field::RunningPerP);
    let ended = finish(command, AT_MOST, watch)?;
    let (others, wall) = (Reading::now().others_since(&before), start.elapsed());
    let slowness = probe::slowness(probed, probe::run());
    match ended.status {
        Some(0) => {
            let running = ended.running.map(|threads| threads / procs as f64);
            let values = read_line(&ended.out, running, workload).map_err(Failure::Broke)?;
            Ok(Sample { values, others, slowness, wall })
        }
        Some(CANNOT) => Err(Failure::Cannot(gist(&ended.err))),
        Some(code) => Err(Failure::Broke(format!("exit status {code}: {}", gist(&ended.err)))),
        None => Err(Failure::Broke(format!("killed by a signal: {}", gist(&ended.err)))),
    }
}

/// How a peer ended.
struct Ended {
    /// The exit status; `None` if a signal ended the peer.
    status: Option<i32>,
    out: String,
    err: String,
    /// The mean number of the peer's runnable threads, if they were watched.
    running: Option<f64>,
}

/// Waits for `command` to end, and watches its threads if told to.
fn finish(mut command: Command, limit: Duration, watch: bool) -> Result<Ended, Failure> {
    let broke = |why: String| Failure::Broke(why);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| broke(format!("cannot start: {e}")))?;
    let (start, mut looks) = (Instant::now(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let err = thread::spawn(move || text(err));
    // Standard output ends when the peer ends, so waiting for that end needs no polling.
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(text(out)));
    let out = loop {
        match ended.recv_timeout(if watch { LOOK_EVERY } else { limit }) {
            Ok(out) => break out,
            Err(RecvTimeoutError::Timeout) if start.elapsed() < limit => {
                looks.extend(runnable_threads(child.id()).map(|n| n as f64));
            }
            Err(RecvTimeoutError::Timeout) => return Err(broke(give_up(child, limit))),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the reader always sends"),
        }
    };
    let status = child.wait().map_err(|e| broke(format!("cannot wait: {e}")))?;
    let running = (!looks.is_empty()).then(|| looks.iter().sum::<f64>() / looks.len() as f64);
    Ok(Ended { status: status.code(), out, err: err.join().unwrap_or_default(), running })
}

/// The number of threads of `pid` that run or wait for a core.
fn runnable_threads(pid: u32) -> Option<usize> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // A thread that ends during the count is not counted.
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    Some(stats.filter(|stat| is_runnable(stat)).count())
}

/// Whether a line of `/proc/…/stat` describes a thread in state R.
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, after)| after.trim_start().starts_with('R'))
}

fn give_up(mut child: Child, limit: Duration) -> String {
    let killed = child.kill().and_then(|()| child.wait());
    let end = if killed.is_ok() { "killed" } else { "cannot be killed" };
    format!("not done after {} s; {end}", limit.as_secs())
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // An error ends the text; the part that was read before is still worth showing.
    let _ = pipe.map(|mut p| p.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The most informative line of standard error: the first one that is not empty, shortened.
fn gist(err: &str) -> String {
    let line = err.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("it said nothing");
    // A Rust panic has its message on the second line.
    let next = err.lines().map(str::trim).skip_while(|l| *l != line).nth(1);
    let line = match next {
        Some(message) if line.contains("panicked at") => format!("{line} {message}"),
        _ => line.to_string(),
    };
    match line.char_indices().nth(200) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// The values of all metrics of `workload` from the one line of JSON.
fn read_line(out: &str, running: Option<f64>, workload: &Workload) -> Result<Vec<f64>, String> {
    let line: Value = serde_json::from_str(out.trim()).map_err(|e| format!("printed no JSON line: {e}"))?;
    let number = |name: &str| {
        line[name].as_f64().ok_or_else(|| format!("printed no number {name:?} in {}", out.trim()))
    };
    let read = |field| match field {
        Field::PerOp => Ok(number("ns")? / number("ops")?),
        Field::Named(name) => number(name),
        Field::RunningPerP => running.ok_or_else(|| "ended before its threads could be counted".into()),
    };
    workload.metrics.iter().map(|m| read(m.field)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    fn workload(id: &str) -> &'static Workload {
        workloads::all().find(|w| w.id == id).unwrap()
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_line_gives_one_value_for_each_metric() {
        let yielded = read_line("{\"ops\":4,\"ns\":100}\n", None, workload("yield-1"));
        assert_eq!(yielded, Ok(vec![25.0]));
        let parked = read_line(
            r#"{"ops":1,"ns":9,"bytes_each":512.5,"spawn_ns":3,"wake_ns":6}"#,
            None,
            workload("parked"),
        );
        assert_eq!(parked, Ok(vec![512.5, 3.0, 6.0]));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_missing() {
        assert!(read_line("hello", None, workload("yield-1")).unwrap_err().contains("no JSON"));
        assert!(read_line(r#"{"ops":1}"#, None, workload("yield-1")).unwrap_err().contains("\"ns\""));
    }

    #[test]
    fn status_and_both_outputs_are_kept_apart() {
        let ended = finish(sh("echo out; echo err >&2; exit 3"), AT_MOST, false).ok().unwrap();
        assert_eq!((ended.status, ended.out.as_str(), ended.err.as_str()), (Some(3), "out\n", "err\n"));
        assert!(ended.running.is_none());
        assert_eq!(finish(sh("kill -9 $$"), AT_MOST, false).ok().unwrap().status, None);
    }

    #[test]
    fn a_peer_that_hangs_is_killed_watched_or_not() {
        for watch in [false, true] {
            let hung = finish(sh("exec sleep 1000"), Duration::from_millis(50), watch);
            assert!(matches!(hung, Err(Failure::Broke(why)) if why.contains("killed")));
        }
    }

    #[test]
    fn a_thread_is_runnable_by_its_state_not_by_its_name() {
        assert!(is_runnable("12 (peer) R 1 12"));
        assert!(!is_runnable("12 (R) S 1 12"));
        assert!(is_runnable("12 (odd) R (name) R 1 12"));
        assert!(!is_runnable(""));
    }

    #[test]
    fn the_thread_that_asks_is_runnable() {
        assert!(runnable_threads(std::process::id()).unwrap() >= 1);
        assert_eq!(runnable_threads(u32::MAX), None);
    }

    #[test]
    fn running_threads_come_from_the_driver_and_must_be_known() {
        let line = r#"{"ops":1,"ns":1,"deviation":0.5}"#;
        assert_eq!(read_line(line, Some(1.1), workload("fairness")), Ok(vec![0.5, 1.1]));
        assert!(read_line(line, None, workload("fairness")).is_err());
    }

    #[test]
    fn gist_joins_a_panic_with_its_message() {
        assert_eq!(
            gist("\nthread 'main' panicked at a.rs:1:\nlost one\nnote"),
            "thread 'main' panicked at a.rs:1: lost one"
        );
        assert_eq!(gist("no such thing\nmore"), "no such thing");
        assert_eq!(gist(""), "it said nothing");
        assert_eq!(gist(&"é".repeat(300)).chars().count(), 201);
    }
}
