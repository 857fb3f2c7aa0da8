//! Turns samples into figures: computes medians and ratios, and checks whether the targets are met.

use crate::invoke::{Failure, Sample};
use crate::peers::Peer;
use crate::rounds::{Measured, Row};
use crate::stats::{Summary, show};
use crate::workloads::{Metric, Of, Target, Workload};

/// One metric of one workload for all peers.
pub struct Figure {
    pub workload: &'static Workload,
    pub metric: &'static Metric,
    pub procs: usize,
    pub rows: Vec<FigureRow>,
}

/// One peer's part of a figure.
pub struct FigureRow {
    pub peer: &'static Peer,
    pub size: u64,
    /// The values that the summary is computed from.
    pub values: Vec<f64>,
    pub summary: Summary,
    /// How many of the values were measured while other processes used the cores.
    pub disturbed: usize,
    /// The median as a multiple of Go's, and the lower quartile of Go's.
    pub to_go: Option<f64>,
    pub to_go_q1: Option<f64>,
    pub verdicts: Vec<Verdict>,
}

/// A target and the value that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub target: Target,
    /// The value that the target limits; `None` if the value that it is compared with was not measured.
    pub reached: Option<f64>,
    /// The same, of lower quartiles.
    pub reached_q1: Option<f64>,
}

/// A value this close to its target, as a share of the target, may be on the other side in the next run.
const NARROW: f64 = 0.05;

impl Verdict {
    /// Whether the target is met; `None` if that is unknown.
    pub fn met(&self) -> Option<bool> {
        self.reached.map(|value| value <= self.target.at_most)
    }

    /// Whether the outcome is within the noise: close to the target, or another one by lower quartiles.
    pub fn is_narrow(&self) -> bool {
        let (Some(median), Some(q1)) = (self.reached, self.reached_q1) else { return false };
        let limit = self.target.at_most;
        (median - limit).abs() <= NARROW * limit || (median <= limit) != (q1 <= limit)
    }
}

/// All figures, in the order of the workloads.
pub fn figures(all: &[Measured]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for measured in all {
        for (i, metric) in measured.workload.metrics.iter().enumerate() {
            let rows = measured.rows.iter().filter_map(|row| figure_row(row, i)).collect();
            figures.push(Figure { workload: measured.workload, metric, procs: measured.procs, rows });
        }
    }
    judge(&mut figures);
    figures
}

fn figure_row(row: &Row, metric: usize) -> Option<FigureRow> {
    let counted = counted(&row.samples);
    let values: Vec<f64> = counted.iter().map(|s| s.values[metric]).collect();
    Some(FigureRow {
        peer: row.peer,
        size: row.size,
        summary: Summary::of(&values)?,
        values,
        disturbed: counted.iter().filter(|s| s.disturbed()).count(),
        to_go: None,
        to_go_q1: None,
        verdicts: Vec::new(),
    })
}

/// The undisturbed samples, if they are at least half of all; otherwise all samples.
fn counted(samples: &[Sample]) -> Vec<&Sample> {
    let calm: Vec<&Sample> = samples.iter().filter(|s| !s.disturbed()).collect();
    if calm.len() * 2 >= samples.len() { calm } else { samples.iter().collect() }
}

/// Fills in ratios and verdicts, which need the medians of other rows.
fn judge(figures: &mut [Figure]) {
    let summary = |figures: &[Figure], id: &str, label: &str, peer: &str| {
        let figure = figures.iter().find(|f| f.workload.id == id && f.metric.label == label)?;
        figure.rows.iter().find(|r| r.peer.name == peer).map(|r| r.summary)
    };
    let (median, q1): (fn(Summary) -> f64, fn(Summary) -> f64) = (|s| s.median, |s| s.q1);
    for f in 0..figures.len() {
        let (id, label) = (figures[f].workload.id, figures[f].metric.label);
        for r in 0..figures[f].rows.len() {
            let (peer, own) = (figures[f].rows[r].peer.name, figures[f].rows[r].summary);
            let reached = |of, part: fn(Summary) -> f64| match of {
                Of::Absolute => Some(part(own)),
                Of::Peer(other) => Some(part(own) / part(summary(figures, id, label, other)?)),
                Of::Own(other) => Some(part(own) / part(summary(figures, other, label, peer)?)),
            };
            let mine = figures[f].metric.targets.iter().filter(|t| t.peer == peer);
            let verdict = |&target: &Target| Verdict {
                target,
                reached: reached(target.of, median),
                reached_q1: reached(target.of, q1),
            };
            let verdicts = mine.map(verdict).collect();
            // If Go's median is 0, there is no ratio.
            let to_go = reached(Of::Peer("go"), median).filter(|ratio| ratio.is_finite());
            let to_go_q1 = reached(Of::Peer("go"), q1).filter(|ratio| ratio.is_finite());
            let row = &mut figures[f].rows[r];
            (row.to_go, row.to_go_q1, row.verdicts) = (to_go, to_go_q1, verdicts);
        }
    }
}

/// Which peers did not take part in which workloads, and why. Workloads with the same peer and reason share a
/// line.
pub fn absences(all: &[Measured]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for measured in all {
        for row in &measured.rows {
            let Some(failure) = &row.failure else { continue };
            let why = match failure {
                Failure::Cannot(why) => format!("{} skipped: {why}", row.peer.name),
                Failure::Broke(why) => {
                    format!("{} FAILED after {} good runs: {why}", row.peer.name, row.samples.len())
                }
            };
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, ids)) => ids.push(measured.workload.id),
                None => reasons.push((why, vec![measured.workload.id])),
            }
        }
    }
    reasons.into_iter().map(|(why, ids)| format!("{why} ({})", ids.join(", "))).collect()
}

/// Whether any peer crashed, hung, or printed something that cannot be parsed.
pub fn any_broke(all: &[Measured]) -> bool {
    all.iter().flat_map(|m| &m.rows).any(|r| matches!(r.failure, Some(Failure::Broke(_))))
}

/// A workload's medians on one line, for the progress output.
pub fn one_line(measured: &Measured) -> String {
    let mut line = format!("{:<17}", measured.workload.id);
    for row in &measured.rows {
        let Some(first) = figure_row(row, 0) else { continue };
        let value = show(first.summary.median, measured.workload.metrics[0].unit);
        line.push_str(&format!(" {} {value},", row.peer.name));
    }
    line.pop();
    line
}

/// The numbers of targets that are met, not met, and without a value.
pub fn tally(figures: &[Figure]) -> (usize, usize, usize) {
    let (mut met, mut missed) = (0, 0);
    for verdict in figures.iter().flat_map(|f| &f.rows).flat_map(|r| &r.verdicts) {
        match verdict.met() {
            Some(true) => met += 1,
            Some(false) => missed += 1,
            None => {}
        }
    }
    let all: usize = figures.iter().map(|f| f.metric.targets.len()).sum();
    (met, missed, all - met - missed)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::peers::PEERS;
    use crate::workloads;
    use std::time::Duration;

    /// A measurement made up for tests: for each peer its values of the first metric.
    pub fn made_up(id: &str, peers: &[(&str, &[f64])]) -> Measured {
        let workload = workloads::all().find(|w| w.id == id).unwrap();
        let rows = peers.iter().map(|(name, values)| Row {
            peer: PEERS.iter().find(|p| p.name == *name).unwrap(),
            size: 1000,
            samples: values.iter().map(|&v| sample(vec![v; workload.metrics.len()], 0.0)).collect(),
            failure: None,
        });
        Measured { workload, procs: 2, rows: rows.collect() }
    }

    fn sample(values: Vec<f64>, others: f64) -> Sample {
        Sample { values, others, slowness: 0.0, wall: Duration::ZERO }
    }

    #[test]
    fn ratios_are_of_medians_and_targets_are_judged_by_them() {
        let all = [made_up("yield-1", &[("gort", &[30.0, 31.0, 90.0]), ("go", &[100.0, 99.0, 101.0])])];
        let figures = figures(&all);
        let gort = &figures[0].rows[0];
        assert_eq!(gort.to_go, Some(0.31));
        assert_eq!(gort.verdicts.len(), 2);
        assert_eq!((gort.verdicts[0].met(), gort.verdicts[1].met()), (Some(true), None), "tokio did not run");
        assert_eq!(figures[0].rows[1].to_go, Some(1.0));
        assert_eq!(tally(&figures), (1, 0, 3));
    }

    #[test]
    fn a_target_may_compare_with_the_peers_own_figure_elsewhere() {
        let all =
            [made_up("scale-yield-2", &[("gort", &[10.0])]), made_up("scale-yield-64", &[("gort", &[25.0])])];
        let figures = figures(&all);
        assert_eq!(figures[1].rows[0].verdicts[0].reached, Some(2.5));
        assert_eq!(figures[1].rows[0].verdicts[0].met(), Some(false));
    }

    #[test]
    fn a_target_is_narrow_if_it_is_close_or_lower_quartiles_disagree() {
        let narrow = |gort: &[f64], go: &[f64]| {
            figures(&[made_up("yield-1", &[("gort", gort), ("go", go)])])[0].rows[0].verdicts[0].is_narrow()
        };
        assert!(!narrow(&[30.0; 3], &[100.0; 3]), "0.30 of 0.35");
        assert!(narrow(&[34.0; 3], &[100.0; 3]), "0.34 of 0.35");
        assert!(narrow(&[20.0, 20.0, 40.0, 40.0, 40.0], &[100.0; 5]), "0.40 by medians, 0.20 by quartiles");
        assert!(!narrow(&[40.0; 3], &[100.0; 3]), "0.40 of 0.35");
    }

    #[test]
    fn an_absolute_target_needs_nobody_else() {
        let all = [made_up("parked", &[("gort", &[5500.0]), ("gort-shared", &[4700.0])])];
        let figures = figures(&all);
        assert_eq!(figures[0].rows[0].verdicts[0].met(), Some(true));
        assert_eq!(figures[0].rows[1].verdicts[0].met(), Some(false));
    }

    #[test]
    fn disturbed_samples_count_only_if_most_are() {
        let (calm, noisy) = (sample(vec![1.0], 0.0), sample(vec![9.0], 0.5));
        assert_eq!(counted(&[calm.clone(), noisy.clone()]).len(), 1);
        assert_eq!(counted(&[calm, noisy.clone(), noisy]).len(), 3);
    }

    #[test]
    fn a_peer_without_samples_has_no_row_but_a_reason() {
        let mut all =
            [made_up("yield-1", &[("gort", &[]), ("go", &[1.0])]), made_up("yield-all", &[("gort", &[])])];
        all[0].rows[0].failure = Some(Failure::Cannot("not built".into()));
        all[1].rows[0].failure = Some(Failure::Cannot("not built".into()));
        assert_eq!(figures(&all)[0].rows.len(), 1);
        assert_eq!(absences(&all), ["gort skipped: not built (yield-1, yield-all)"]);
        assert!(!any_broke(&all));
        all[0].rows[0].failure = Some(Failure::Broke("crashed".into()));
        assert!(any_broke(&all));
    }

    #[test]
    fn one_line_shows_each_peers_median() {
        let all = made_up("yield-1", &[("gort", &[30.0]), ("go", &[100.0])]);
        assert_eq!(one_line(&all), "yield-1           gort 30.0 ns, go 100 ns");
    }
}
