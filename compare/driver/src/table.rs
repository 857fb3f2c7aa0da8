//! Formats the tables: aligned text for the terminal, Markdown for the file.

use crate::results::{Figure, FigureRow, Verdict};
use crate::stats::{show, thousands, three_digits};
use crate::workloads::{Of, Unit};

const HEAD: [&str; 9] = ["workload", "P", "peer", "n", "median", "quartiles", "× Go", "× Go (q1)", "targets"];

/// Which columns are aligned to the right.
const RIGHT: [bool; 9] = [false, true, false, true, true, true, true, true, false];

/// The mark of a median that had to use disturbed runs.
pub const DISTURBED: char = '~';

type Cells = [String; 9];

fn cells(figures: &[&Figure]) -> Vec<Cells> {
    let mut out = Vec::new();
    for figure in figures {
        for (i, row) in figure.rows.iter().enumerate() {
            let only_first = |text: String| if i == 0 { text } else { String::new() };
            let unit = figure.metric.unit;
            out.push([
                only_first(figure.metric.title(figure.workload)),
                only_first(figure.procs.to_string()),
                row.peer.name.into(),
                thousands(row.size),
                median(row, unit),
                format!("{} – {}", show(row.summary.q1, unit), show(row.summary.q3, unit)),
                row.to_go.map_or("–".into(), three_digits),
                row.to_go_q1.map_or("–".into(), three_digits),
                row.verdicts.iter().map(|v| verdict(v, unit)).collect::<Vec<_>>().join("; "),
            ]);
        }
    }
    out
}

fn median(row: &FigureRow, unit: Unit) -> String {
    let mark = if row.disturbed > 0 { String::from(DISTURBED) } else { String::new() };
    format!("{mark}{}", show(row.summary.median, unit))
}

/// A target in words: `≤ 0.35 × go: 0.31, met`.
fn verdict(verdict: &Verdict, unit: Unit) -> String {
    let target = verdict.target;
    let (limit, of) = match target.of {
        Of::Absolute => (show(target.at_most, unit), String::new()),
        Of::Peer(peer) => (format!("{}", target.at_most), format!(" × {peer}")),
        Of::Own(id) => (format!("{}", target.at_most), format!(" × own {id}")),
    };
    let outcome = match (verdict.reached, verdict.met()) {
        (Some(value), Some(met)) => {
            let value = if target.of == Of::Absolute { show(value, unit) } else { three_digits(value) };
            let narrow = if verdict.is_narrow() { ", narrow" } else { "" };
            format!("{value}, {}{narrow}", if met { "met" } else { "NOT met" })
        }
        _ => "not measured".into(),
    };
    format!("≤ {limit}{of}: {outcome}")
}

/// The figures as aligned columns.
pub fn text(figures: &[&Figure]) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(cells(figures));
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 9] = std::array::from_fn(width);
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let padded = if RIGHT[column] { pad + cell } else { cell.clone() + &pad };
            line.push_str(&padded);
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The figures as a Markdown table.
pub fn markdown(figures: &[&Figure]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(&HEAD.map(String::from));
    out.push_str(&line(&RIGHT.map(|right| if right { "---:" } else { "---" }.to_string())));
    for row in cells(figures) {
        out.push_str(&line(&row.map(|cell| cell.replace('|', "\\|").replace(DISTURBED, "\\~"))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{figures, tests::made_up};

    fn yields() -> Vec<Figure> {
        figures(&[made_up("yield-1", &[("gort", &[30.0, 31.0, 32.0]), ("go", &[100.0])])])
    }

    #[test]
    fn text_columns_line_up() {
        let figures = yields();
        let table = text(&figures.iter().collect::<Vec<_>>());
        let at = |line: &str, word: &str| {
            line.find(word).map(|i| line[..i].chars().count() + word.chars().count())
        };
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(at(lines[0], "median"), at(lines[1], "31.0 ns"));
        assert_eq!(at(lines[1], "31.0 ns"), at(lines[2], "100 ns"));
        assert!(lines[1].starts_with("yield-1") && !lines[2].contains("yield-1"));
    }

    #[test]
    fn targets_say_limit_value_and_outcome() {
        let figures = yields();
        let table = text(&figures.iter().collect::<Vec<_>>());
        assert!(table.contains("≤ 0.35 × go: 0.31, met; ≤ 1.2 × tokio: not measured"), "{table}");
    }

    #[test]
    fn absolute_targets_have_the_figures_unit() {
        let figures = figures(&[made_up("parked", &[("gort", &[6000.0])])]);
        assert!(text(&[&figures[0]]).contains("≤ 5,600 B: 6,000 B, NOT met"));
    }

    #[test]
    fn markdown_has_one_row_for_each_peer_and_as_many_cells_everywhere() {
        let figures = yields();
        let table = markdown(&figures.iter().collect::<Vec<_>>());
        let cells: Vec<usize> = table.lines().map(|l| l.matches('|').count()).collect();
        assert_eq!(cells, [10; 4]);
    }

    #[test]
    fn disturbed_medians_are_marked() {
        let mut figures = yields();
        figures[0].rows[0].disturbed = 1;
        assert!(text(&[&figures[0]]).contains("~31.0 ns"));
        assert!(markdown(&[&figures[0]]).contains("\\~31.0 ns"));
    }
}
