//! A process with little to do: one M at a time wakes up, runs what is ready and waits again, and sysmon
//! sleeps. If what is ready takes long all the same, others run beside it.

#[path = "../common/mod.rs"]
mod common;

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Watchdog;
use gort::io::Pollable;

/// A goroutine that answers each byte that comes through a pipe, after `work`.
fn answer_after(work: impl Fn() + Send + 'static) -> (PipeWriter, PipeReader) {
    let (question, asked) = std::io::pipe().unwrap();
    let (reply, mut replied) = std::io::pipe().unwrap();
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::fcntl(as_raw(&question), libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    gort::spawn(move || {
        let mut question = Pollable::new(question);
        let mut byte = [0];
        while question.read(&mut byte).unwrap() == 1 {
            work();
            replied.write_all(&byte).unwrap();
        }
    });
    (asked, reply)
}

fn as_raw(fd: impl AsFd) -> i32 {
    use std::os::fd::AsRawFd;
    fd.as_fd().as_raw_fd()
}

/// Asks and waits for the answer, from this thread.
fn ask(pair: &mut (PipeWriter, PipeReader)) {
    pair.0.write_all(b"x").unwrap();
    pair.1.read_exact(&mut [0]).unwrap();
}

/// How often sysmon's thread has waited so far; `None`: it has only been started, and has no name yet.
fn switches_of_sysmon() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let status = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("status")).ok();
    let sysmon = entries.filter_map(status).find(|text| text.starts_with("Name:\tgort-sysmon\n"))?;
    let line = sysmon.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Many short answers, a few milliseconds apart, so that the runtime is idle in between and expects more of
/// them.
fn warm_up(pair: &mut (PipeWriter, PipeReader), answers: u32) {
    for _ in 0..answers {
        ask(pair);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn sysmon_sleeps_while_answers_are_short() {
    if !common::alone("sysmon_sleeps_while_answers_are_short") {
        return;
    }
    let _watchdog = Watchdog::start();
    gort::runtime::set_max_procs(2);
    let mut pair = answer_after(|| {});
    const ANSWERS: u32 = 200;
    // Other processes may keep a goroutine from running briefly, and then sysmon is woken for a second.
    let quiet = || {
        let before = switches_of_sysmon().expect("sysmon runs");
        warm_up(&mut pair, ANSWERS);
        switches_of_sysmon().expect("sysmon runs") - before < u64::from(ANSWERS) / 4
    };
    common::until("sysmon runs", || switches_of_sysmon().is_some());
    assert!(std::iter::repeat_with(quiet).take(50).any(|quiet| quiet), "sysmon wakes up for each answer");
}

/// One goroutine is in the middle of `work` until another one has answered. `work` gets a flag that is set
/// when it may end.
fn is_run_beside(name: &str, procs: usize, work: impl Fn(&AtomicBool) + Send + 'static) {
    if !common::alone(name) {
        return;
    }
    let _watchdog = Watchdog::start();
    gort::runtime::set_max_procs(procs);
    let done = Arc::new(AtomicBool::new(false));
    let long = Arc::new(AtomicBool::new(false));
    let (until, is_long) = (done.clone(), long.clone());
    let mut first = answer_after(move || {
        if is_long.load(Ordering::Relaxed) {
            work(&until);
        }
    });
    let mut second = answer_after(|| {});
    for _ in 0..5 {
        done.store(false, Ordering::Relaxed);
        long.store(false, Ordering::Relaxed);
        warm_up(&mut first, 600); // longer than a second, so that answers are taken to be short again
        long.store(true, Ordering::Relaxed);
        first.0.write_all(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(1));
        ask(&mut second);
        done.store(true, Ordering::Relaxed);
        first.1.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn others_run_beside_a_call_that_blocks_unmarked() {
    is_run_beside("others_run_beside_a_call_that_blocks_unmarked", 2, |done| {
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn others_run_beside_a_call_that_blocks_unmarked_on_one_p() {
    is_run_beside("others_run_beside_a_call_that_blocks_unmarked_on_one_p", 1, |done| {
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn others_run_beside_a_marked_call() {
    is_run_beside("others_run_beside_a_marked_call", 2, |done| {
        gort::blocking(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    });
}

#[test]
fn others_run_beside_an_endless_loop() {
    is_run_beside("others_run_beside_an_endless_loop", 2, |done| while !done.load(Ordering::Relaxed) {});
}

#[test]
fn others_run_beside_an_endless_loop_on_one_p() {
    is_run_beside(
        "others_run_beside_an_endless_loop_on_one_p",
        1,
        |done| {
            while !done.load(Ordering::Relaxed) {}
        },
    );
}

#[test]
fn timers_fire_beside_a_goroutine_that_was_expected_to_be_short() {
    is_run_beside("timers_fire_beside_a_goroutine_that_was_expected_to_be_short", 2, |done| {
        let fired = Arc::new(AtomicBool::new(false));
        let set = fired.clone();
        let _timer =
            gort::time::after_func(Duration::from_millis(1), move || set.store(true, Ordering::Relaxed));
        while !done.load(Ordering::Relaxed) || !fired.load(Ordering::Relaxed) {}
    });
}

#[test]
fn coarse_sleeps_are_never_early_and_end_together() {
    gort::run(|| {
        let slack = Duration::from_millis(5);
        let sleepers: Vec<_> = (0..50u64)
            .map(|n| {
                gort::spawn(move || {
                    let (start, wanted) = (Instant::now(), Duration::from_micros(100 * n));
                    gort::time::sleep_with_slack(wanted, slack);
                    assert!(start.elapsed() >= wanted);
                })
            })
            .collect();
        common::join_all(sleepers);
        gort::time::sleep_with_slack(Duration::from_millis(1), Duration::ZERO);
    });
}

/// A program may close all descriptors that it does not know, as daemons do.
#[test]
fn sysmon_wakes_up_without_its_timer() {
    if !common::alone("sysmon_wakes_up_without_its_timer") {
        return;
    }
    let _watchdog = Watchdog::start();
    gort::runtime::set_max_procs(1);
    let timers = || {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        entries.filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|file| file.as_os_str() == "anon_inode:[timerfd]")
        })
    };
    for round in 0..3 {
        assert_eq!(gort::run(|| gort::spawn(|| 5).join().unwrap()), 5);
        common::until("there is a timer, or it was closed", || round > 0 || timers().count() == 1);
        // Long enough that sysmon sleeps, and its timer is not set.
        std::thread::sleep(Duration::from_millis(1500));
        for timer in timers() {
            let number: i32 = timer.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: this is what the test is about: it is the runtime's.
            assert_eq!(unsafe { libc::close(number) }, 0);
        }
        let done = Arc::new(AtomicBool::new(false));
        let (until, set) = (done.clone(), done.clone());
        let endless = gort::spawn(move || while !until.load(Ordering::Relaxed) {});
        gort::spawn(move || set.store(true, Ordering::Relaxed)).join().unwrap();
        endless.join().unwrap();
    }
}
