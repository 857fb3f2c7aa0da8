//! The page with the viewer: one file without any reference to others.
//!
//! The trace is in the page as numbers in LEB128, compressed (raw deflate), in base64. A span takes its
//! length and what differs from nothing, about eight bytes before compression. `viewer/data.js` decodes it:
//! change both together.

use std::io::{Result, Write};

use gort_trace::{NONE, Trace};
use serde_json::json;

use super::ByGoroutine;

const PAGE: &str = include_str!("viewer/page.html");
const STYLE: &str = include_str!("viewer/style.css");
const SCRIPTS: [&str; 3] =
    [include_str!("viewer/data.js"), include_str!("viewer/draw.js"), include_str!("viewer/ui.js")];

/// How hard the compressor tries, from 0 to 10. Above 4, pages become little smaller and take much longer.
const LEVEL: u8 = 4;
/// At most this many messages are in the page.
const LOGS: usize = 100_000;

pub(super) fn write(out: &mut dyn Write, trace: &Trace<'_>, name: &str) -> Result<()> {
    let mut rest = PAGE;
    let parts = [("/*style*/", STYLE.to_string()), ("/*data*/", data(trace, name)), ("/*script*/", script())];
    for (mark, part) in parts {
        let (before, after) = rest.split_once(mark).expect("the page has all marks");
        out.write_all(before.as_bytes())?;
        out.write_all(part.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn script() -> String {
    SCRIPTS.concat()
}

/// The header as JSON, its length before it, and the numbers after it; compressed, in base64.
fn data(trace: &Trace<'_>, name: &str) -> String {
    let header = header(trace, name).to_string().into_bytes();
    let mut bytes = Vec::new();
    number(&mut bytes, header.len() as u64);
    bytes.extend_from_slice(&header);
    numbers(&mut bytes, trace);
    base64(&miniz_oxide::deflate::compress_to_vec(&bytes, LEVEL))
}

fn header(trace: &Trace<'_>, name: &str) -> serde_json::Value {
    let frames: Vec<_> = trace.stacks.frames().iter().map(|f| (f.function, f.file, f.line)).collect();
    let stacks: Vec<_> = (0..trace.stacks.count()).map(|id| trace.stacks.indices(id as u32)).collect();
    let tasks: Vec<_> = trace
        .tasks
        .iter()
        .map(|t| (t.id.to_string(), t.parent.to_string(), t.name, t.g, t.start, t.end))
        .collect();
    let regions: Vec<_> = trace.regions.iter().map(|r| (r.name, r.g, r.start, r.end)).collect();
    let logs: Vec<_> = trace.logs.iter().take(LOGS).map(|l| (l.time, l.g, l.key, l.value)).collect();
    let ranges: Vec<_> = trace.ranges.iter().map(|r| (r.name, r.stopped, r.start, r.end)).collect();
    json!({
        "name": name,
        "end": trace.end,
        "events": trace.generations.iter().map(|generation| generation.events).sum::<u64>(),
        "generations": trace.generations.len(),
        "threads": trace.threads,
        "damage": trace.damage.as_ref().map(ToString::to_string),
        "strings": trace.strings.iter().collect::<Vec<_>>(),
        "frames": frames,
        "stacks": stacks,
        "procs": trace.procs.iter().map(|proc| proc.id).collect::<Vec<_>>(),
        "tasks": tasks,
        "regions": regions,
        "logs": logs,
        "ranges": ranges,
        "spans": trace.spans.len(),
        "goroutines": trace.goroutines.len(),
    })
}

/// An index plus one; 0 for none.
fn index(index: u32) -> u64 {
    if index == NONE { 0 } else { u64::from(index) + 1 }
}

/// For each goroutine what is known of it, and its spans.
fn numbers(out: &mut Vec<u8>, trace: &Trace<'_>) {
    let spans = ByGoroutine::new(trace);
    for (g, goroutine) in trace.goroutines.iter().enumerate() {
        let own = spans.of(g as u32);
        for value in [
            goroutine.id,
            u64::from(goroutine.label),
            u64::from(goroutine.function),
            index(goroutine.creator),
            u64::from(goroutine.create_stack),
            u64::from(goroutine.created) + 2 * u64::from(goroutine.ended.is_some()),
            goroutine.first,
            own.len() as u64,
        ] {
            number(out, value);
        }
        // The spans of a goroutine follow each other without gaps.
        for &n in own {
            let span = &trace.spans[n as usize];
            number(out, span.length());
            out.push(span.state as u8 | (span.cause as u8) << 2);
            for value in
                [index(span.p), index(span.m), index(span.by), u64::from(span.reason), u64::from(span.stack)]
            {
                number(out, value);
            }
        }
    }
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)].map(u32::from);
        let bits = a << 16 | b << 8 | c;
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            out.push(if digit <= chunk.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, wanted) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), wanted);
        }
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        let page = format!("{PAGE}{STYLE}{}", script());
        for outside in ["http://", "https://", "src=", "@import", "url(", "fetch(", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
