//! Makes lines of what the server says.

use serde_json::Value;

use super::{Choice, Look};
use crate::term::{self, Style};

/// A column: its title, its width (0: what is left, shared), and whether it is a number.
type Column = (&'static str, usize, bool);

const EACH: [Column; 8] = [
    ("ID", 9, true),
    ("CPU", 6, true),
    ("TIME", 8, true),
    ("WAITS", 8, true),
    ("STATE", 20, false),
    ("NAME", 0, false),
    ("LABELS", 0, false),
    ("SPAWNED AT", 0, false),
];
const GROUPS: [Column; 6] = [
    ("COUNT", 9, true),
    ("CPU", 6, true),
    ("TIME", 8, true),
    ("LONGEST", 8, true),
    ("STATE", 20, false),
    ("", 0, false),
];

pub(super) fn lines(look: &Look, choice: &Choice, rows: usize, width: usize, style: Style) -> Vec<String> {
    let mut lines = head(look, style);
    let goroutines = &look.goroutines;
    let matching = goroutines["matching"].as_u64().unwrap_or(0);
    let keys = "c cpu  t time  w wait  n name  s state  i id  g groups  q quit";
    let shown =
        choice.search.as_ref().map_or(String::new(), |search| format!("{matching} match {search:?}   "));
    lines.push(style.dim(&format!("{shown}{keys}")));
    lines.push(String::new());
    let columns: &[Column] = if choice.group.is_some() { &GROUPS } else { &EACH };
    let flexible = columns.iter().filter(|(_, width, _)| *width == 0).count();
    let fixed: usize = columns.iter().map(|(_, width, _)| width + 1).sum();
    let share = width.saturating_sub(fixed) / flexible.max(1);
    let cells = |cells: &[String]| {
        let cell = |((_, width, number), text): (&Column, &String)| {
            let width = if *width == 0 { share.max(8) } else { *width };
            let text = term::clip(text, width);
            if *number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let line: Vec<String> = columns.iter().zip(cells).map(cell).collect();
        line.join(" ").trim_end().to_owned()
    };
    let mut titles: Vec<String> = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
    if let (Some(group), Some(last)) = (choice.group, titles.last_mut()) {
        *last = if group == "site" { "FUNCTION, SPAWNED AT".into() } else { group.to_uppercase() };
    }
    lines.push(style.bold(&cells(&titles)));
    let values = goroutines[if choice.group.is_some() { "groups" } else { "rows" }].as_array();
    for value in values.into_iter().flatten().take(rows) {
        let line = cells(&if choice.group.is_some() { group(value) } else { each(value) });
        lines.push(if value["state"] == "running" { style.green(&line) } else { line });
    }
    lines.iter().map(|line| term::clip(line, width)).collect()
}

/// Three lines about the whole program.
fn head(look: &Look, style: Style) -> Vec<String> {
    let live = &look.live;
    let none = Vec::new();
    let facts = live["facts"].as_array().unwrap_or(&none);
    let samples = live["samples"].as_array().unwrap_or(&none);
    let (Some(now), Some(sample)) = (facts.last(), samples.last()) else {
        return vec!["no facts yet".into()];
    };
    let state = |name: &str| now["states"][name].as_u64().unwrap_or(0);
    let recent = &samples[samples.len().saturating_sub(20)..];
    let running =
        |sample: &Value| sample["p"].as_array().into_iter().flatten().filter(|p| p[0] == 2).count() as f64;
    let busy = recent.iter().map(running).sum::<f64>() / recent.len().max(1) as f64;
    let procs = sample["p"].as_array().map_or(0, Vec::len);
    let before = &facts[facts.len().saturating_sub(3)];
    let millis = now["t"].as_f64().unwrap_or(0.0) - before["t"].as_f64().unwrap_or(0.0);
    let rate = |name: &str| {
        let grown = now[name].as_f64().unwrap_or(0.0) - before[name].as_f64().unwrap_or(0.0);
        if millis > 0.0 { format!("{:.0}", grown / millis * 1000.0) } else { "–".into() }
    };
    let name = live["program"].as_str().unwrap_or_default();
    let title = style.bold(&printable(name));
    vec![
        format!(
            "{title}  pid {}   {} goroutines: {} running, {} runnable, {} in calls, {} waiting",
            live["pid"],
            now["goroutines"],
            state("running"),
            state("runnable") + state("preempted"),
            state("syscall"),
            state("waiting"),
        ),
        format!(
            "Ps {busy:.1} of {procs} busy   {} threads   latency p50 {}  p99 {}",
            now["threads"],
            nanos(quantile(&now["latencies"], 0.5)),
            nanos(quantile(&now["latencies"], 0.99)),
        ),
        format!(
            "per second: {} started, {} waits, {} steals, {} hand-offs, {} preempted",
            rate("created"),
            rate("parks"),
            rate("steals"),
            rate("handOffs"),
            rate("preemptedBySignal"),
        ),
    ]
}

fn each(row: &Value) -> Vec<String> {
    let labels = row["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    vec![
        row["id"].to_string(),
        percent(&row["cpu"]),
        row["cpuNs"].as_u64().filter(|&time| time > 0).map_or("–".into(), |time| nanos(Some(time))),
        nanos(row["waitNs"].as_u64()),
        text(&row["state"]),
        text(&row["name"]),
        labels.join(" "),
        text(&row["site"]),
    ]
}

fn group(group: &Value) -> Vec<String> {
    let what = match (group["function"].as_str(), group["site"].as_str()) {
        (Some(function), Some(site)) => format!("{}, {site}", printable(function)),
        (None, Some(site)) => site.to_owned(),
        _ => [&group["labels"], &group["name"]].map(text).concat(),
    };
    vec![
        group["count"].to_string(),
        percent(&group["cpu"]),
        group["cpuNs"].as_u64().filter(|&time| time > 0).map_or("–".into(), |time| nanos(Some(time))),
        nanos(group["oldestNs"].as_u64()),
        text(&group["state"]),
        if what.is_empty() { "–".into() } else { what },
    ]
}

/// Names come from the program: control characters must not reach the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

fn percent(share: &Value) -> String {
    match share.as_f64().unwrap_or(0.0) * 100.0 {
        share if share < 0.05 => "–".into(),
        share => format!("{share:.1}%"),
    }
}

fn nanos(time: Option<u64>) -> String {
    let Some(time) = time else { return "–".into() };
    let units = [(60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    let (size, unit) = units.into_iter().find(|(size, _)| time >= *size).unwrap_or((1, "ns"));
    let value = time as f64 / size as f64;
    if value < 10.0 && size > 1 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

fn quantile(buckets: &Value, q: f64) -> Option<u64> {
    let pairs: Vec<(u64, u64)> =
        buckets.as_array()?.iter().filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?))).collect();
    let total: u64 = pairs.iter().map(|(_, count)| count).sum();
    let rank = ((total as f64 * q).ceil() as u64).max(1);
    let mut below = 0;
    pairs
        .iter()
        .find(|(_, count)| {
            below += count;
            below >= rank
        })
        .map(|(time, _)| *time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [None, Some(0), Some(999), Some(1_500), Some(25_000_000)].map(nanos),
            ["–", "0 ns", "999 ns", "1.5 µs", "25 ms"]
        );
        assert_eq!([0.0, 0.123, 1.0].map(|share| percent(&json!(share))), ["–", "12.3%", "100.0%"]);
        assert_eq!(quantile(&json!([[100, 1], [200, 98], [300, 1]]), 0.5), Some(200));
        assert_eq!(quantile(&json!([]), 0.5), None);
        assert_eq!(printable("a\x1b[31mb"), "a?[31mb");
    }
}
