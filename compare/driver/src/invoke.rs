//! Runs one peer once and reads its line.

use crate::load::{self, Reading};
use crate::peers::Peer;
use crate::workloads::{Field, Workload};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// No run takes longer than this unless it hangs.
const AT_MOST: Duration = Duration::from_secs(60);

/// The exit status by which a peer says that it cannot run a workload.
const CANNOT: i32 = 3;

/// Variables that would change how a peer schedules.
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
    /// The share of all cores that others took meanwhile.
    pub others: f64,
    /// How long the whole process took, for the time left.
    pub wall: Duration,
}

impl Sample {
    /// Whether others took too much.
    pub fn disturbed(&self) -> bool {
        load::disturbs(self.others)
    }
}

/// Why there is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer says that it cannot do this.
    Cannot(String),
    /// It crashed, hung, or printed nonsense.
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
    let (before, start) = (Reading::now(), Instant::now());
    let (status, out, err) = finish(command, AT_MOST)?;
    let others = Reading::now().others_since(&before);
    match status {
        Some(0) => {
            let values = read_line(&out, workload).map_err(Failure::Broke)?;
            Ok(Sample { values, others, wall: start.elapsed() })
        }
        Some(CANNOT) => Err(Failure::Cannot(gist(&err))),
        Some(code) => Err(Failure::Broke(format!("exit status {code}: {}", gist(&err)))),
        None => Err(Failure::Broke(format!("killed by a signal: {}", gist(&err)))),
    }
}

/// Waits for `command` to end: its exit status unless a signal ended it, and what it wrote.
fn finish(mut command: Command, limit: Duration) -> Result<(Option<i32>, String, String), Failure> {
    let broke = |why: String| Failure::Broke(why);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| broke(format!("cannot start: {e}")))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let err = thread::spawn(move || text(err));
    // The end of standard output is the end of the peer: waiting for it needs no polling.
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(text(out)));
    let out = match ended.recv_timeout(limit) {
        Ok(out) => out,
        Err(RecvTimeoutError::Timeout) => return Err(broke(give_up(child, limit))),
        Err(RecvTimeoutError::Disconnected) => unreachable!("the reader always sends"),
    };
    let status = child.wait().map_err(|e| broke(format!("cannot wait: {e}")))?;
    Ok((status.code(), out, err.join().unwrap_or_default()))
}

fn give_up(mut child: Child, limit: Duration) -> String {
    let killed = child.kill().and_then(|()| child.wait());
    let end = if killed.is_ok() { "killed" } else { "cannot be killed" };
    format!("not done after {} s; {end}", limit.as_secs())
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // A broken pipe ends the text; what was read until then is worth showing.
    let _ = pipe.map(|mut p| p.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The line of standard error that says most: the first that is not empty, shortened.
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
fn read_line(out: &str, workload: &Workload) -> Result<Vec<f64>, String> {
    let line: Value = serde_json::from_str(out.trim()).map_err(|e| format!("printed no JSON line: {e}"))?;
    let number = |name: &str| {
        line[name].as_f64().ok_or_else(|| format!("printed no number {name:?} in {}", out.trim()))
    };
    let read = |field| match field {
        Field::PerOp => Ok(number("ns")? / number("ops")?),
        Field::Named(name) => number(name),
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
        let yielded = read_line("{\"ops\":4,\"ns\":100}\n", workload("yield-1"));
        assert_eq!(yielded, Ok(vec![25.0]));
        let parked =
            read_line(r#"{"ops":1,"ns":9,"bytes_each":512.5,"spawn_ns":3,"wake_ns":6}"#, workload("parked"));
        assert_eq!(parked, Ok(vec![512.5, 3.0, 6.0]));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_missing() {
        assert!(read_line("hello", workload("yield-1")).unwrap_err().contains("no JSON"));
        assert!(read_line(r#"{"ops":1}"#, workload("yield-1")).unwrap_err().contains("\"ns\""));
    }

    #[test]
    fn status_and_both_outputs_are_kept_apart() {
        let (status, out, err) = finish(sh("echo out; echo err >&2; exit 3"), AT_MOST).unwrap();
        assert_eq!((status, out.as_str(), err.as_str()), (Some(3), "out\n", "err\n"));
        assert_eq!(finish(sh("kill -9 $$"), AT_MOST).unwrap().0, None);
    }

    #[test]
    fn a_peer_that_hangs_is_killed() {
        let hung = finish(sh("exec sleep 1000"), Duration::from_millis(20));
        assert!(matches!(hung, Err(Failure::Broke(why)) if why.contains("killed")));
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
