//! perf walks the stacks of goroutines as those of threads, to their first frame. Skipped where perf is
//! missing or may not measure.

#[path = "../common/mod.rs"]
mod common;

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{TempDir, child, is_child};

/// The functions of the goroutine, innermost first.
const STACK: [&str; 3] = ["perf::computes", "perf::calls", "gort_first_frame"];

#[inline(never)]
fn computes() {
    for step in 0..1_000_000_u64 {
        black_box(step);
    }
}

#[inline(never)]
fn calls(until: Instant) {
    while Instant::now() < until {
        computes();
        black_box(());
    }
}

#[test]
fn perf_walks_stacks_of_goroutines_to_their_beginning() {
    const TEST: &str = "perf_walks_stacks_of_goroutines_to_their_beginning";
    if is_child("computes") {
        let until = Instant::now() + Duration::from_secs(2);
        return gort::run(move || gort::spawn(move || calls(until)).join().unwrap());
    }
    let dir = TempDir::new();
    let file = dir.path().join("perf.data");
    let computes = child(TEST, "computes");
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "99", "--call-graph", "dwarf,16384", "-o"]);
    record.arg(&file).arg("--").arg(computes.get_program()).args(computes.get_args());
    for (name, value) in computes.get_envs() {
        match value {
            Some(value) => record.env(name, value),
            None => record.env_remove(name),
        };
    }
    let recorded = match record.output() {
        Err(error) => return println!("skipped: perf (Debian's package linux-perf): {error}"),
        Ok(recorded) => recorded,
    };
    if !recorded.status.success() {
        let says = String::from_utf8_lossy(&recorded.stderr);
        // The program itself has no reason to fail.
        assert!(!says.contains("panicked"), "{says}");
        return println!("skipped: perf may not measure here: {says}");
    }
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-F", "ip,sym", "-i"]).arg(&file);
    let shown = script.output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout);
    // A sample is a block of lines, a frame is a line with its function.
    let samples: Vec<&str> = text.split("\n\n").filter(|sample| sample.contains(STACK[0])).collect();
    let is_whole = |sample: &&&str| {
        let mut lines = sample.lines();
        STACK.iter().all(|function| lines.any(|line| line.contains(function))) && lines.next().is_none()
    };
    let whole = samples.iter().filter(is_whole).count();
    // perf copies stacks of threads that a signal or another CPU may disturb: not each has to be whole.
    assert!(
        whole > 0 && whole * 10 >= samples.len() * 9,
        "{whole} of {} samples: {}",
        samples.len(),
        samples.iter().find(|sample| !is_whole(sample)).unwrap_or(&&*text)
    );
}
