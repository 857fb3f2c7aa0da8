//! Draws bar plots of the ratios to Go, one for each group of workloads.
//!
//! The axis is logarithmic, because the ratios range from a tenth to hundreds. A bar grows from 1 (Go) to the
//! left if the peer needs less, and to the right if it needs more. A black tick on gort's bar marks the
//! target.

use crate::results::{Figure, FigureRow};
use crate::stats::three_digits;
use crate::workloads::{Of, Unit};
use std::fmt::Write;

const BAR: f64 = 13.0;
const GAP: f64 = 12.0;
const LEFT: f64 = 190.0;
const PLOT: f64 = 560.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 86.0;
const FONT: &str = "font-family=\"Helvetica, Arial, sans-serif\"";

/// The plot of `figures`, or `None` if none of them has a ratio to show.
pub fn plot(title: &str, figures: &[&Figure]) -> Option<String> {
    let plotted: Vec<(&&Figure, Vec<(&FigureRow, f64)>)> = figures
        .iter()
        .filter(|f| f.metric.unit != Unit::Share)
        .map(|f| (f, ratios(f)))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    if plotted.is_empty() {
        return None;
    }
    let axis = Axis::around(plotted.iter().flat_map(|(_, rows)| rows.iter().map(|(_, ratio)| *ratio)));
    let rows: usize = plotted.iter().map(|(_, rows)| rows.len()).sum();
    let bottom = TOP + rows as f64 * BAR + plotted.len() as f64 * GAP;
    let (width, height) = (LEFT + PLOT + RIGHT, bottom + 24.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" {FONT} font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\" fill=\"#111\">{}</text>\n\
         <text x=\"12\" y=\"39\" fill=\"#555\">as a multiple of Go, lower is better; the black tick is \
         gort's target</text>\n",
        escape(title)
    );
    legend(&mut svg, &plotted);
    axis.grid(&mut svg, bottom);
    let mut y = TOP + GAP / 2.0;
    for (figure, rows) in &plotted {
        let middle = y + rows.len() as f64 * BAR / 2.0 + 4.0;
        let label = escape(&figure.metric.title(figure.workload));
        put(
            &mut svg,
            format!(
                "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\" fill=\"#111\">{label}</text>",
                LEFT - 8.0
            ),
        );
        for (row, ratio) in rows {
            bar(&mut svg, &axis, row, *ratio, y);
            y += BAR;
        }
        y += GAP;
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The ratios of all peers except Go, whose ratio is 1 by definition.
fn ratios(figure: &Figure) -> Vec<(&FigureRow, f64)> {
    let others = figure.rows.iter().filter(|r| r.peer.name != "go");
    others.filter_map(|r| r.to_go.filter(|&ratio| ratio > 0.0).map(|ratio| (r, ratio))).collect()
}

fn bar(svg: &mut String, axis: &Axis, row: &FigureRow, ratio: f64, y: f64) {
    let (one, end) = (axis.x(1.0), axis.x(ratio));
    let (x, width) = (one.min(end), (one - end).abs().max(1.0));
    let colour = row.peer.colour;
    put(
        svg,
        format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            BAR - 2.0
        ),
    );
    // The number is always to the right of Go's line, because the tick of a target may be to the left of it.
    let at = end.max(one) + 4.0;
    put(
        svg,
        format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#333\">{}</text>",
            y + BAR - 4.0,
            three_digits(ratio)
        ),
    );
    for verdict in row.verdicts.iter().filter(|v| v.target.of == Of::Peer("go")) {
        let x = axis.x(verdict.target.at_most);
        put(
            svg,
            format!(
                "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"2\" height=\"{:.1}\" fill=\"#000\"/>",
                x - 1.0,
                BAR - 2.0
            ),
        );
    }
}

fn legend(svg: &mut String, plotted: &[(&&Figure, Vec<(&FigureRow, f64)>)]) {
    let mut x = 12.0;
    for peer in crate::peers::PEERS {
        if plotted.iter().any(|(_, rows)| rows.iter().any(|(row, _)| row.peer.name == peer.name)) {
            put(
                svg,
                format!("<rect x=\"{x}\" y=\"48\" width=\"11\" height=\"11\" fill=\"{}\"/>", peer.colour),
            );
            put(svg, format!("<text x=\"{}\" y=\"57.5\" fill=\"#111\">{}</text>", x + 16.0, peer.name));
            x += 32.0 + 6.5 * peer.name.len() as f64;
        }
    }
}

/// A logarithmic axis from one power of ten to another.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn around(ratios: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ratios.fold((0.1f64, 10.0f64), |(low, high), r| (low.min(r), high.max(r)));
        Axis { low: 10f64.powf(low.log10().floor()), high: 10f64.powf(high.log10().ceil()) }
    }

    fn x(&self, ratio: f64) -> f64 {
        LEFT + PLOT * (ratio / self.low).log10() / (self.high / self.low).log10()
    }

    fn grid(&self, svg: &mut String, bottom: f64) {
        let mut decade = self.low;
        while decade < self.high * 1.01 {
            for step in [1.0, 2.0, 5.0] {
                let at = decade * step;
                if at > self.high * 1.01 {
                    break;
                }
                let x = self.x(at);
                // Because of rounding errors, the value may not be exactly 1.
                let colour = if (at - 1.0).abs() < 1e-9 { "#3a86a8" } else { "#dddddd" };
                put(
                    svg,
                    format!(
                        "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{colour}\"/>"
                    ),
                );
                let label = format!("{}", (at * 1000.0).round() / 1000.0);
                put(
                    svg,
                    format!(
                        "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
                        TOP - 6.0
                    ),
                );
            }
            decade *= 10.0;
        }
    }
}

fn put(svg: &mut String, element: String) {
    writeln!(svg, "{element}").expect("writing to a String cannot fail");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{figures, tests::made_up};

    #[test]
    fn go_is_the_line_at_one_and_the_others_are_bars() {
        let figures =
            figures(&[made_up("yield-1", &[("gort", &[30.0]), ("go", &[100.0]), ("std", &[400.0])])]);
        let svg = plot("core", &[&figures[0]]).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(">0.30<") && svg.contains(">4.00<"));
        assert!(!svg.contains(">go<"), "go is not in the legend");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn without_go_there_is_nothing_to_plot() {
        let figures = figures(&[made_up("yield-1", &[("gort", &[30.0])])]);
        assert!(plot("core", &[&figures[0]]).is_none());
    }

    #[test]
    fn axis_covers_all_ratios_and_puts_one_between() {
        let axis = Axis::around([0.05, 300.0].into_iter());
        assert!((axis.low - 0.01).abs() < 1e-12 && (axis.high - 1000.0).abs() < 1e-9);
        assert!(axis.x(0.05) < axis.x(1.0) && axis.x(1.0) < axis.x(300.0));
        assert_eq!(axis.x(axis.low), LEFT);
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escape("a<b & c>d"), "a&lt;b &amp; c&gt;d");
    }
}
