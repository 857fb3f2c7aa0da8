//! The flight recorder: Go accepts every snapshot, wherever in the middle of things its window begins; no
//! step is missing; a snapshot shows what goroutines are that began before it; the recorder makes snapshots
//! by itself when something goes wrong, and not too many.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::traces::{
    assert_has, blocks_in_a_call, compute, mixed_work, overflow_the_logs, parsed, transitions,
    waits_for_a_channel, waits_for_the_network,
};
use common::{Procs, TempDir, alone, amount, child, is_child, join_all, named, run_ok, spin_until, until};
use gort::runtime::Config;
use gort::sync::WaitGroup;
use gort::trace::{FlightRecorder, FlightRecorderConfig, SnapshotCause, Summary};

const TICK: Duration = Duration::from_millis(1);

/// A recorder that is on, and a place for its snapshots.
struct Flight {
    recorder: FlightRecorder,
    dir: TempDir,
    count: AtomicUsize,
}

/// A snapshot that Go has accepted.
struct Shot {
    summary: Summary,
    bytes: Vec<u8>,
    parsed: Option<String>,
}

impl Flight {
    #[track_caller]
    fn start(config: FlightRecorderConfig) -> Flight {
        let recorder = FlightRecorder::new(config);
        recorder.start().unwrap();
        assert!(recorder.is_enabled());
        Flight { recorder, dir: TempDir::new(), count: AtomicUsize::new(0) }
    }

    /// A snapshot; nothing may be missing in it, and Go must accept it.
    #[track_caller]
    fn snapshot(&self) -> Shot {
        let mut bytes = Vec::new();
        let summary = self.recorder.write_to(&mut bytes).unwrap();
        let file = self.dir.path().join(self.count.fetch_add(1, Ordering::Relaxed).to_string());
        fs::write(&file, &bytes).unwrap();
        assert_eq!((summary.repairs, summary.dropped_generations), (0, 0), "{summary:?}");
        let parsed = parsed(&file);
        assert!(summary.generations > 0, "{summary:?}");
        Shot { summary, bytes, parsed }
    }

    /// Takes snapshots while `work` goes on in a goroutine, and one more after it.
    #[track_caller]
    fn snapshots_of(&self, work: impl FnOnce() + Send + 'static) -> Vec<Shot> {
        let work = gort::spawn(work);
        let mut shots = Vec::new();
        while shots.len() < 4 || !work.is_finished() {
            shots.push(self.snapshot());
        }
        work.join().unwrap();
        shots.push(self.snapshot());
        shots
    }
}

impl Shot {
    /// Whether the file has this text: Go's tools show names of goroutines, but do not print them.
    fn contains(&self, text: &str) -> bool {
        self.bytes.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

/// Windows of very few and of all events.
fn sizes() -> [usize; 4] {
    [0, 4 << 10, 200 << 10, 10 << 20]
}

fn limited(bytes: usize) -> FlightRecorderConfig {
    FlightRecorderConfig::new().max_bytes(bytes)
}

/// Work that goes on until it is told to stop.
struct Going {
    stop: Arc<AtomicBool>,
    all: Vec<gort::JoinHandle<()>>,
}

impl Going {
    fn start(works: Vec<Box<dyn Fn() + Send>>) -> Going {
        let stop = Arc::new(AtomicBool::new(false));
        let forever = |work: Box<dyn Fn() + Send>| {
            let stop = Arc::clone(&stop);
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            })
        };
        let all = works.into_iter().map(forever).collect();
        Going { stop, all }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        join_all(self.all.drain(..));
    }
}

#[test]
fn go_accepts_snapshots_of_one_to_eight_ps() {
    for procs in [1, 2, 3, 4, 8] {
        let _procs = Procs::set(procs);
        for bytes in sizes() {
            let flight = Flight::start(limited(bytes));
            let shots = flight.snapshots_of(|| mixed_work(10));
            let Some(parsed) = &shots[shots.len() - 1].parsed else { continue };
            if bytes == 10 << 20 {
                assert_has(parsed, "NotExist->Runnable", "");
                assert_has(parsed, "Running->Waiting", "chan receive");
                assert_has(parsed, "Running->Waiting", "sleep");
                assert_has(parsed, "Running->NotExist", "");
            }
        }
    }
}

#[test]
fn windows_that_begin_in_the_middle_of_everything() {
    let _procs = Procs::set(4);
    for bytes in [0, 4 << 10, 100 << 10, amount(1 << 20, 10 << 20)] {
        let flight = Flight::start(limited(bytes));
        let going = Going::start(vec![
            Box::new(|| compute(1_000_000)),
            Box::new(|| compute(1_000_000)),
            Box::new(|| gort::blocking(|| std::thread::sleep(TICK / 20))),
            Box::new(|| gort::blocking(|| std::thread::sleep(TICK * 5))),
            // Not marked: sysmon takes the P away.
            Box::new(|| std::thread::sleep(TICK * 3)),
            Box::new(|| {
                let _bound = gort::runtime::os_thread_guard();
                gort::yield_now();
            }),
            Box::new(|| {
                // The goroutine ends bound, and its thread with it.
                let ends = gort::spawn(|| {
                    gort::runtime::lock_os_thread();
                    gort::sleep(TICK);
                });
                ends.join().unwrap();
            }),
            Box::new(|| gort::sleep(TICK)),
            Box::new(|| mixed_work(5)),
            Box::new(|| {
                (0..50).for_each(|_| gort::yield_now());
                gort::sleep(TICK);
            }),
        ]);
        for procs in [1, 7, 2, 4] {
            gort::runtime::set_max_procs(procs);
            flight.snapshot();
        }
        drop(going);
    }
}

#[test]
fn preemption_storms_are_in_snapshots() {
    for procs in [1, 3] {
        let _procs = Procs::set(procs);
        let flight = Flight::start(FlightRecorderConfig::new());
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..8)
            .map(|_| {
                let stop = Arc::clone(&stop);
                gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
            })
            .collect();
        let before = gort::runtime::stats().preempted_by_signal;
        let enough = || gort::runtime::stats().preempted_by_signal > before + 20;
        until("there were preemptions", || {
            std::thread::sleep(TICK);
            enough()
        });
        // The snapshot is taken while the storm goes on.
        let shot = flight.snapshot();
        stop.store(true, Ordering::Relaxed);
        join_all(hogs);
        let Some(parsed) = shot.parsed else { continue };
        let count = transitions(&parsed, "Running->Runnable", "preempted");
        assert!(count >= 20, "{count} preemptions");
    }
}

#[test]
fn a_hundred_thousand_goroutines_from_before_the_window() {
    let count = amount(100_000, 300_000);
    let _procs = Procs::set(4);
    let flight = Flight::start(limited(64 << 10));
    let (sender, receiver) = gort::chan::unbounded::<()>();
    let group = WaitGroup::new();
    for _ in 0..count {
        let receiver = receiver.clone();
        group.go(move || assert!(receiver.recv().is_err()));
    }
    gort::run(move || until("they wait", || gort::runtime::stats().goroutines.waiting as usize >= count));
    // What remains in the window is about others.
    gort::run(|| mixed_work(30));
    let shot = flight.snapshot();
    assert!(shot.summary.events as usize > count, "{:?}", shot.summary);
    if let Some(parsed) = &shot.parsed {
        let waiting = transitions(parsed, "Undetermined->Waiting", "");
        assert!(waiting >= count * 9 / 10, "{waiting} of {count} goroutines have a state from before");
    }
    drop(sender);
    gort::run(move || group.wait());
    flight.snapshot();
}

#[test]
fn the_window_is_as_long_as_was_asked_for_and_no_longer_than_memory_allows() {
    let _procs = Procs::set(2);
    let regions = |shot: &Shot| (0..40).filter(|n| shot.contains(&format!("moment {n} of all"))).count();
    for (config, all) in [
        (FlightRecorderConfig::new().min_age(Duration::from_secs(1000)), true),
        (limited(40 << 10), false),
        (FlightRecorderConfig::new().min_age(TICK * 20), false),
    ] {
        let flight = Flight::start(config);
        gort::run(|| {
            for n in 0..40 {
                gort::trace::log("test", &format!("moment {n} of all"));
                // More than the small window holds.
                (0..600).for_each(|_| gort::yield_now());
                gort::sleep(TICK * 3);
            }
            // And so many events that a block is complete.
            mixed_work(20);
            gort::trace::log("test", "the last moment");
        });
        let shot = flight.snapshot();
        assert!(shot.contains("the last moment"));
        let found = regions(&shot);
        assert_eq!(found == 40, all, "{found} of 40");
    }
}

#[test]
fn names_functions_and_stacks_come_from_before_the_window() {
    let _procs = Procs::set(2);
    // One goroutine is older than the recorder, others are older than the window; some of them end in it.
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let oldest = named("older than the recorder", {
        let receiver = receiver.clone();
        move || receiver.recv()
    });
    gort::run(|| until("it waits", || gort::runtime::stats().goroutines.waiting >= 1));
    let flight = Flight::start(limited(100 << 10));
    let older = named("older than the window", {
        let receiver = receiver.clone();
        move || {
            let _closed = receiver.recv();
        }
    });
    // It runs when the snapshot is made, so the scheduler cannot be asked for its name.
    let stop = Arc::new(AtomicBool::new(false));
    let runs = named("runs all the time", {
        let stop = Arc::clone(&stop);
        move || while !stop.load(Ordering::Relaxed) {}
    });
    let nameless = gort::spawn(waits_for_a_channel);
    gort::run(|| until("they run", || gort::runtime::stats().goroutines.waiting >= 3));
    gort::run(|| (0..4).for_each(|_| mixed_work(50)));
    let shot = flight.snapshot();
    for text in ["older than the recorder", "older than the window", "runs all the time"] {
        assert!(shot.contains(text), "no {text:?}");
    }
    drop((sender, receiver));
    oldest.join().unwrap().unwrap_err();
    older.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    runs.join().unwrap();
    nameless.join().unwrap();
    // Those that have ended are known by their ends.
    let shot = flight.snapshot();
    for text in ["older than the window", "runs all the time", "waits_for_a_channel"] {
        assert!(shot.contains(text), "no {text:?}");
    }
}

#[test]
fn recording_goes_on_after_a_snapshot_and_after_a_stop() {
    let _procs = Procs::set(2);
    let flight = Flight::start(FlightRecorderConfig::new());
    let marked = |text: &'static str| gort::run(move || gort::trace::log("test", text));
    marked("the first message");
    let first = flight.snapshot();
    marked("the second message");
    let second = flight.snapshot();
    assert!(first.contains("the first message") && !first.contains("the second message"));
    assert!(second.contains("the first message") && second.contains("the second message"));
    flight.recorder.stop();
    assert!(!flight.recorder.is_enabled());
    marked("nobody listens");
    let error = flight.recorder.write_to(&mut io::sink()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("FlightRecorder::start"), "{error}");
    flight.recorder.stop();
    flight.recorder.start().unwrap();
    marked("the third message");
    let third = flight.snapshot();
    assert!(third.contains("the third message") && !third.contains("nobody listens"));
    assert!(!third.contains("the first message"));
}

#[test]
fn one_recorder_at_a_time() {
    let _procs = Procs::set(2);
    let flight = Flight::start(FlightRecorderConfig::new());
    let again = flight.recorder.start().unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    let other = FlightRecorder::new(FlightRecorderConfig::new());
    assert!(other.start().unwrap_err().to_string().contains("stop"));
    assert!(!other.is_enabled() && flight.recorder.is_enabled());
    assert!(other.write_to(&mut io::sink()).is_err());
    // Neither stop nor drop of another one ends it.
    other.stop();
    drop(other);
    flight.snapshot();
    drop(flight);
    Flight::start(FlightRecorderConfig::new()).snapshot();
}

#[test]
fn a_writer_that_fails_does_not_end_the_recording() {
    let _procs = Procs::set(2);
    let flight = Flight::start(FlightRecorderConfig::new());
    let mut small = [0u8; 10];
    let error = flight.recorder.write_to(&mut &mut small[..]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    flight.snapshot();
}

#[test]
fn goroutines_write_snapshots_to_their_own_writers() {
    let _procs = Procs::set(2);
    let flight = Flight::start(FlightRecorderConfig::new());
    let dir = TempDir::new();
    let file = dir.path().join("trace");
    gort::run({
        let (file, recorder) = (file.clone(), &flight.recorder);
        move || {
            mixed_work(5);
            let (mut server, mut client) = common::connected_pair();
            let copy = gort::spawn(move || {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut client, &mut bytes).unwrap();
                fs::write(file, bytes).unwrap();
            });
            recorder.write_to(&mut server).unwrap();
            drop(server);
            copy.join().unwrap();
        }
    });
    if let Some(parsed) = parsed(&file) {
        assert_has(&parsed, "Running->Waiting", "chan receive");
    }
}

#[test]
fn several_snapshots_at_once() {
    let _procs = Procs::set(3);
    let flight = Flight::start(limited(300 << 10));
    let going = Going::start(vec![Box::new(|| mixed_work(5)), Box::new(gort::yield_now)]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..3).for_each(|_| drop(flight.snapshot())));
        }
    });
    drop(going);
}

#[test]
fn a_trace_and_a_recorder_at_the_same_time() {
    let _procs = Procs::set(3);
    let dir = TempDir::new();
    let trace = |name: &str| -> PathBuf {
        let file = dir.path().join(name);
        gort::trace::start(fs::File::create(&file).unwrap()).unwrap();
        file
    };
    let ended = |file: PathBuf| {
        let summary = gort::trace::stop().unwrap();
        assert_eq!((summary.repairs, summary.dropped_generations), (0, 0), "{summary:?}");
        assert!(summary.events > 100, "{summary:?}");
        if let Some(parsed) = parsed(&file) {
            assert_has(&parsed, "Running->Waiting", "chan receive");
        }
    };
    // No more than a slow machine can write at the same time.
    let going = Going::start(vec![
        Box::new(|| {
            mixed_work(5);
            gort::sleep(TICK * 10);
        }),
        Box::new(|| {
            gort::yield_now();
            gort::sleep(TICK);
        }),
        Box::new(|| gort::blocking(|| std::thread::sleep(TICK))),
        Box::new(|| std::thread::sleep(TICK * 2)),
    ]);
    for round in 0..3 {
        // The trace begins and ends within the recording ...
        let flight = Flight::start(limited(500 << 10));
        flight.snapshot();
        let file = trace(&format!("inner {round}"));
        assert!(gort::trace::is_enabled());
        std::thread::sleep(TICK * 100);
        flight.snapshot();
        ended(file);
        flight.snapshot();
        // ... and the recording within the trace.
        drop(flight);
        let file = trace(&format!("outer {round}"));
        std::thread::sleep(TICK * 20);
        let flight = Flight::start(limited(500 << 10));
        std::thread::sleep(TICK * 80);
        flight.snapshot();
        drop(flight);
        std::thread::sleep(TICK * 20);
        ended(file);
    }
    drop(going);
}

#[test]
fn profiles_of_a_snapshot_show_rust_functions() {
    let _procs = Procs::set(2);
    let flight = Flight::start(FlightRecorderConfig::new());
    gort::run(|| {
        join_all([
            gort::spawn(waits_for_the_network),
            gort::spawn(waits_for_a_channel),
            gort::spawn(blocks_in_a_call),
        ]);
    });
    let shot = flight.snapshot();
    for function in ["waits_for_the_network", "waits_for_a_channel", "blocks_in_a_call"] {
        assert!(shot.contains(function), "no {function}");
    }
}

/// The snapshots in a directory: file names, in order.
fn files(dir: &TempDir) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[track_caller]
fn assert_one_file(dir: &TempDir, cause: &str) -> PathBuf {
    let files = files(dir);
    let [file] = &files[..] else { panic!("not one file: {files:?}") };
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("gort-flight-") && name.ends_with(&format!("-1-{cause}.trace")), "{name}");
    let _accepted = parsed(file);
    file.clone()
}

#[test]
fn snapshots_that_the_program_asks_for_are_few_and_have_names() {
    let _procs = Procs::set(2);
    assert!(!gort::trace::snapshot("no recorder is on"));
    let dir = TempDir::new();
    let config = || FlightRecorderConfig::new().snapshots_in(dir.path());
    let flight = Flight::start(config());
    gort::run(|| mixed_work(3));
    assert!(gort::trace::snapshot("a cause/with ../odd\nsigns"));
    assert_one_file(&dir, "a-cause-with----odd-signs");
    // The next one comes too early.
    assert!(!gort::trace::snapshot("again"));
    drop(flight);
    let flight = Flight::start(config().pause_between_snapshots(Duration::ZERO).most_snapshots(2));
    let made = (0..5).filter(|_| gort::run(|| gort::trace::snapshot("many"))).count();
    assert_eq!((made, files(&dir).len()), (2, 3));
    drop(flight);
    // A recorder that was told no place makes none.
    let _flight = Flight::start(FlightRecorderConfig::new());
    assert!(!gort::trace::snapshot("nowhere"));
}

#[test]
fn a_call_gets_the_snapshot() {
    let _procs = Procs::set(2);
    let got: Arc<Mutex<Vec<(SnapshotCause, usize)>>> = Arc::default();
    let gets = Arc::clone(&got);
    let config = FlightRecorderConfig::new().on_snapshot(move |snapshot| {
        assert!(snapshot.trace().starts_with(b"go 1.26 trace"));
        assert_eq!(snapshot.summary().repairs, 0);
        gets.lock().unwrap().push((snapshot.cause().clone(), snapshot.trace().len()));
    });
    let flight = Flight::start(config);
    assert!(gort::trace::snapshot("mine"));
    let got = got.lock().unwrap();
    assert!(matches!(&got[..], [(SnapshotCause::Program(text), 17..)] if text == "mine"), "{got:?}");
    drop(flight);
}

/// A recorder with this limit for latencies, and the longest latency that it made a snapshot of (ns).
fn watching(limit: Duration) -> (Flight, Arc<AtomicU64>) {
    let worst = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&worst);
    let config = FlightRecorderConfig::new().latency_limit(limit).on_snapshot(move |snapshot| {
        if let SnapshotCause::Latency(latency) = snapshot.cause() {
            seen.fetch_max(latency.as_nanos() as u64, Ordering::Relaxed);
        }
    });
    (Flight::start(config), worst)
}

#[test]
fn a_latency_above_the_limit_makes_a_snapshot() {
    let _procs = Procs::set(1);
    let (flight, worst) = watching(TICK * 5);
    // Each of them has to wait for the slices of the others.
    let hogs = common::Hogs::start(6);
    spin_until("there is a snapshot", || {
        std::thread::sleep(TICK);
        worst.load(Ordering::Relaxed) != 0
    });
    drop(hogs);
    assert!(worst.load(Ordering::Relaxed) > (TICK * 5).as_nanos() as u64);
    drop(flight);
}

#[test]
fn waits_are_no_latencies() {
    let _procs = Procs::set(2);
    // On a machine where nothing runs for a second and a half, a latency may be a true one.
    assert!((0..3).any(|_| waits_have_no_latency()));
}

fn waits_have_no_latency() -> bool {
    let (flight, worst) = watching(TICK * 1500);
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let waits = gort::spawn(move || receiver.recv());
    // It has become runnable before the watch knew about it, or runs all the time.
    gort::run(|| gort::sleep(TICK * 1700));
    gort::run(|| std::thread::sleep(TICK * 1700));
    drop(sender);
    waits.join().unwrap().unwrap_err();
    gort::run(gort::yield_now);
    std::thread::sleep(TICK * 20);
    drop(flight);
    worst.load(Ordering::Relaxed) == 0
}

#[test]
fn a_stall_makes_a_snapshot() {
    if is_child("stalls") {
        let dir = std::env::var_os("GORT_TEST_DIR").unwrap();
        Config::new().max_procs(1).stall_after(TICK * 100).start().unwrap();
        let recorder = FlightRecorder::new(FlightRecorderConfig::new().snapshots_in(dir));
        recorder.start().unwrap();
        gort::run(|| {
            let before = gort::runtime::stats().stalls;
            // Not marked.
            until("it is reported", || {
                std::thread::sleep(TICK * 400);
                gort::runtime::stats().stalls > before
            });
        });
        let written = || files_in(std::env::var_os("GORT_TEST_DIR").unwrap()) == 1;
        return spin_until("the file is there", || {
            std::thread::sleep(TICK);
            written()
        });
    }
    let dir = TempDir::new();
    let mut command = child("a_stall_makes_a_snapshot", "stalls");
    command.env("GORT_TEST_DIR", dir.path());
    let printed = run_ok(command);
    assert_one_file(&dir, "stall");
    assert!(printed.stderr.contains("gort: stall: goroutine"), "{}", printed.stderr);
    assert!(printed.stderr.contains("gort: flight recorder: stall: see "), "{}", printed.stderr);
}

/// How many complete files a directory has.
fn files_in(dir: impl Into<PathBuf>) -> usize {
    let names = fs::read_dir(dir.into()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| !name.to_str().unwrap().starts_with('.')).count()
}

#[test]
fn a_panic_hook_makes_a_snapshot() {
    if is_child("panics") {
        let dir = std::env::var_os("GORT_TEST_DIR").unwrap();
        let recorder = FlightRecorder::new(FlightRecorderConfig::new().snapshots_in(dir));
        recorder.start().unwrap();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            assert!(gort::trace::snapshot("panic"));
        }));
        // On the small stack of a goroutine.
        gort::spawn(|| panic!("of choice")).join().unwrap_err();
        return;
    }
    let dir = TempDir::new();
    let mut command = child("a_panic_hook_makes_a_snapshot", "panics");
    command.env("GORT_TEST_DIR", dir.path());
    run_ok(command);
    assert_one_file(&dir, "panic");
}

#[test]
fn a_directory_that_is_missing_is_reported_once() {
    if is_child("has no directory") {
        let config = FlightRecorderConfig::new().snapshots_in("/missing/directory");
        let recorder = FlightRecorder::new(config.pause_between_snapshots(Duration::ZERO));
        recorder.start().unwrap();
        for _ in 0..3 {
            gort::trace::snapshot("x");
        }
        return;
    }
    let printed = run_ok(child("a_directory_that_is_missing_is_reported_once", "has no directory"));
    let lines: Vec<&str> = printed.stderr.lines().filter(|line| line.contains("flight recorder")).collect();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("no snapshot: /missing/directory/gort-flight-"), "{line}");
}

#[test]
fn a_snapshot_that_fails_does_not_count() {
    let _procs = Procs::set(2);
    let dir = TempDir::new();
    let later = dir.path().join("later");
    let config = FlightRecorderConfig::new().pause_between_snapshots(Duration::ZERO).most_snapshots(1);
    let flight = Flight::start(config.snapshots_in(&later));
    for _ in 0..3 {
        assert!(!gort::trace::snapshot("there is no directory"));
    }
    fs::create_dir(&later).unwrap();
    assert!(gort::trace::snapshot("there is one"));
    assert!(!gort::trace::snapshot("one is enough"));
    assert_eq!(fs::read_dir(&later).unwrap().count(), 1);
    drop(flight);
    let panics = FlightRecorderConfig::new().on_snapshot(|snapshot| panic!("{}", snapshot.cause()));
    let _flight = Flight::start(panics);
    assert!(!gort::trace::snapshot("of no use"));
}

#[test]
fn a_burst_that_nobody_could_read_costs_the_window_and_not_the_recorder() {
    if !alone("a_burst_that_nobody_could_read_costs_the_window_and_not_the_recorder") {
        return;
    }
    gort::runtime::set_max_procs(2);
    let flight = Flight::start(limited(1 << 30));
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let until_the_end = gort::spawn(move || receiver.recv());
    let calls = Going::start(vec![Box::new(|| gort::blocking(|| std::thread::sleep(TICK)))]);
    for round in 0..2 {
        let message = |when: &str| format!("{when} burst {round}");
        let log = |text: String| gort::run(move || gort::trace::log("test", &text));
        log(message("before"));
        assert!(flight.snapshot().contains(&message("before")));
        let stopped = StoppedReader::stop();
        overflow_the_logs();
        drop(stopped);
        until("the recorder has read what was left", || {
            log(message("after"));
            let shot = flight.snapshot();
            shot.contains(&message("after")) && !shot.contains(&message("before"))
        });
        // The recorder goes on, and knows what goroutines do.
        let name = format!("after-burst-{round}");
        named(&name, || mixed_work(10)).join().unwrap();
        let shot = flight.snapshot();
        assert!(shot.contains(&name) && shot.contains(&message("after")));
        if let Some(parsed) = &shot.parsed {
            assert!(parsed.contains(&message("after")));
            assert_has(parsed, "Running->Waiting", "chan receive");
        }
    }
    drop(calls);
    drop(sender);
    until_the_end.join().unwrap().unwrap_err();
    drop(flight);
    // The next recorder misses nothing of that.
    let flight = Flight::start(limited(1 << 30));
    gort::run(|| gort::trace::log("test", "for the next recorder"));
    assert!(flight.snapshot().contains("for the next recorder"));
}

/// The recorder's thread, which stands still in a signal handler.
struct StoppedReader;

static STANDS_STILL: AtomicBool = AtomicBool::new(false);
static GOES_ON: AtomicBool = AtomicBool::new(false);

impl StoppedReader {
    fn stop() -> StoppedReader {
        extern "C" fn stand_still(_: i32) {
            STANDS_STILL.store(true, Ordering::Release);
            while !GOES_ON.load(Ordering::Acquire) {
                // SAFETY: a handler may call it; it changes errno only if it fails.
                unsafe { libc::usleep(1000) };
            }
            STANDS_STILL.store(false, Ordering::Release);
        }
        let handler = stand_still as extern "C" fn(i32);
        // SAFETY: the handler keeps to what handlers may do, and std's calls restart after it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            (action.sa_sigaction, action.sa_flags) = (handler as usize, libc::SA_RESTART | libc::SA_ONSTACK);
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        }
        let is_it = |thread: &fs::DirEntry| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "gort-flight")
        };
        let thread = fs::read_dir("/proc/self/task").unwrap().flatten().find(is_it).unwrap();
        let tid: i32 = thread.file_name().to_str().unwrap().parse().unwrap();
        GOES_ON.store(false, Ordering::Release);
        // SAFETY: the thread is this process's, and the signal has a handler.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
        assert_eq!(sent, 0);
        spin_until("the recorder stands still", || STANDS_STILL.load(Ordering::Acquire));
        StoppedReader
    }
}

impl Drop for StoppedReader {
    fn drop(&mut self) {
        GOES_ON.store(true, Ordering::Release);
        spin_until("the recorder goes on", || !STANDS_STILL.load(Ordering::Acquire));
    }
}

#[test]
fn a_trace_whose_writer_stands_still_does_not_stop_the_recorder() {
    if !alone("a_trace_whose_writer_stands_still_does_not_stop_the_recorder") {
        return;
    }
    gort::runtime::set_max_procs(2);
    let flight = Flight::start(limited(1 << 30));
    gort::trace::start(Stuck).unwrap();
    let going = Going::start(vec![Box::new(gort::yield_now), Box::new(gort::yield_now)]);
    std::thread::sleep(TICK * 300);
    gort::run(|| gort::trace::log("test", "before the snapshot"));
    let shot = flight.snapshot();
    assert!(shot.contains("before the snapshot"));
    drop(going);
    RELEASE.store(true, Ordering::Release);
    let summary = gort::trace::stop().unwrap();
    assert_eq!(summary.repairs, 0, "{summary:?}");
}

/// A writer that stands still until it is released, after the header.
struct Stuck;

static RELEASE: AtomicBool = AtomicBool::new(false);

impl io::Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while bytes.len() > 16 && !RELEASE.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
