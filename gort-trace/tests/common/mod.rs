//! What the tests share: real traces, a writer for made-up ones, and what holds for every trace that was
//! read.

#![allow(dead_code)] // each test binary uses a part

pub(crate) mod watchdog;
pub(crate) mod writer;

use gort_trace::{NONE, State, Summary, Trace, summarise};

/// A trace that Go 1.27 has written.
pub(crate) const GO: &[u8] = include_bytes!("../data/go.trace");
/// A trace that gort has written.
pub(crate) const GORT: &[u8] = include_bytes!("../data/gort.trace");

/// Fails if the parts of a trace contradict each other, whatever the file was. Returns its summary.
pub(crate) fn check(trace: &Trace<'_>) -> Summary {
    let index = |index: u32, count: usize| index == NONE || (index as usize) < count;
    let mut last: Vec<Option<u64>> = vec![None; trace.goroutines.len()];
    for span in &trace.spans {
        assert!(span.start <= span.end && span.end <= trace.end, "{span:?}");
        assert!((span.g as usize) < trace.goroutines.len(), "{span:?}");
        assert!(index(span.p, trace.procs.len()) && index(span.m, trace.threads), "{span:?}");
        assert!(index(span.by, trace.goroutines.len()), "{span:?}");
        assert_eq!(span.state == State::Running, span.m != NONE && span.state != State::Syscall, "{span:?}");
        // The spans of a goroutine follow each other without gaps.
        let goroutine = &trace.goroutines[span.g as usize];
        assert_eq!(span.start, last[span.g as usize].unwrap_or(goroutine.first), "{span:?}");
        last[span.g as usize] = Some(span.end);
    }
    for (goroutine, last) in trace.goroutines.iter().zip(last) {
        assert_eq!(last, Some(goroutine.ended.unwrap_or(trace.end)), "{goroutine:?}");
    }
    let summary = summarise(trace, 5);
    assert!(summary.latencies.longest.len() <= 5 && summary.blocked_by_site.len() <= 5);
    summary
}

/// A random number that is the same in each run (splitmix64).
pub(crate) fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *seed;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
