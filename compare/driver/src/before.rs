//! The table of `--before`: this build beside another one, by the lower quartiles of interleaved runs.

use crate::results::{Figure, FigureRow};
use crate::stats::show;
use std::fmt::Write;

/// One line for each figure that both builds have: before, now, and the ratio.
pub fn text(figures: &[Figure]) -> String {
    let mut text = String::from("\nlower quartiles, before and now\n");
    for figure in figures {
        let of = |name: &str| figure.rows.iter().find(|row| row.peer.name == name);
        for row in figure.rows.iter().filter(|row| row.peer.program == "before") {
            if let Some(now) = of(row.peer.listed_as()) {
                line(&mut text, figure, row, now);
            }
        }
    }
    text
}

fn line(text: &mut String, figure: &Figure, before: &FigureRow, now: &FigureRow) {
    let variant = before.peer.variant.map(|variant| format!(" ({variant})")).unwrap_or_default();
    let label =
        if figure.metric.label.is_empty() { String::new() } else { format!(": {}", figure.metric.label) };
    let (old, new) = (before.summary.q1, now.summary.q1);
    let (unit, name) = (figure.metric.unit, format!("{}{label}{variant}", figure.workload.id));
    writeln!(text, "  {name:<42} {:>10} {:>10}  {:.2}", show(old, unit), show(new, unit), new / old)
        .expect("writing to a String does not fail");
}
