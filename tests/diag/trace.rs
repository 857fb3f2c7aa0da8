//! Execution traces: Go's tools accept them and show what the program did, whatever it did; no step is
//! missing; and what goes wrong while one is made is reported.

#[path = "../common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::traces::{
    assert_has, blocks_in_a_call, mixed_work, overflow_the_logs, parsed, transitions, waits_for_a_channel,
    waits_for_the_network,
};
use common::{Procs, TempDir, amount, child, full, go, is_child, join_all, named, run, run_ok, until};
use gort::sync::WaitGroup;
use gort::trace::Summary;

const TICK: Duration = Duration::from_millis(1);

/// A trace in a temporary file.
struct Trace {
    dir: TempDir,
    summary: Summary,
}

/// A trace of `f`, which runs in a goroutine. Nothing may be missing in it, and Go must accept it.
#[track_caller]
fn traced(f: impl FnOnce() + Send + 'static) -> Trace {
    let dir = TempDir::new();
    gort::trace::start(File::create(dir.path().join("trace")).unwrap()).unwrap();
    assert!(gort::trace::is_enabled());
    gort::run(f);
    let summary = gort::trace::stop().unwrap();
    assert!(!gort::trace::is_enabled());
    let trace = Trace { dir, summary };
    assert_eq!((trace.summary.repairs, trace.summary.dropped_generations), (0, 0), "{:?}", trace.summary);
    assert!(trace.summary.events > 0 && trace.summary.generations > 0, "{:?}", trace.summary);
    trace
}

impl Trace {
    fn file(&self) -> PathBuf {
        self.dir.path().join("trace")
    }

    /// All events, as Go prints them. `None`: there is no Go here.
    #[track_caller]
    fn parsed(&self) -> Option<String> {
        parsed(&self.file())
    }

    /// Go's profile of this kind, made from the trace: the stacks, as text.
    #[track_caller]
    fn profile(&self, kind: &str) -> Option<String> {
        let mut make = go(&["tool", "trace", &format!("-pprof={kind}")])?;
        let output = make.arg(self.file()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = self.dir.path().join(kind);
        std::fs::write(&file, output.stdout).unwrap();
        let mut show = go(&["tool", "pprof", "-traces"])?;
        show.arg(&file);
        Some(run_ok(show).stdout)
    }
}

#[test]
fn go_accepts_traces_of_one_to_eight_ps() {
    for procs in [1, 2, 3, 4, 8] {
        let _procs = Procs::set(procs);
        let trace = traced(|| mixed_work(20));
        let Some(parsed) = trace.parsed() else { continue };
        for (states, reason) in [
            ("NotExist->Runnable", ""),
            ("Runnable->Running", ""),
            ("Running->NotExist", ""),
            ("Running->Waiting", "chan receive"),
            ("Running->Waiting", "sleep"),
            ("Running->Runnable", "yield"),
            ("Waiting->Runnable", ""),
        ] {
            assert_has(&parsed, states, reason);
        }
    }
}

#[test]
fn preemption_storms() {
    for procs in [1, 3] {
        let _procs = Procs::set(procs);
        let trace = traced(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let hogs = (0..8).map(|_| {
                let stop = Arc::clone(&stop);
                gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
            });
            let hogs: Vec<_> = hogs.collect();
            let before = gort::runtime::stats().preempted_by_signal;
            until("there were preemptions", || gort::runtime::stats().preempted_by_signal > before + 20);
            stop.store(true, Ordering::Relaxed);
            join_all(hogs);
        });
        let Some(parsed) = trace.parsed() else { continue };
        let count = transitions(&parsed, "Running->Runnable", "preempted");
        assert!(count >= 20, "{count} preemptions");
    }
}

#[test]
fn blocking_calls_and_hand_offs() {
    let _procs = Procs::set(2);
    let trace = traced(|| {
        let marked = (0..6).map(|_| {
            gort::spawn(|| {
                for round in 0..10 {
                    gort::blocking(|| std::thread::sleep(if round % 2 == 0 { TICK * 10 } else { TICK / 50 }));
                }
            })
        });
        let mut all: Vec<_> = marked.collect();
        for _ in 0..3 {
            // Not marked: sysmon takes the P away.
            all.push(gort::spawn(|| (0..4).for_each(|_| std::thread::sleep(TICK * 30))));
        }
        mixed_work(8);
        join_all(all);
    });
    let Some(parsed) = trace.parsed() else { return };
    assert_has(&parsed, "Running->Syscall", "");
    // Its P was taken away meanwhile.
    assert_has(&parsed, "Syscall->Runnable", "");
    assert_has(&parsed, "Syscall->Running", "");
}

#[test]
fn the_number_of_ps_changes() {
    let _procs = Procs::set(4);
    let trace = traced(|| {
        let busy = gort::spawn(|| mixed_work(30));
        let calls = gort::spawn(|| (0..20).for_each(|_| gort::blocking(|| std::thread::sleep(TICK))));
        for procs in [1, 7, 2, 5, 1, 3, 8, 4] {
            gort::runtime::set_max_procs(procs);
            gort::sleep(TICK * 3);
        }
        join_all([busy, calls]);
    });
    let _accepted = trace.parsed();
}

#[test]
fn bound_goroutines_and_threads_that_end() {
    let _procs = Procs::set(3);
    let trace = traced(|| {
        let bound = (0..6).map(|id| {
            gort::spawn(move || {
                gort::runtime::lock_os_thread();
                for _ in 0..10 {
                    gort::sleep(TICK);
                    gort::yield_now();
                }
                // The others end bound, and their threads with them.
                if id % 2 == 0 {
                    gort::runtime::unlock_os_thread();
                }
            })
        });
        let bound: Vec<_> = bound.collect();
        mixed_work(10);
        join_all(bound);
    });
    let _accepted = trace.parsed();
}

#[test]
fn a_hundred_thousand_goroutines() {
    let count = amount(100_000, 1_000_000);
    let _procs = Procs::set(4);
    let trace = traced(move || {
        let group = WaitGroup::new();
        for _ in 0..count {
            group.go(|| gort::sleep(TICK));
        }
        group.wait();
    });
    let Some(parsed) = trace.parsed() else { return };
    let made = transitions(&parsed, "NotExist->Runnable", "");
    let ended = transitions(&parsed, "Running->NotExist", "");
    assert!(made >= count && ended >= count, "{made} made, {ended} ended");
}

#[test]
fn tasks_regions_messages_and_names() {
    let _procs = Procs::set(2);
    let trace = traced(|| {
        let task = gort::trace::task("a task of the test");
        let part = task.task("a part of it");
        {
            let _outer = task.region("outer region");
            let _inner = gort::trace::region("inner region");
            gort::trace::log("category", "a message");
            part.log("category", &"long ".repeat(1000));
        }
        drop(part);
        drop(task);
        named("a name that is long enough to need several records", gort::yield_now).join().unwrap();
    });
    let Some(parsed) = trace.parsed() else { return };
    for text in [
        "a task of the test",
        "a part of it",
        "RegionBegin",
        "outer region",
        "inner region",
        "RegionEnd",
        "a message",
        "long long",
        "a name that is long enough to need several records",
    ] {
        assert!(parsed.contains(text), "no {text:?}");
    }
}

#[test]
fn profiles_that_go_makes_of_a_trace_show_rust_functions() {
    let _procs = Procs::set(2);
    let trace = traced(|| {
        join_all([
            gort::spawn(waits_for_the_network),
            gort::spawn(waits_for_a_channel),
            gort::spawn(blocks_in_a_call),
        ]);
    });
    for (kind, function) in [
        ("net", "waits_for_the_network"),
        ("sync", "waits_for_a_channel"),
        ("syscall", "blocks_in_a_call"),
        ("sched", "waits_for_a_channel"),
    ] {
        let Some(profile) = trace.profile(kind) else { return };
        assert!(profile.contains(function), "the profile {kind} has no {function}:\n{profile}");
    }
}

#[test]
fn goroutines_that_wait_when_the_trace_begins_are_in_it() {
    let _procs = Procs::set(2);
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let early = named("early bird", move || receiver.recv());
    gort::run(move || until("it waits", || gort::runtime::stats().goroutines.waiting >= 1));
    let trace = traced(move || {
        gort::sleep(TICK * 20);
        drop(sender);
        gort::sleep(TICK * 20);
    });
    assert!(early.join().unwrap().is_err());
    // Go's tools show it, but do not print it.
    let bytes = std::fs::read(trace.file()).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("early bird"), "its name is missing");
    let Some(parsed) = trace.parsed() else { return };
    assert_has(&parsed, "Undetermined->Waiting", "");
}

#[test]
fn a_trace_longer_than_a_generation() {
    let _procs = Procs::set(2);
    let trace = traced(|| {
        let limit = std::time::Instant::now() + Duration::from_millis(2500);
        while std::time::Instant::now() < limit {
            mixed_work(3);
        }
    });
    assert!(trace.summary.generations >= 2, "{:?}", trace.summary);
    let _accepted = trace.parsed();
}

#[test]
fn one_trace_at_a_time() {
    let _procs = Procs::set(2);
    let none = gort::trace::stop().unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::NotFound);
    assert!(none.to_string().contains("gort::trace::start"), "{none}");
    gort::trace::start(io::sink()).unwrap();
    let second = gort::trace::start(io::sink()).unwrap_err();
    assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
    assert!(second.to_string().contains("gort::trace::stop"), "{second}");
    gort::trace::stop().unwrap();
    // And again.
    let trace = traced(|| mixed_work(4));
    let _accepted = trace.parsed();
}

#[test]
fn traces_that_several_threads_begin_and_end_are_whole() {
    if !common::alone("traces_that_several_threads_begin_and_end_are_whole") {
        return;
    }
    let whole = Arc::new(AtomicU64::new(0));
    let threads = (0..4).map(|_| {
        let whole = Arc::clone(&whole);
        std::thread::spawn(move || {
            for _ in 0..amount(30, 1000) {
                if let Err(error) = gort::trace::start(io::sink()) {
                    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
                }
                gort::run(|| mixed_work(2));
                match gort::trace::stop() {
                    Ok(summary) => whole.fetch_add(summary.generations.min(1), Ordering::Relaxed),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
                        0
                    }
                };
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    assert!(whole.load(Ordering::Relaxed) > 0);
    assert!(!gort::trace::is_enabled());
}

/// A writer that calls the tracer, and panics at its second generation.
struct Panics(usize);

impl Write for Panics {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _may_be_asked = gort::trace::is_enabled();
        assert!(self.0 > 0, "no more");
        self.0 -= 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_panics_ends_the_trace() {
    let _procs = Procs::set(2);
    gort::trace::start(Panics(1)).unwrap();
    gort::run(|| {
        until("the trace has ended", || {
            mixed_work(1);
            !gort::trace::is_enabled()
        });
    });
    let error = gort::trace::stop().unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    // The next one is whole.
    let trace = traced(|| mixed_work(4));
    let _accepted = trace.parsed();
}

/// A writer that fails after some bytes.
struct Broken(usize);

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is full"));
        }
        let count = bytes.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_reported() {
    let _procs = Procs::set(2);
    let at_once = gort::trace::start(Broken(0)).unwrap_err();
    assert_eq!(at_once.kind(), io::ErrorKind::StorageFull);
    assert!(!gort::trace::is_enabled());
    gort::trace::start(Broken(100)).unwrap();
    gort::run(|| mixed_work(10));
    let later = gort::trace::stop().unwrap_err();
    assert_eq!(later.to_string(), "the disk is full");
    assert!(!gort::trace::is_enabled());
}

/// A writer that stands still while `go` is false, except for the header, and tells what it has written.
struct Slow {
    file: File,
    began: bool,
    go: Arc<AtomicBool>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while std::mem::replace(&mut self.began, true) && !self.go.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
        }
        self.written.lock().unwrap().extend_from_slice(bytes);
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[test]
fn a_writer_that_is_too_slow_costs_whole_generations() {
    if !common::alone("a_writer_that_is_too_slow_costs_whole_generations") {
        return;
    }
    gort::runtime::set_max_procs(2);
    let dir = TempDir::new();
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let (go, written) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
    let slow = |file| {
        let (go, written) = (Arc::clone(&go), Arc::clone(&written));
        Slow { file: File::create(file).unwrap(), began: false, go, written }
    };
    let (own_go, own_written) = (Arc::clone(&go), Arc::clone(&written));
    gort::trace::start(slow(&first)).unwrap();
    gort::run(move || {
        // A goroutine from before the gaps, which goes on after them.
        let (sender, receiver) = gort::chan::bounded::<()>(0);
        let until_the_end = gort::spawn(move || receiver.recv());
        let calls = Arc::new(AtomicBool::new(true));
        let own_calls = Arc::clone(&calls);
        let in_calls = gort::spawn(move || {
            while own_calls.load(Ordering::Relaxed) {
                gort::blocking(|| std::thread::sleep(TICK));
                std::thread::sleep(TICK * 20);
            }
        });
        for gap in ["first gap", "second gap"] {
            let ends_in_the_gap = named("ends-in-the-gap", || gort::sleep(TICK * 100));
            own_go.store(false, Ordering::Release);
            overflow_the_logs();
            ends_in_the_gap.join().unwrap();
            own_go.store(true, Ordering::Release);
            be_seen_after(gap, &own_written);
        }
        calls.store(false, Ordering::Relaxed);
        in_calls.join().unwrap();
        drop(sender);
        until_the_end.join().unwrap().unwrap_err();
    });
    let summary = gort::trace::stop().unwrap();
    assert!(summary.dropped_generations >= 2, "{summary:?}");
    assert_eq!(summary.repairs, 0, "{summary:?}");
    if let Some(parsed) = parsed(&first) {
        for gap in ["first gap", "second gap"] {
            assert_is_seen_after(&parsed, gap);
        }
    }

    // What a trace has lost, the next one does not miss.
    gort::trace::start(slow(&second)).unwrap();
    gort::run(move || be_seen_after("that trace", &written));
    let summary = gort::trace::stop().unwrap();
    assert_eq!(summary.repairs, 0, "{summary:?}");
    if let Some(parsed) = parsed(&second) {
        assert_is_seen_after(&parsed, "that trace");
    }
}

/// Does things that a trace shows if it goes on after the gap, until it has shown them.
fn be_seen_after(gap: &str, written: &Mutex<Vec<u8>>) {
    let text = format!("after the {gap}");
    mixed_work(10);
    until(&format!("something was written {text}"), || {
        let (sender, receiver) = gort::chan::bounded::<()>(0);
        let message = text.clone();
        let seen = named(&text.replace(' ', "-"), move || {
            gort::trace::log("test", &message);
            receiver.recv().unwrap_err();
        });
        gort::sleep(TICK * 20);
        drop(sender);
        seen.join().unwrap();
        // A generation is written at once, so the text is not cut.
        let fresh = std::mem::take(&mut *written.lock().unwrap());
        String::from_utf8_lossy(&fresh).contains(&text)
    });
}

/// The goroutine of [`be_seen_after`] was made, logged its message, waited for its channel and ended.
#[track_caller]
fn assert_is_seen_after(parsed: &str, gap: &str) {
    let text = format!("after the {gap}");
    assert!(parsed.contains(&text), "no message {text:?}");
    assert!(parsed.contains(&text.replace(' ', "-")), "no goroutine of that name");
    let message = parsed.lines().find(|line| line.contains(&text)).unwrap_or_default();
    let id =
        message.split_whitespace().find_map(|word| word.strip_prefix("G=")).expect("the message has a G");
    let about_it = |from_to: &str, reason: &str| {
        let (id, states) = (format!("GoID={id} "), format!(" {from_to} "));
        let of_it = |line: &&str| line.contains(&id) && line.contains(&states) && line.contains(reason);
        assert!(parsed.lines().any(|line| of_it(&line)), "G {id} was not seen {from_to} {reason}");
    };
    about_it("NotExist->Runnable", "");
    about_it("Running->Waiting", "chan receive");
    about_it("Running->NotExist", "");
}

#[test]
fn the_environment_asks_for_a_trace_of_a_whole_run() {
    if is_child("traced") {
        return gort::run(|| mixed_work(5));
    }
    let dir = TempDir::new();
    let file = dir.path().join("of a whole run");
    let mut command = child("the_environment_asks_for_a_trace_of_a_whole_run", "traced");
    run_ok({
        command.env("GORT_TRACE", &file);
        command
    });
    if let Some(parsed) = parsed(&file) {
        assert_has(&parsed, "Running->Waiting", "chan receive");
    }
    // A file that cannot be made does not keep the program from running.
    let mut command = child("the_environment_asks_for_a_trace_of_a_whole_run", "traced");
    command.env("GORT_TRACE", dir.path().join("missing/file"));
    let printed = run_ok(command);
    assert!(printed.stderr.contains("gort: GORT_TRACE="), "{}", printed.stderr);
    assert!(printed.stderr.contains("no trace is made"), "{}", printed.stderr);
}

#[test]
fn a_process_that_sigquit_ends_leaves_a_complete_trace() {
    const TEST: &str = "a_process_that_sigquit_ends_leaves_a_complete_trace";
    if is_child("quits") {
        return gort::run(|| {
            mixed_work(5);
            // Endless loops on all Ps do not matter.
            for _ in 0..4 {
                gort::spawn(|| while std::hint::black_box(true) {});
            }
            gort::trace::log("test", "the last words");
            // SAFETY: the signal goes to this process.
            assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGQUIT) }, 0);
            gort::sleep(Duration::from_secs(1000));
        });
    }
    let dir = TempDir::new();
    let file = dir.path().join("until the end");
    let mut command = child(TEST, "quits");
    command.env("GORT_TRACE", &file);
    let printed = run(command);
    assert_eq!(printed.status.code(), Some(2), "{}", printed.stderr);
    assert!(!printed.stderr.contains("the trace is not complete"), "{}", printed.stderr);
    if let Some(parsed) = parsed(&file) {
        assert!(parsed.contains("the last words"));
    }
}

#[test]
fn processes_that_inherit_the_name_of_a_file_do_not_share_it() {
    const TEST: &str = "processes_that_inherit_the_name_of_a_file_do_not_share_it";
    if is_child("inner") {
        return gort::run(|| mixed_work(5));
    }
    if is_child("outer") {
        gort::run(|| mixed_work(5));
        let printed = run_ok(child(TEST, "inner"));
        let refused = printed.stderr.contains("another process");
        println!("refused={refused}");
        return gort::run(|| mixed_work(5));
    }
    let run_with = |file: PathBuf| {
        let mut command = child(TEST, "outer");
        command.env("GORT_TRACE", file);
        run_ok(command)
    };
    let check = |file: &Path| {
        if let Some(parsed) = parsed(file) {
            assert_has(&parsed, "Running->Waiting", "chan receive");
        }
    };
    // With the same name for both, the first one keeps its file.
    let dir = TempDir::new();
    let file = dir.path().join("one");
    std::fs::write(&file, "what was there before").unwrap();
    assert_eq!(run_with(file.clone()).value("refused"), "true");
    assert!(std::fs::read(&file).unwrap().starts_with(b"go 1."));
    check(&file);
    // With the id of the process in the name each has its own.
    let dir = TempDir::new();
    assert_eq!(run_with(dir.path().join("of %p")).value("refused"), "false");
    let files: Vec<PathBuf> = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    files.iter().for_each(|file| check(file));
}

#[test]
fn a_forked_child_that_exits_leaves_the_trace_alone() {
    const TEST: &str = "a_forked_child_that_exits_leaves_the_trace_alone";
    if is_child("forks") {
        gort::run(|| mixed_work(5));
        // SAFETY: the child exits at once; nothing that its exit handlers need was locked at the fork.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: as a C program ends.
            unsafe { libc::exit(7) };
        }
        let mut status = 0;
        // SAFETY: it is our child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
        return gort::run(|| mixed_work(5));
    }
    let dir = TempDir::new();
    let file = dir.path().join("trace");
    let mut command = child(TEST, "forks");
    command.env("GORT_TRACE", &file);
    let printed = run_ok(command);
    assert!(!printed.stderr.contains("gort:"), "{}", printed.stderr);
    if let Some(parsed) = parsed(&file) {
        assert_has(&parsed, "Running->Waiting", "chan receive");
    }
}

/// Everything at once, for some time: ten minutes in a full run.
#[test]
fn everything_at_once() {
    let rounds = if full() { 600 } else { 1 };
    for _ in 0..rounds {
        // In each round, because it watches that the test ends.
        let _procs = Procs::set(4);
        let trace = traced(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let hogs = (0..3).map(|_| {
                let stop = Arc::clone(&stop);
                gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
            });
            let mut all: Vec<_> = hogs.collect();
            all.push(gort::spawn(waits_for_the_network));
            all.push(gort::spawn(blocks_in_a_call));
            all.push(gort::spawn(|| (0..5).for_each(|_| std::thread::sleep(TICK * 20))));
            all.push(gort::spawn(|| {
                let _bound = gort::runtime::os_thread_guard();
                mixed_work(5);
            }));
            let stopping = Arc::clone(&stop);
            all.push(gort::spawn(move || {
                for procs in [1, 5, 2, 8, 4] {
                    gort::runtime::set_max_procs(procs);
                    gort::sleep(TICK * 40);
                }
                stopping.store(true, Ordering::Relaxed);
            }));
            mixed_work(20);
            join_all(all);
        });
        let Some(parsed) = trace.parsed() else { continue };
        let mut kinds: HashMap<&str, usize> = HashMap::new();
        for line in parsed.lines().filter(|line| line.contains("GoID=")) {
            let states = line.split(' ').find(|word| word.contains("->")).unwrap_or("");
            *kinds.entry(states).or_default() += 1;
        }
        assert!(kinds.len() >= 7, "{kinds:?}");
    }
}
