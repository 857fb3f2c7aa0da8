//! `GODEBUG=schedtrace=…` prints the lines that Go prints.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{child, is_child, run_ok, spin_until};

/// The value of `key=` in a line, up to the next space.
#[track_caller]
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    match line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')) {
        Some(value) => value,
        None => panic!("no {key} in {line}"),
    }
}

/// Runs hogs, a sleeper, a bound goroutine and a blocking call for some time, on two Ps.
fn busy_program() {
    gort::runtime::set_max_procs(2);
    gort::run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..6 {
            let stop = stop.clone();
            gort::spawn(move || while !stop.load(Ordering::Relaxed) {});
        }
        let stop_blocking = stop.clone();
        gort::spawn(move || {
            gort::blocking(|| spin_until("stopped", || stop_blocking.load(Ordering::Relaxed)))
        });
        gort::spawn(|| {
            let _bound = gort::runtime::os_thread_guard();
            gort::sleep(Duration::from_secs(1000));
        });
        gort::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_brief_form_is_one_line_at_a_time() {
    if is_child("busy") {
        return busy_program();
    }
    let mut command = child("the_brief_form_is_one_line_at_a_time", "busy");
    command.env("GODEBUG", "schedtrace=50,unknowntogort=1");
    let printed = run_ok(command);
    let lines: Vec<_> = printed.stderr.lines().filter(|line| line.starts_with("SCHED ")).collect();
    assert!(lines.len() >= 4, "{}", printed.stderr);
    let mut before = 0;
    for line in &lines {
        let at: u64 = line["SCHED ".len()..line.find("ms: ").unwrap()].parse().unwrap();
        assert!(at > before, "{}", printed.stderr);
        before = at;
        for key in ["idleprocs", "threads", "spinningthreads", "needspinning", "idlethreads", "runqueue"] {
            field(line, key).parse::<u32>().unwrap();
        }
        let (_, queues) = line.split_once(" [").unwrap();
        let queues = queues.strip_suffix(']').unwrap();
        let lengths: Vec<usize> = queues.split(' ').map(|length| length.parse().unwrap()).collect();
        assert_eq!(lengths.len(), field(line, "gomaxprocs").parse::<usize>().unwrap());
    }
    // Two of six hogs run, the others wait.
    let waits = |line: &&&str| field(line, "runqueue") != "0" && field(line, "gomaxprocs") == "2";
    assert!(lines.iter().any(|line| waits(&line)), "{}", printed.stderr);
}

#[test]
fn the_detailed_form_has_every_p_m_and_g() {
    if is_child("busy") {
        return busy_program();
    }
    let mut command = child("the_detailed_form_has_every_p_m_and_g", "busy");
    // A key in gort's own variable overrides the same key in Go's.
    command.env("GODEBUG", "schedtrace=100000,scheddetail=1").env("GORT_DEBUG", "schedtrace=100");
    let printed = run_ok(command);
    let with = |start: &str| -> Vec<&str> {
        printed.stderr.lines().filter(|line| line.trim_start().starts_with(start)).collect()
    };
    let summary = with("SCHED ");
    assert!(summary.len() >= 2, "{}", printed.stderr);
    for key in ["gcwaiting", "nmidlelocked", "stopwait", "sysmonwait"] {
        field(summary[0], key);
    }
    for line in with("P1: ") {
        for key in ["status", "schedtick", "syscalltick", "m", "runqsize", "timerslen"] {
            field(line, key);
        }
    }
    assert!(!with("P1: ").is_empty() && !with("M0: ").is_empty(), "{}", printed.stderr);
    for line in with("M0: ") {
        for key in ["p", "curg", "mallocing", "locks", "spinning", "blocked", "lockedg"] {
            field(line, key);
        }
    }
    let goroutines = with("G");
    let some = |what: &str| goroutines.iter().any(|line| line.contains(what));
    assert!(some("status=4(sleep)") && some("status=2()") && some("status=3()"), "{}", printed.stderr);
    let bound = goroutines.iter().find(|line| line.contains("sleep") && field(line, "lockedm") != "nil");
    assert!(bound.is_some(), "{}", printed.stderr);
}

#[test]
fn an_idle_program_is_traced_too() {
    if is_child("idle") {
        return gort::run(|| gort::sleep(Duration::from_secs(1)));
    }
    let mut command = child("an_idle_program_is_traced_too", "idle");
    command.env("GORT_DEBUG", "schedtrace=50");
    let printed = run_ok(command);
    let idle = printed
        .stderr
        .lines()
        .filter(|line| line.starts_with("SCHED ") && field(line, "idleprocs") == field(line, "gomaxprocs"));
    assert!(idle.count() >= 3, "{}", printed.stderr);
}

#[test]
fn bad_options_are_named() {
    if is_child("bad") {
        return gort::run(|| ());
    }
    let mut command = child("bad_options_are_named", "bad");
    command.env("GORT_DEBUG", "schedtrace=often,sheddetail=1");
    let printed = run_ok(command);
    assert!(printed.stderr.contains("\"schedtrace=often\" is ignored"), "{}", printed.stderr);
    assert!(printed.stderr.contains("there is no option \"sheddetail\""), "{}", printed.stderr);
    assert!(!printed.stderr.contains("SCHED"), "{}", printed.stderr);
}
