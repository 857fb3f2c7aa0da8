//! `gort doctor`: reports what this machine offers and which of it gort uses.
//!
//! The library finds the facts (`runtime::platform`); this file only formats them.

use std::fmt::Write;
use std::process::ExitCode;

use gort::runtime::{Finding, Grade, platform};

use crate::args::DoctorArgs;
use crate::term::{self, Style};

pub(crate) fn main(args: &DoctorArgs) -> ExitCode {
    let findings = platform().findings();
    let works = findings.iter().all(|finding| finding.grade != Grade::Missing);
    let text = if args.json { json(&findings, works) } else { text(&findings, works) };
    let printed = term::print(&text);
    if works { printed } else { ExitCode::FAILURE }
}

fn json(findings: &[Finding], works: bool) -> String {
    let list: Vec<_> = findings
        .iter()
        .map(|f| {
            serde_json::json!({
                "name": f.name, "value": f.value, "meaning": f.meaning, "grade": word(f.grade),
            })
        })
        .collect();
    let all = serde_json::json!({
        "works": works, "max_procs": gort::runtime::max_procs(), "findings": list,
    });
    format!("{all:#}\n")
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "good",
        Grade::Missing => "missing",
        _ => "reduced",
    }
}

fn text(findings: &[Finding], works: bool) -> String {
    let style = Style::of(&std::io::stdout());
    let width = term::size(&std::io::stdout()).map_or(100, |(columns, _)| columns.clamp(60, 120));
    let mut out = String::new();
    for finding in findings {
        let mark = match finding.grade {
            Grade::Good => style.green("✓"),
            Grade::Missing => style.red("✗"),
            _ => style.yellow("!"),
        };
        let name = style.bold(&format!("{:<19}", finding.name));
        // Writing to a String does not fail.
        let _ = writeln!(out, "{mark} {name} {}", finding.value);
        for line in term::wrap(&finding.meaning, width - 22) {
            let _ = writeln!(out, "{:22}{}", "", style.dim(&line));
        }
    }
    let reduced = findings.iter().filter(|f| f.grade == Grade::Reduced).count();
    let verdict = match (works, reduced) {
        (false, _) => style.red("gort cannot run safe goroutines here: see ✗ above"),
        (true, 0) => style.green("gort has all it can use here"),
        (true, _) => style.yellow("gort works here, with less than it could have: see ! above"),
    };
    let _ = writeln!(out, "\n{verdict}");
    out
}
