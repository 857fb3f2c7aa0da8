//! The summary for the terminal: sections with aligned columns. Long names lose their end, never the figures.

use gort_trace::{Blocked, Named, Summary};

use crate::term::{self, Style};

/// The width of the bars.
const BAR: usize = 30;
/// The width of a goroutine's name in a table.
const NAME: usize = 24;

struct Page {
    out: String,
    style: Style,
    width: usize,
}

pub(super) fn render(summary: &Summary, style: Style, width: usize) -> String {
    let mut page = Page { out: String::new(), style, width };
    page.totals(summary);
    page.procs(summary);
    page.latencies(summary);
    page.blocked("Blocked, by reason", &summary.blocked_by_reason, |blocked| blocked.reason.clone());
    page.blocked("Blocked, by site", &summary.blocked_by_site, |blocked| {
        let site = if blocked.site.is_empty() { "(no stack)" } else { &blocked.site };
        format!("{}: {site}", blocked.reason)
    });
    page.calls(summary);
    page.named("Tasks", &summary.tasks);
    page.named("Regions", &summary.regions);
    page.named("Runtime", &summary.runtime);
    page.groups(summary);
    page.samples(summary);
    page.out
}

impl Page {
    fn line(&mut self, text: &str) {
        let line = term::clip(text, self.width);
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn title(&mut self, title: &str, columns: &str) {
        self.out.push('\n');
        let title = self.style.bold(&format!("{title:<28}"));
        let columns = self.style.dim(columns);
        self.line(&format!("{title}{columns}"));
    }

    fn totals(&mut self, summary: &Summary) {
        let t = &summary.totals;
        let text = format!(
            "{}: {} events in {} generation{}, {} bytes",
            self.style.bold(&time(summary.span_ns)),
            count(t.events),
            t.generations,
            if t.generations == 1 { "" } else { "s" },
            count(t.bytes)
        );
        self.line(&text);
        let procs = if t.max_procs > 0 { format!(" (GOMAXPROCS {})", t.max_procs) } else { String::new() };
        self.line(&format!(
            "{} Ps{procs}, {} Ms, {} goroutines: {} created, {} ended",
            t.procs,
            t.threads,
            count(t.goroutines as u64),
            count(t.created as u64),
            count(t.ended as u64)
        ));
        if summary.logs > 0 || t.samples > 0 {
            self.line(&format!(
                "{} log messages, {} CPU samples",
                count(summary.logs),
                count(t.samples as u64)
            ));
        }
    }

    fn procs(&mut self, summary: &Summary) {
        let columns = "  running   in calls  searching       idle    switches   taken";
        self.title("Processors", columns);
        for used in &summary.procs {
            let share = |ns: u64| percent(ns, summary.span_ns);
            let filled = bar(used.running_ns, summary.span_ns, 18);
            let text = format!(
                "  P {:<5} {} {:>9} {:>10} {:>10} {:>10} {:>11} {:>7}",
                used.p,
                self.style.green(&format!("{filled:<18}")),
                share(used.running_ns),
                share(used.syscall_ns),
                share(used.scheduling_ns),
                share(used.idle_ns),
                count(used.switches),
                count(used.steals)
            );
            self.line(&text);
        }
    }

    fn latencies(&mut self, summary: &Summary) {
        let latencies = &summary.latencies;
        self.title("Scheduling latency", "from runnable to running");
        if latencies.count == 0 {
            self.line("  no goroutine waited for a P");
            return;
        }
        let unfinished = match latencies.unfinished {
            0 => String::new(),
            number => format!("; {} still runnable at the end", count(number)),
        };
        self.line(&format!(
            "  {} times: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}{unfinished}",
            count(latencies.count),
            time(latencies.p50_ns),
            time(latencies.p90_ns),
            time(latencies.p99_ns),
            time(latencies.p999_ns),
            time(latencies.max_ns)
        ));
        let most = latencies.histogram.iter().map(|bar| bar.count).max().unwrap_or(0);
        for range in &latencies.histogram {
            let to = if range.to_ns == u64::MAX { "longer".into() } else { time(range.to_ns) };
            let filled = self.style.cyan(&bar(range.count, most, BAR));
            let text = format!("  < {to:<9} {:>12}  {filled}", count(range.count));
            self.line(&text);
        }
        self.line("");
        let head =
            format!("  {:>9} {:>9} {:>9}  {:<NAME$} made runnable", "longest", "at", "goroutine", "name");
        let head = self.style.dim(&head);
        self.line(&head);
        for latency in &latencies.longest {
            let by = latency.by.map_or(String::new(), |by| format!(" by {by}"));
            let site =
                if latency.site.is_empty() { String::new() } else { format!(", {}", shown(&latency.site)) };
            self.line(&format!(
                "  {:>9} {:>9} {:>9}  {:<NAME$} {}{by}{site}",
                time(latency.ns),
                time(latency.at_ns),
                latency.goroutine,
                tail(&latency.name.replace("{{closure}}", "{}"), NAME),
                shown(&latency.cause)
            ));
        }
    }

    fn blocked(&mut self, title: &str, list: &[Blocked], name: impl Fn(&Blocked) -> String) {
        if list.is_empty() {
            return;
        }
        self.title(title, "    total       count        mean         max");
        for blocked in list {
            let figures = format!(
                "{:>9} {:>11} {:>11} {:>11}",
                time(blocked.total_ns),
                count(blocked.count),
                time(blocked.total_ns / blocked.count.max(1)),
                time(blocked.max_ns)
            );
            self.row(&name(blocked), &figures);
        }
    }

    /// A name, and the figures beside it, or below it if it is long.
    fn row(&mut self, name: &str, figures: &str) {
        let name = &shown(name);
        if name.chars().count() <= 26 {
            self.line(&format!("  {name:<26}{figures}"));
        } else {
            let name = tail(name, self.width.saturating_sub(2));
            self.line(&format!("  {name}"));
            self.line(&format!("  {:<26}{figures}", ""));
        }
    }

    fn calls(&mut self, summary: &Summary) {
        let calls = &summary.calls;
        if calls.count == 0 {
            return;
        }
        self.out.push('\n');
        let text = format!(
            "{} {} calls, {}; with a P {}; the P was taken from {}",
            self.style.bold("Blocking calls:"),
            count(calls.count),
            time(calls.total_ns),
            time(calls.with_p_ns),
            count(calls.lost_p)
        );
        self.line(&text);
        self.blocked("  by site", &calls.sites, |blocked| {
            if blocked.site.is_empty() { "(no stack)".into() } else { blocked.site.clone() }
        });
    }

    fn named(&mut self, title: &str, list: &[Named]) {
        if list.is_empty() {
            return;
        }
        self.title(title, "    total       count        mean         max");
        for item in list {
            let unfinished = match item.unfinished {
                0 => String::new(),
                number => format!("  {} unfinished", count(number)),
            };
            self.line(&format!(
                "  {:<26}{:>9} {:>11} {:>11} {:>11}{unfinished}",
                tail(&item.name, 25),
                time(item.total_ns),
                count(item.count),
                time(item.total_ns / item.count.max(1)),
                time(item.max_ns)
            ));
        }
    }

    fn groups(&mut self, summary: &Summary) {
        self.title("Goroutines, by function", "  running    runnable    in calls     waiting       count");
        for group in &summary.groups {
            let figures = format!(
                "{:>9} {:>11} {:>11} {:>11} {:>11}",
                time(group.running_ns),
                time(group.runnable_ns),
                time(group.syscall_ns),
                time(group.waiting_ns),
                count(group.count)
            );
            self.row(&group.function, &figures);
        }
    }

    fn samples(&mut self, summary: &Summary) {
        if summary.samples.is_empty() {
            return;
        }
        self.title("CPU samples, by function", "    count");
        for sampled in &summary.samples {
            let number = count(sampled.count);
            self.line(&format!("  {number:>9}  {}", tail(&sampled.function, self.width.saturating_sub(13))));
        }
    }
}

/// A duration with three digits: "1.23 ms".
pub(super) fn time(ns: u64) -> String {
    let units = [("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (unit, size) = *units.iter().rev().find(|(_, size)| ns >= *size).unwrap_or(&units[0]);
    let value = ns as f64 / size as f64;
    let digits = match value {
        _ if size == 1 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A number with commas: "1,234,567".
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 / whole.max(1) as f64 * 100.0)
}

fn bar(part: u64, whole: u64, width: usize) -> String {
    let filled = (part as f64 / whole.max(1) as f64 * width as f64).round() as usize;
    let filled = if part > 0 { filled.max(1) } else { 0 };
    "█".repeat(filled.min(width))
}

/// A text of the file, without what a terminal obeys: control characters, and those that reverse the
/// direction of what follows. A trace may come from anywhere.
fn shown(text: &str) -> String {
    let is_obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The last `width` characters of a name: a path's end says more than its beginning.
fn tail(name: &str, width: usize) -> String {
    let name = shown(name);
    let length = name.chars().count();
    if length <= width {
        return name;
    }
    let kept: String = name.chars().skip(length - width.saturating_sub(1)).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_commas() {
        assert_eq!(time(0), "0 ns");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_234), "1.23 µs");
        assert_eq!(time(12_345_678), "12.3 ms");
        assert_eq!(time(999_999_999), "1000 ms");
        assert_eq!(time(61_000_000_000), "61.0 s");
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        assert_eq!(shown("a::b<ü>"), "a::b<ü>");
        assert_eq!(shown("\x1b[2Ja\rb\u{9b}c\u{202e}"), "\u{fffd}[2Ja\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(tail("\x1b]0;title\x07", 4), "…le\u{fffd}");
    }

    #[test]
    fn names_keep_their_end() {
        assert_eq!(tail("short", 5), "short");
        assert_eq!(tail("a::long::path", 6), "…:path");
    }
}
