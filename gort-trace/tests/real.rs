//! Traces of Go and of gort, from files and fresh ones: known facts about them come out.

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{GO, GORT, check};
use gort_trace::{Cause, State, Summary, Trace, summarise};

fn read(file: &[u8]) -> (Trace<'_>, Summary) {
    let trace = Trace::read(file).unwrap();
    assert_eq!(trace.damage, None);
    check(&trace);
    let summary = summarise(&trace, 100);
    for p in &summary.procs {
        assert_eq!(p.running_ns + p.syscall_ns + p.scheduling_ns + p.idle_ns, summary.span_ns, "{p:?}");
    }
    (trace, summary)
}

fn reasons(summary: &Summary) -> Vec<&str> {
    summary.blocked_by_reason.iter().map(|blocked| &*blocked.reason).collect()
}

/// The functions that goroutines began with.
fn functions<'t>(trace: &'t Trace<'_>) -> Vec<&'t str> {
    trace.goroutines.iter().map(|goroutine| trace.strings.get(goroutine.function)).collect()
}

#[test]
fn go_is_understood() {
    let (trace, summary) = read(GO);
    assert_eq!((summary.totals.generations, summary.totals.procs, summary.totals.max_procs), (2, 4, 4));
    assert_eq!((&*summary.tasks[0].name, summary.tasks[0].count), ("batch", 1));
    assert_eq!((&*summary.regions[0].name, summary.logs), ("collect", 1));
    assert!(summary.runtime.iter().any(|range| range.name == "GC"), "{:?}", summary.runtime);
    assert!(summary.totals.samples > 0);
    for reason in ["chan receive", "sleep", "system goroutine wait"] {
        assert!(reasons(&summary).contains(&reason), "{:?}", reasons(&summary));
    }
    assert!(functions(&trace).contains(&"main.worker"), "{:?}", functions(&trace));
    // The sleep of more than a second is in both generations.
    let sleep = summary.blocked_by_site.iter().find(|blocked| blocked.reason == "sleep").unwrap();
    assert!(sleep.site.starts_with("main.main (") && sleep.max_ns > 1_100_000_000, "{sleep:?}");
    let call = summary.calls.sites.iter().find(|blocked| blocked.site.contains("main.main.func")).unwrap();
    assert!(call.max_ns >= 5_000_000 && summary.calls.lost_p >= 1, "{:?}", summary.calls);
}

#[test]
fn gort_is_understood() {
    let (trace, summary) = read(GORT);
    assert_eq!((summary.totals.generations, summary.totals.procs), (2, 3));
    assert_eq!((&*summary.tasks[0].name, &*summary.regions[0].name, summary.logs), ("batch", "feed", 1));
    for reason in ["sleep", "sync.Join", "sync.Mutex.Lock"] {
        assert!(reasons(&summary).contains(&reason), "{:?}", reasons(&summary));
    }
    assert_eq!((summary.calls.count, summary.calls.lost_p), (2, 2));
    assert!(trace.spans.iter().any(|span| trace.strings.get(span.reason) == "preempted"));
    assert!((0..trace.goroutines.len()).any(|g| trace.goroutine_name(g as u32) == "feeder"));
}

/// A writer whose bytes can be read afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_gort_writes_now_can_be_read() {
    let written = Shared::default();
    gort::trace::start(written.clone()).unwrap();
    gort::run(|| {
        let (send, receive) = gort::chan::bounded::<u32>(0);
        let receiver = gort::Builder::new().name("receiver".into()).spawn(move || receive.iter().count());
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let send = send.clone();
                gort::spawn(move || (0..50).for_each(|n| send.send(n).unwrap()))
            })
            .collect();
        drop(send);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(receiver.unwrap().join().unwrap(), 200);
        gort::spawn(|| gort::blocking(|| std::thread::sleep(Duration::from_millis(3)))).join().unwrap();
    });
    gort::trace::stop().unwrap();
    let bytes = written.0.lock().unwrap().clone();
    let (trace, summary) = read(&bytes);
    let created = trace.goroutines.iter().filter(|goroutine| goroutine.created).count();
    assert!(created >= 7, "{created}");
    let receiver = (0..).position(|g| trace.goroutine_name(g) == "receiver").unwrap();
    let waits = trace.spans.iter().filter(|span| span.g == receiver as u32 && span.state == State::Waiting);
    assert!(waits.clone().count() > 0);
    assert!(waits.clone().all(|span| trace.strings.get(span.reason) == "chan receive"));
    // Each wait of it was ended by a goroutine that sent.
    let woken = trace.spans.iter().filter(|span| span.g == receiver as u32 && span.cause == Cause::Unblocked);
    assert!(woken.count() > 0);
    let call = trace.spans.iter().filter(|span| span.state == State::Syscall).map(|span| span.length());
    assert!(call.sum::<u64>() >= 3_000_000, "{:?}", summary.calls);
}
