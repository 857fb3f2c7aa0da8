//! Made-up traces, event by event: what the reader makes of them, and what it says about those that are
//! wrong.

mod common;

use common::writer::{File, at, ev::*, status::*};
use common::{check, watchdog::Watchdog};
use gort_trace::{Cause, NONE, State, Trace};

/// What a goroutine did: states with their begins and ends.
fn states(trace: &Trace<'_>, id: u64) -> Vec<(State, u64, u64)> {
    let spans = trace.spans.iter().filter(|span| trace.goroutine_id(span.g) == Some(id));
    spans.map(|span| (span.state, span.start, span.end)).collect()
}

/// A generation in which goroutine 1 runs on P 0 and M 7 from the time 10 on, then these events on that M.
fn running(events: &[common::writer::Event]) -> File {
    let mut all = vec![at(10, PROC_STATUS, &[0, P_RUNNING]), at(10, GO_STATUS, &[1, 7, G_RUNNING])];
    all.extend_from_slice(events);
    let mut file = File::new();
    file.events(1, 7, &all);
    file
}

#[test]
fn a_goroutine_has_a_state_at_each_time() {
    let mut file = running(&[
        at(20, GO_CREATE, &[2, 1, 2]),
        at(30, GO_BLOCK, &[1, 2]),
        at(35, GO_START, &[2, 1]),
        at(40, GO_LABEL, &[5]),
        at(50, GO_UNBLOCK, &[1, 1, 2]),
        at(60, GO_STOP, &[2, 0]),
        at(61, GO_START, &[1, 2]),
        at(80, GO_DESTROY, &[]),
        at(82, GO_START, &[2, 2]),
        at(90, GO_DESTROY, &[]),
        at(95, PROC_STOP, &[]),
    ]);
    file.strings(1, &["chan receive", "preempted", "app::serve", "app.rs", "named"]);
    file.stacks(1, 1, &[&[[3, 4, 8]], &[[3, 4, 9]]]).end(1);
    let trace = Trace::read(&file.0).unwrap();
    assert_eq!(trace.damage, None);
    use State::*;
    assert_eq!(
        states(&trace, 1),
        [(Running, 10, 30), (Waiting, 30, 50), (Runnable, 50, 61), (Running, 61, 80)]
    );
    assert_eq!(
        states(&trace, 2),
        [(Runnable, 20, 35), (Running, 35, 60), (Runnable, 60, 82), (Running, 82, 90)]
    );
    let unblocked = trace.spans.iter().find(|span| span.cause == Cause::Unblocked).unwrap();
    assert_eq!(trace.goroutine_id(unblocked.by), Some(2));
    assert_eq!((trace.goroutine_name(0), trace.goroutine_name(1)), ("app::serve", "named"));

    let summary = check(&trace);
    assert_eq!((summary.span_ns, summary.totals.goroutines, summary.totals.ended), (95, 2, 2));
    assert_eq!(summary.start_unix_ns, 1_700_000_000_000_000_000);
    let p = &summary.procs[0];
    assert_eq!((p.p, p.running_ns, p.syscall_ns, p.scheduling_ns, p.idle_ns), (0, 72, 0, 13, 10));
    let longest = &summary.latencies.longest[0];
    assert_eq!((longest.ns, longest.goroutine, &*longest.cause), (22, 2, "stopped: preempted"));
    let blocked = &summary.blocked_by_site[0];
    assert_eq!((&*blocked.reason, blocked.total_ns, blocked.count), ("chan receive", 20, 1));
    assert_eq!(blocked.site, "app::serve (app.rs:9)");
}

#[test]
fn sequence_numbers_decide_where_clocks_disagree() {
    // M 8 starts goroutine 2 at a time at which, by the clock of M 7, it does not exist yet.
    let mut file = running(&[at(100, GO_CREATE, &[2, 0, 0]), at(110, GO_UNBLOCK, &[3, 1, 0])]);
    file.events(
        1,
        8,
        &[
            at(11, PROC_STATUS, &[1, P_RUNNING]),
            at(12, GO_STATUS, &[3, u64::MAX, G_WAITING]),
            at(13, GO_START, &[2, 1]),
            at(14, GO_STOP, &[0, 0]),
            at(15, GO_START, &[3, 2]),
        ],
    );
    file.end(1);
    let trace = Trace::read(&file.0).unwrap();
    check(&trace);
    assert_eq!(trace.damage, None);
    // Times never go back: the late events happen at once.
    assert_eq!(states(&trace, 2)[..2], [(State::Runnable, 100, 100), (State::Running, 100, 100)]);
    assert_eq!(states(&trace, 3)[1..], [(State::Runnable, 110, 110), (State::Running, 110, 110)]);
}

#[test]
fn a_call_may_lose_its_p() {
    let mut file = running(&[at(20, GO_SYSCALL_BEGIN, &[1, 0]), at(60, GO_SYSCALL_END_BLOCKED, &[])]);
    file.events(1, 8, &[at(40, PROC_STEAL, &[0, 2, 7]), at(45, PROC_START, &[0, 3])]);
    file.end(1);
    let trace = Trace::read(&file.0).unwrap();
    assert_eq!(trace.damage, None);
    let calls: Vec<_> = trace.spans.iter().filter(|span| span.state == State::Syscall).collect();
    assert_eq!(calls.iter().map(|span| (span.start, span.end)).collect::<Vec<_>>(), [(20, 40), (40, 60)]);
    assert_eq!((calls[0].p, calls[1].p, calls[1].cause), (0, NONE, Cause::LostProc));
    let summary = check(&trace);
    assert_eq!((summary.calls.count, summary.calls.with_p_ns, summary.calls.lost_p), (1, 20, 1));
    assert_eq!(summary.procs[0].steals, 1);
}

#[test]
fn tasks_and_regions_have_lengths() {
    let mut file = running(&[
        at(20, TASK_BEGIN, &[1, 0, 1, 0]),
        at(25, REGION_BEGIN, &[1, 2, 0]),
        at(30, REGION_BEGIN, &[1, 1, 0]),
        at(31, REGION_END, &[1, 1, 0]),
        at(45, REGION_END, &[1, 2, 0]),
        at(50, TASK_END, &[1, 0]),
        at(60, TASK_BEGIN, &[2, 0, 1, 0]),
        at(70, GO_STOP, &[0, 0]),
    ]);
    file.strings(1, &["request", "parse"]).end(1);
    let summary = check(&Trace::read(&file.0).unwrap());
    let task = &summary.tasks[0];
    assert_eq!((&*task.name, task.count, task.unfinished, task.total_ns), ("request", 2, 1, 40));
    let lengths = summary.regions.iter().map(|region| (&*region.name, region.total_ns));
    assert_eq!(lengths.collect::<Vec<_>>(), [("parse", 20), ("request", 1)]);
}

#[test]
fn what_goes_on_in_the_next_generation_is_one_state() {
    let mut file = running(&[at(20, GO_BLOCK, &[1, 0])]);
    file.strings(1, &["sleep"]).end(1);
    // The second generation has other ids for strings.
    file.events(
        2,
        9,
        &[
            at(70, PROC_STATUS, &[0, P_RUNNING]),
            at(70, GO_STATUS, &[1, u64::MAX, G_WAITING]),
            at(80, GO_UNBLOCK, &[1, 1, 0]),
            at(85, GO_START, &[1, 2]),
            at(90, GO_BLOCK, &[2, 0]),
        ],
    );
    file.strings(2, &["chan send", "sleep"]).end(2);
    let trace = Trace::read(&file.0).unwrap();
    assert_eq!((trace.damage.as_ref(), trace.generations.len()), (None, 2));
    assert_eq!(states(&trace, 1)[1], (State::Waiting, 20, 80));
    let summary = check(&trace);
    assert_eq!(summary.blocked_by_reason.len(), 1);
    assert_eq!((summary.blocked_by_reason[0].count, summary.blocked_by_reason[0].unfinished), (2, 1));
}

#[test]
fn a_cut_file_has_all_before_the_cut() {
    let mut file = running(&[at(20, GO_STOP, &[0, 0])]);
    file.end(1);
    let whole = file.0.len();
    file.events(2, 7, &[at(30, PROC_STATUS, &[0, P_RUNNING])]);
    let trace = Trace::read(&file.0).unwrap();
    let damage = trace.damage.clone().unwrap();
    assert!(damage.truncated && damage.what.contains("inside of generation 2"), "{damage}");
    assert_eq!((trace.generations.len(), damage.offset), (1, file.0.len()));
    check(&trace);
    assert!(Trace::read(&file.0[..whole - 1]).unwrap_err().truncated);
    assert!(Trace::read(&file.0[..16]).unwrap_err().what.contains("no generation"));
}

/// The message about a trace that is wrong.
fn message(file: &File) -> String {
    match Trace::read(&file.0) {
        Ok(trace) => trace.damage.expect("the file is wrong").to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_wrong_is_named() {
    let cases: [(&[common::writer::Event], &str); 9] = [
        (&[at(20, GO_START, &[5, 1])], "GoStart on M 7 in generation 1 never becomes possible: goroutine 5"),
        (&[at(20, GO_UNBLOCK, &[1, 1, 0])], "goroutine 1 would have to be Waiting"),
        (&[at(20, PROC_START, &[4, 1])], "its M has a P that no other M takes"),
        (&[at(20, GO_CREATE, &[1, 0, 0])], "GoCreate: goroutine 1 exists already"),
        (&[at(20, GO_SYSCALL_END, &[])], "goroutine 1 is Running, in no call"),
        (&[at(20, GO_STATUS, &[2, 0, 77])], "goroutine 2 has the unknown status 77"),
        (&[at(20, GO_BLOCK, &[9, 0])], "generation 1 has no string 9"),
        (&[at(20, GO_STOP, &[0, 3])], "generation 1 has no stack 3"),
        (&[at(20, 99, &[])], "unknown event type 99"),
    ];
    for (events, wanted) in cases {
        let mut file = running(events);
        file.end(1);
        let found = message(&file);
        assert!(found.contains(wanted), "{found}, not {wanted}");
    }
    assert!(message(running(&[]).raw(2, 0, 0, &[])).contains("generation 2 inside of generation 1"));
    let mut without_clock = running(&[]);
    without_clock.0.push(52);
    assert!(message(&without_clock).contains("no clock frequency"));
    let mut large = File::new();
    large.0.push(1);
    [1, 1, 1, 1 << 40].into_iter().for_each(|value| common::writer::number(&mut large.0, value));
    assert!(message(&large).contains("1099511627776 bytes; at most 65536"), "{}", message(&large));
}

/// Thousands of Ms wait for the same state of a goroutine, which comes thousands of times and is used by one
/// M each time. A reader that tries all of them each time takes hours.
#[test]
fn many_ms_that_wait_for_the_same_cost_little() {
    const MS: u64 = 40_000;
    let _watchdog = Watchdog::start("many_ms_that_wait_for_the_same_cost_little");
    let mut file = File::new();
    // Each of them wants to be the first that starts goroutine 1; GoStatus sets its number back.
    for m in 1..=MS {
        file.events(
            1,
            m,
            &[
                at(10, PROC_STATUS, &[m, P_RUNNING]),
                at(10 + m, GO_START, &[1, 1]),
                at(10 + m, GO_STOP, &[0, 0]),
            ],
        );
    }
    let statuses: Vec<_> = (0..MS).map(|n| at(1_000_000 + n, GO_STATUS, &[1, 0, G_RUNNABLE])).collect();
    for batch in statuses.chunks(5_000) {
        file.events(1, MS + 1, batch);
    }
    file.end(1);
    let trace = Trace::read(&file.0).unwrap();
    assert_eq!(trace.damage, None);
    assert_eq!(check(&trace).procs.len(), MS as usize);
}
