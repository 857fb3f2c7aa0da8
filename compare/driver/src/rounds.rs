//! Runs the workloads in rounds. In each round every peer runs once, in a random order.
//!
//! All peers run a workload within seconds of each other, so that other load on the machine affects all of
//! them alike. A run during which other processes used the cores, or before or after which the machine was
//! slow (`probe.rs`), is repeated, until the repeats for the whole comparison are used up. Of all attempts,
//! the least disturbed one counts.

use crate::cli::Choice;
use crate::invoke::{Failure, Sample, invoke};
use crate::peers::{Built, Peer};
use crate::progress::Progress;
use crate::workloads::{Procs, Workload};

/// How often one run is attempted at most.
const ATTEMPTS: usize = 3;

/// All measurements of one workload.
pub struct Measured {
    pub workload: &'static Workload,
    pub procs: usize,
    pub rows: Vec<Row>,
}

/// All samples of one peer.
pub struct Row {
    pub peer: &'static Peer,
    pub size: u64,
    pub samples: Vec<Sample>,
    /// Why the peer stopped early, or never started.
    pub failure: Option<Failure>,
}

/// Runs all chosen workloads on all chosen peers.
pub fn run(choice: &Choice, built: &Built) -> Vec<Measured> {
    let mut all: Vec<Measured> = choice.workloads.iter().map(|w| plan(w, choice, built)).collect();
    let runs: usize = all.iter().map(|m| m.rows.iter().filter(|r| r.failure.is_none()).count()).sum();
    let allowed = runs * choice.rounds / 2;
    let mut repeats = allowed;
    let mut progress = Progress::new(runs * choice.rounds);
    for measured in &mut all {
        for round in 0..choice.rounds {
            let mut order: Vec<usize> = (0..measured.rows.len()).collect();
            fastrand::shuffle(&mut order);
            for i in order {
                let (workload, procs) = (measured.workload, measured.procs);
                let row = &mut measured.rows[i];
                if row.failure.is_some() {
                    continue;
                }
                progress.starts(workload.id, row.peer.name);
                let program = built[row.peer.program].as_ref().expect("rows of unbuilt programs have failed");
                let once = || invoke(&program.path, row.peer, workload, procs, row.size);
                match undisturbed(&mut repeats, once) {
                    Ok(sample) => {
                        progress.ends(sample.wall);
                        row.samples.push(sample);
                    }
                    Err(failure) => {
                        progress.gives_up(choice.rounds - round);
                        row.failure = Some(failure);
                    }
                }
            }
        }
        progress.says(measured);
    }
    progress.finish();
    if repeats < allowed {
        eprintln!(
            "{} runs were disturbed by other load, or made while the machine was slow, and repeated",
            allowed - repeats
        );
    }
    all
}

fn plan(workload: &'static Workload, choice: &Choice, built: &Built) -> Measured {
    let procs = match workload.procs {
        Procs::Just(n) => n,
        Procs::All => choice.procs,
    };
    let row = |peer: &&'static Peer| Row {
        peer,
        size: workload.size_for(peer.listed_as(), choice.quick),
        samples: Vec::new(),
        failure: built[peer.program].as_ref().err().map(|why| Failure::Cannot(why.clone())),
    };
    let rows = choice.peers.iter().filter(|p| workload.peers.contains(&p.listed_as())).map(row).collect();
    Measured { workload, procs, rows }
}

/// Calls `once` until a run is undisturbed or no attempts are left, and returns the least disturbed sample.
fn undisturbed(
    repeats: &mut usize,
    mut once: impl FnMut() -> Result<Sample, Failure>,
) -> Result<Sample, Failure> {
    let mut best = once()?;
    for _ in 1..ATTEMPTS {
        if !best.disturbed() || *repeats == 0 {
            break;
        }
        *repeats -= 1;
        let again = once()?;
        if again.disturbance() < best.disturbance() {
            best = again;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(value: f64, others: f64) -> Result<Sample, Failure> {
        Ok(Sample { values: vec![value], others, slowness: 0.0, wall: Duration::ZERO })
    }

    fn value(from: Result<Sample, Failure>) -> f64 {
        from.unwrap().values[0]
    }

    #[test]
    fn a_calm_run_is_not_repeated() {
        let mut repeats = 5;
        assert_eq!(value(undisturbed(&mut repeats, || sample(1.0, 0.0))), 1.0);
        assert_eq!(repeats, 5);
    }

    #[test]
    fn a_disturbed_run_is_repeated_and_the_calmest_counts() {
        let mut runs = [sample(1.0, 0.5), sample(2.0, 0.3), sample(3.0, 0.4)].into_iter();
        let mut repeats = 5;
        assert_eq!(value(undisturbed(&mut repeats, || runs.next().unwrap())), 2.0);
        assert_eq!(repeats, 3);
    }

    #[test]
    fn without_repeats_left_the_first_run_counts() {
        let mut repeats = 0;
        assert_eq!(value(undisturbed(&mut repeats, || sample(1.0, 0.9))), 1.0);
    }

    #[test]
    fn a_failure_is_not_repeated() {
        let mut calls = 0;
        let failed = undisturbed(&mut 5, || {
            calls += 1;
            Err(Failure::Broke("crashed".into()))
        });
        assert_eq!((failed.unwrap_err(), calls), (Failure::Broke("crashed".into()), 1));
    }
}
