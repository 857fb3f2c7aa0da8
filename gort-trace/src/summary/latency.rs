//! Scheduling latencies: from runnable to running.

use super::sites::{self, Sites};
use super::{Latencies, Latency, Range};
use crate::model::{Cause, Span, State, Trace};

/// The histogram's first bar ends here; each further one is four times as long.
const FIRST_BAR_NS: u64 = 1_000;
/// The histogram has at most this many bars; the last one takes all that is longer.
const BARS: usize = 12;

pub(super) fn latencies(trace: &Trace<'_>, sites: &Sites, top: usize) -> Latencies {
    // A goroutine that is runnable at the end of the trace has not got its P.
    let (finished, unfinished) = trace.spans.split_at(trace.unfinished);
    let runnable = |span: &&Span| span.state == State::Runnable;
    let mut spans: Vec<&Span> = finished.iter().filter(runnable).collect();
    let unfinished = unfinished.iter().filter(runnable).count() as u64;
    let mut result = Latencies { unfinished, ..Latencies::default() };
    spans.sort_by_key(|span| (span.length(), std::cmp::Reverse(span.start)));
    let Some(longest) = spans.last() else { return result };
    let at = |thousandth: usize| spans[(spans.len() - 1) * thousandth / 1000].length();
    result.count = spans.len() as u64;
    result.total_ns = spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.length()));
    (result.p50_ns, result.p90_ns, result.p99_ns, result.p999_ns) = (at(500), at(900), at(990), at(999));
    result.max_ns = longest.length();
    result.histogram = histogram(&spans);
    result.longest = spans.iter().rev().take(top).map(|span| describe(trace, sites, span)).collect();
    result
}

fn histogram(sorted: &[&Span]) -> Vec<Range> {
    let mut bars = Vec::new();
    let (mut from, mut rest) = (0, sorted);
    while !rest.is_empty() {
        let to = match bars.len() {
            0 => FIRST_BAR_NS,
            count if count == BARS - 1 => u64::MAX,
            _ => from * 4,
        };
        let count = rest.partition_point(|span| span.length() < to);
        // Lengths are below u64::MAX, so the last bar takes all.
        bars.push(Range { from_ns: from, to_ns: to, count: count as u64 });
        rest = &rest[count..];
        from = to;
    }
    bars
}

fn describe(trace: &Trace<'_>, sites: &Sites, span: &Span) -> Latency {
    let reason = trace.strings.get(span.reason);
    let cause = match span.cause {
        Cause::Created => "created".to_string(),
        Cause::Unblocked => "unblocked".to_string(),
        Cause::Stopped if reason.is_empty() => "stopped".to_string(),
        Cause::Stopped => format!("stopped: {reason}"),
        Cause::Returned => "back from a call".to_string(),
        _ => "before the trace".to_string(),
    };
    Latency {
        ns: span.length(),
        at_ns: span.start,
        goroutine: trace.goroutine_id(span.g).unwrap_or(0),
        name: trace.goroutine_name(span.g).to_string(),
        cause,
        by: trace.goroutine_id(span.by),
        site: sites::text(trace, sites.of(span.stack)),
    }
}
