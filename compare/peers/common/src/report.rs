//! The line of JSON that a peer prints.

use crate::{Args, BLOCK_NAP, BLOCKERS, BURST_NAP};
use std::fmt::Write;
use std::time::Duration;

/// The result of a workload: operations, time, and additional figures.
#[derive(Debug)]
pub struct Report {
    ops: u64,
    time: Duration,
    extra: Vec<(&'static str, f64)>,
}

impl Report {
    /// `ops` operations in `time`.
    pub fn new(ops: u64, time: Duration) -> Report {
        Report { ops, time, extra: Vec::new() }
    }

    /// Adds a figure under a name from the driver's table of workloads.
    pub fn with(mut self, name: &'static str, value: f64) -> Report {
        self.extra.push((name, value));
        self
    }

    /// The report of `parked`: `n` goroutines that took `bytes` in total while they were parked.
    pub fn parked(n: u64, spawned: Duration, woken: Duration, bytes: u64) -> Report {
        let each = |total: f64| total / n as f64;
        Report::new(n, spawned + woken)
            .with("bytes_each", each(bytes as f64))
            .with("spawn_ns", each(spawned.as_nanos() as f64))
            .with("wake_ns", each(woken.as_nanos() as f64))
    }

    /// The report of `blocking`. The ideal ratio is 1: every goroutine waits only for its own `naps`.
    pub fn blocking(naps: u64, time: Duration) -> Report {
        let ideal = BLOCK_NAP * naps as u32;
        Report::new(BLOCKERS * naps, time).with("ideal_ratio", time.as_secs_f64() / ideal.as_secs_f64())
    }

    /// The report of `blocking_burst`: `n` calls at once took `time`, and the sleeper beside them was `late`.
    pub fn blocking_burst(n: u64, time: Duration, late: Duration) -> Report {
        Report::new(n, time)
            .with("ideal_ratio", time.as_secs_f64() / BURST_NAP.as_secs_f64())
            .with("late_max_ns", late.as_nanos() as f64)
    }

    /// The line, without its newline.
    pub fn to_json(&self, peer: &str, args: &Args) -> String {
        let mut line = format!(
            r#"{{"workload":"{}","peer":"{peer}","procs":{},"ops":{},"ns":{}"#,
            args.workload,
            args.procs,
            self.ops,
            self.time.as_nanos()
        );
        for (name, value) in &self.extra {
            write!(line, r#","{name}":{value}"#).expect("writing to a String cannot fail");
        }
        line.push('}');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_fixed_fields_first_and_the_extra_ones_after() {
        let args = Args { workload: "parked".into(), procs: 2, size: None, variant: None };
        let report = Report::new(10, Duration::from_nanos(50)).with("bytes_each", 512.5);
        assert_eq!(
            report.to_json("std", &args),
            r#"{"workload":"parked","peer":"std","procs":2,"ops":10,"ns":50,"bytes_each":512.5}"#
        );
    }
}
