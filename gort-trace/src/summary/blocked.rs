//! Where and why goroutines waited, and where they were in calls.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::sites::{self, Site, Sites};
use super::{Blocked, Calls};
use crate::model::{Cause, NONE, Span, State, Trace};
use crate::tables::StringId;

#[derive(Default)]
struct Sum {
    count: u64,
    total: u64,
    max: u64,
    unfinished: u64,
}

impl Sum {
    fn add(&mut self, length: u64, unfinished: bool) {
        self.count += 1;
        self.total = self.total.saturating_add(length);
        self.max = self.max.max(length);
        self.unfinished += u64::from(unfinished);
    }

    fn merge(&mut self, other: &Sum) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
        self.unfinished += other.unfinished;
    }
}

/// The largest sums, with the names of their keys: a reason and a site.
fn top_of(trace: &Trace<'_>, sums: HashMap<(StringId, Site), Sum>, top: usize) -> Vec<Blocked> {
    let mut list: Vec<_> = sums.into_iter().collect();
    list.sort_by_key(|(key, sum)| (Reverse(sum.total), *key));
    list.truncate(top);
    let blocked = |((reason, site), sum): ((StringId, Site), Sum)| Blocked {
        reason: trace.strings.get(reason).to_string(),
        site: sites::text(trace, site),
        count: sum.count,
        total_ns: sum.total,
        max_ns: sum.max,
        unfinished: sum.unfinished,
    };
    list.into_iter().map(blocked).collect()
}

/// Waits by reason, and by reason and site.
pub(super) fn waits(trace: &Trace<'_>, sites: &Sites, top: usize) -> (Vec<Blocked>, Vec<Blocked>) {
    let mut by_site: HashMap<(StringId, Site), Sum> = HashMap::new();
    let waits = trace.spans.iter().enumerate().filter(|(_, span)| span.state == State::Waiting);
    for (index, span) in waits {
        let key = (span.reason, sites.of(span.stack));
        by_site.entry(key).or_default().add(span.length(), index >= trace.unfinished);
    }
    let mut by_reason: HashMap<(StringId, Site), Sum> = HashMap::new();
    for ((reason, _), sum) in &by_site {
        by_reason.entry((*reason, None)).or_default().merge(sum);
    }
    let told = |mut list: Vec<Blocked>| {
        for blocked in list.iter_mut().filter(|blocked| blocked.reason.is_empty()) {
            blocked.reason = "(not told)".to_string();
        }
        list
    };
    (told(top_of(trace, by_reason, top)), told(top_of(trace, by_site, top)))
}

/// System calls and other blocking calls. A call that lost its P has two spans.
pub(super) fn calls(trace: &Trace<'_>, sites: &Sites, top: usize) -> Calls {
    let mut calls = Calls::default();
    let mut by_site: HashMap<(StringId, Site), Sum> = HashMap::new();
    // The first span of a call that has lost its P, by goroutine.
    let mut first: HashMap<u32, u64> = HashMap::new();
    let mut spans: Vec<&Span> = trace.spans.iter().filter(|span| span.state == State::Syscall).collect();
    spans.sort_by_key(|span| (span.g, span.start, span.end));
    for (index, span) in spans.iter().enumerate() {
        calls.total_ns = calls.total_ns.saturating_add(span.length());
        if span.p != NONE {
            calls.with_p_ns = calls.with_p_ns.saturating_add(span.length());
        }
        if span.cause == Cause::LostProc {
            calls.lost_p += 1;
        } else {
            first.insert(span.g, span.start);
        }
        let goes_on =
            |next: &&Span| next.g == span.g && next.cause == Cause::LostProc && next.start == span.end;
        if spans.get(index + 1).is_some_and(goes_on) {
            continue;
        }
        calls.count += 1;
        let start = first.get(&span.g).copied().unwrap_or(span.start);
        by_site.entry((0, sites.of(span.stack))).or_default().add(span.end - start, span.end == trace.end);
    }
    calls.sites = top_of(trace, by_site, top);
    calls
}
