//! Makes lines of what the server says.

use serde_json::Value;

use super::{Choice, Look};
use crate::term::{self, Style};

/// A column: its title, its width (0: what is left, shared), and what is in it.
type Column = (&'static str, usize, Kind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    /// A path, whose end says more than its beginning.
    Path,
}
use Kind::{Number, Path, Text};

const EACH: [Column; 8] = [
    ("ID", 9, Number),
    ("CPU", 6, Number),
    ("TIME", 8, Number),
    ("WAITS", 8, Number),
    ("STATE", 20, Text),
    ("NAME", 0, Text),
    ("LABELS", 0, Text),
    ("SPAWNED AT", 0, Path),
];
const GROUPS: [Column; 7] = [
    ("COUNT", 9, Number),
    ("CPU", 6, Number),
    ("TIME", 8, Number),
    ("LONGEST", 8, Number),
    ("STATE", 20, Text),
    ("FUNCTION", 0, Path),
    ("SPAWNED AT", 0, Path),
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
    let columns = match choice.group {
        None => EACH.to_vec(),
        Some("site") => GROUPS.to_vec(),
        Some("labels") => [&GROUPS[..5], &[("LABELS", 0, Text)]].concat(),
        Some(_) => [&GROUPS[..5], &[("NAME", 0, Text)]].concat(),
    };
    let values = goroutines[if choice.group.is_some() { "groups" } else { "rows" }].as_array();
    let values: Vec<&Value> = values.into_iter().flatten().take(rows).collect();
    let table: Vec<Vec<String>> = values
        .iter()
        .map(|value| match choice.group {
            None => each(value),
            Some(_) => group(value),
        })
        .collect();
    let widths = widths(&columns, &table, width);
    let titles: Vec<String> = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
    lines.push(style.bold(&cells(&columns, &widths, &titles)));
    for (value, row) in values.iter().zip(&table) {
        let line = cells(&columns, &widths, row);
        lines.push(if value["state"] == "running" { style.green(&line) } else { line });
    }
    lines.iter().map(|line| term::clip(line, width)).collect()
}

/// The widths of the columns. Those that share the rest of the line get what they need, if the others leave
/// it, and at least 8.
fn widths(columns: &[Column], table: &[Vec<String>], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|(_, width, _)| *width).collect();
    let needs = |column: usize| {
        let cells = table.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        cells.max().unwrap_or(0).max(columns[column].0.len())
    };
    let shared = (0..columns.len()).filter(|&column| widths[column] == 0);
    let mut shared: Vec<(usize, usize)> = shared.map(|column| (needs(column), column)).collect();
    // Those that need least come first, and leave the rest of their share to the others.
    shared.sort_unstable();
    let mut left = width.saturating_sub(widths.iter().sum::<usize>() + columns.len() - 1);
    for (at, (need, column)) in shared.iter().enumerate() {
        widths[*column] = (*need).min(left / (shared.len() - at)).max(8);
        left = left.saturating_sub(widths[*column]);
    }
    widths
}

fn cells(columns: &[Column], widths: &[usize], texts: &[String]) -> String {
    let cell = |(((_, _, kind), &width), text): ((&Column, &usize), &String)| match kind {
        Number => format!("{:>width$}", term::clip(text, width)),
        Text => format!("{:<width$}", term::clip(text, width)),
        Path => format!("{:<width$}", end_of_path(text, width)),
    };
    let line: Vec<String> = columns.iter().zip(widths).zip(texts).map(cell).collect();
    line.join(" ").trim_end().to_owned()
}

/// At most `width` characters of a path, from its end on: whole parts, if the last one is short enough.
fn end_of_path(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let parts = path.match_indices(['/', ':']).map(|(at, _)| path[at + 1..].trim_start_matches(':'));
    // Behind the last colon is only a line.
    let fits = |part: &&str| part.chars().count() <= width && part.contains(|c: char| !c.is_ascii_digit());
    match parts.into_iter().find(fits) {
        Some(part) => part.to_owned(),
        None => {
            let tail: String = path.chars().skip(length - width.saturating_sub(1)).collect();
            format!("…{tail}")
        }
    }
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
        waited(row["waitNs"].as_u64()),
        text(&row["state"]),
        text(&row["name"]),
        labels.join(" "),
        site(&row["site"]),
    ]
}

fn group(group: &Value) -> Vec<String> {
    let what = [&group["function"], &group["labels"], &group["name"]].map(text).concat();
    vec![
        group["count"].to_string(),
        percent(&group["cpu"]),
        group["cpuNs"].as_u64().filter(|&time| time > 0).map_or("–".into(), |time| nanos(Some(time))),
        waited(group["oldestNs"].as_u64()),
        text(&group["state"]),
        if what.is_empty() { "–".into() } else { what },
        site(&group["site"]),
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

/// Where a goroutine was spawned: the file and the line, without the column.
fn site(value: &Value) -> String {
    let site = text(value);
    let line = site.rsplit_once(':').map(|(line, _column)| line);
    line.filter(|line| line.contains(':')).unwrap_or(&site).to_owned()
}

/// How long a goroutine has waited: that is known to about a second.
fn waited(time: Option<u64>) -> String {
    match time {
        Some(time) if time < 1_000_000_000 => "< 1 s".into(),
        Some(time) if time < 60_000_000_000 => format!("{} s", time / 1_000_000_000),
        time => nanos(time),
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

    #[test]
    fn waits_have_whole_seconds() {
        let seconds = |s: f64| waited(Some((s * 1e9) as u64));
        assert_eq!([0.0, 0.4, 1.9, 59.0, 90.0].map(seconds), ["< 1 s", "< 1 s", "1 s", "59 s", "1.5 min"]);
        assert_eq!(waited(None), "–");
    }

    #[test]
    fn paths_keep_their_end() {
        let shown = |width| end_of_path("gort-cli/src/demo/service.rs:122", width);
        let wanted = [(40, "gort-cli/src/demo/service.rs:122"), (22, "demo/service.rs:122")];
        for (width, wanted) in [wanted[0], wanted[1], (15, "service.rs:122"), (8, "….rs:122")] {
            assert_eq!(shown(width), wanted);
        }
        assert_eq!(end_of_path("app::demo::serve", 12), "demo::serve");
        assert_eq!(site(&json!("src/main.rs:31:9")), "src/main.rs:31");
        assert_eq!(site(&Value::Null), "");
    }

    #[test]
    fn narrow_columns_leave_their_place_to_others() {
        let row = |name: &str| {
            let texts = ["1", "–", "–", "< 1 s", "sleep", name, "", "gort-cli/src/demo/service.rs:122"];
            texts.map(String::from).to_vec()
        };
        let wide = widths(&EACH, &[row("worker 1")], 120);
        assert_eq!(wide[5..], [8, 8, 32]);
        let narrow = widths(&EACH, &[row("a name that is very long")], 100);
        assert_eq!(narrow.iter().sum::<usize>() + 7, 100);
        assert_eq!(cells(&EACH, &narrow, &row("worker 1")).split_whitespace().last(), Some("service.rs:122"));
    }
}
