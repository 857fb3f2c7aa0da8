//! Writes the results: the tables on standard output, and Markdown, plots and JSON as files.

use crate::facts::Facts;
use crate::results::{self, Figure};
use crate::rounds::Measured;
use crate::workloads::GROUPS;
use crate::{svg, table};
use serde_json::{Value, json};
use std::path::Path;
use std::{fs, io};

/// The results of a run, ready to be shown.
pub struct Findings {
    pub facts: Facts,
    pub figures: Vec<Figure>,
    /// Which peers did not take part in which workloads, and why.
    pub notes: Vec<String>,
}

impl Findings {
    /// Computes the figures of `all` and checks the targets.
    pub fn new(facts: Facts, all: &[Measured], mut notes: Vec<String>) -> Findings {
        notes.extend(results::absences(all));
        Findings { facts, figures: results::figures(all), notes }
    }

    fn groups(&self) -> impl Iterator<Item = (&'static str, Vec<&Figure>)> {
        let of = |group| self.figures.iter().filter(|f| f.workload.group == group).collect::<Vec<_>>();
        GROUPS.into_iter().map(move |group| (group, of(group))).filter(|(_, figures)| !figures.is_empty())
    }

    fn tally(&self) -> String {
        let (met, missed, unknown) = results::tally(&self.figures);
        format!("targets: {met} met, {missed} not met, {unknown} not measured")
    }

    /// The tables for the terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (group, figures) in self.groups() {
            out.push_str(&format!("\n{group}\n{}", table::text(&figures)));
        }
        if self.figures.iter().flat_map(|f| &f.rows).any(|r| r.disturbed > 0) {
            out.push_str(&format!(
                "\n{} other processes used the cores during most runs\n",
                table::DISTURBED
            ));
        }
        for note in &self.notes {
            out.push_str(&format!("\n{note}"));
        }
        format!("{out}\n{}\n", self.tally())
    }

    /// The whole Markdown file; `plots` are the groups that have a plot.
    pub fn markdown(&self, plots: &[&str]) -> String {
        let mut out = String::from("# gort compared\n\n");
        for (name, value) in &self.facts.0 {
            out.push_str(&format!("- {name}: {value}\n"));
        }
        out.push_str(&format!("- {}\n", self.tally()));
        out.push_str(
            "\nMedians over the rounds with their quartiles; “× Go” is the ratio of medians. Times are wall \
             time per operation. “× Go (q1)” is the ratio of lower quartiles. A target is “narrow” if it is \
             met or missed by less than 5 %, or if lower quartiles say otherwise. n is the size of the \
             workload: where a peer's differs, it cannot do more or would take minutes. “\\~” marks a median \
             of runs during which other processes used the cores, or the machine was slow.\n",
        );
        for (group, figures) in self.groups() {
            out.push_str(&format!("\n## {group}\n\n"));
            let mut shown = "";
            for figure in &figures {
                if figure.workload.id != shown {
                    shown = figure.workload.id;
                    out.push_str(&format!("- `{shown}`: {}\n", figure.workload.what));
                }
            }
            if plots.contains(&group) {
                out.push_str(&format!("\n![{group}: ratios to Go]({group}.svg)\n"));
            }
            out.push_str(&format!("\n{}", table::markdown(&figures)));
        }
        if !self.notes.is_empty() {
            out.push_str("\n## Not taken part\n\n");
            self.notes.iter().for_each(|note| out.push_str(&format!("- {note}\n")));
        }
        out
    }

    /// All figures with every sample, as JSON.
    pub fn json(&self) -> Value {
        let facts: serde_json::Map<_, _> =
            self.facts.0.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let mut rows = Vec::new();
        for figure in &self.figures {
            for row in &figure.rows {
                let targets: Vec<Value> = row
                    .verdicts
                    .iter()
                    .map(|v| json!({"at_most": v.target.at_most, "reached": v.reached, "met": v.met()}))
                    .collect();
                rows.push(json!({
                    "workload": figure.workload.id, "metric": figure.metric.label,
                    "group": figure.workload.group,
                    "peer": row.peer.name, "procs": figure.procs, "size": row.size,
                    "median": row.summary.median, "q1": row.summary.q1, "q3": row.summary.q3,
                    "min": row.summary.min, "max": row.summary.max, "to_go": row.to_go,
                    "disturbed": row.disturbed, "values": row.values, "targets": targets,
                }));
            }
        }
        json!({"facts": facts, "figures": rows, "notes": self.notes})
    }

    /// Writes `compare.md` and the plots into `out`.
    pub fn write(&self, out: &Path) -> io::Result<()> {
        fs::create_dir_all(out)?;
        let mut plots = Vec::new();
        for (group, figures) in self.groups() {
            let file = out.join(format!("{group}.svg"));
            match svg::plot(&format!("gort compared: {group}"), &figures) {
                Some(plot) => {
                    fs::write(file, plot)?;
                    plots.push(group);
                }
                // Remove the plot of an earlier run, which would contradict the table.
                None => fs::remove_file(file).or_else(|e| match e.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(e),
                })?,
            }
        }
        fs::write(out.join("compare.md"), self.markdown(&plots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::made_up;

    fn findings() -> Findings {
        let all = [
            made_up("yield-1", &[("gort", &[30.0]), ("go", &[100.0])]),
            made_up("pingpong-1", &[("gort", &[200.0]), ("go", &[100.0])]),
        ];
        Findings::new(Facts(vec![("cores", "2".into())]), &all, vec!["may skipped: no".into()])
    }

    #[test]
    fn text_has_each_group_the_notes_and_the_tally() {
        let text = findings().text();
        for part in ["\ncore\n", "\nchan\n", "may skipped: no", "targets: 1 met, 1 not met, 4 not measured"] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }

    #[test]
    fn markdown_explains_each_workload_and_shows_only_plots_that_exist() {
        let markdown = findings().markdown(&["core"]);
        assert!(markdown.contains("- cores: 2\n"));
        assert!(markdown.contains("- `yield-1`: "));
        assert!(markdown.contains("(core.svg)") && !markdown.contains("(chan.svg)"));
    }

    #[test]
    fn json_has_the_samples_and_the_verdicts() {
        let json = findings().json();
        assert_eq!(json["figures"][0]["values"], serde_json::json!([30.0]));
        assert_eq!(json["figures"][0]["targets"][0]["met"], true);
        assert_eq!(json["facts"]["cores"], "2");
    }

    #[test]
    fn files_are_written_and_a_plot_without_data_is_removed() {
        let out = std::env::temp_dir().join(format!("compare-test-{}", std::process::id()));
        findings().write(&out).unwrap();
        assert!(out.join("compare.md").exists() && out.join("core.svg").exists());
        let lonely = Findings::new(Facts(Vec::new()), &[made_up("yield-1", &[("gort", &[1.0])])], Vec::new());
        lonely.write(&out).unwrap();
        assert!(!out.join("core.svg").exists());
        fs::remove_dir_all(out).unwrap();
    }
}
