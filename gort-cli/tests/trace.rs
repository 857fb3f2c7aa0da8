//! Runs `gort trace` as a user does, on traces of Go and of gort, and checks what it prints and writes.
//! `viewer.rs` looks at the page in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gort-trace/tests/data/go.trace");
const GORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gort-trace/tests/data/gort.trace");

/// A directory that goes away with the value.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> TempDir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("gort-cli-trace-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn gort(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gort")).arg("trace").args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The lines of a section of the summary, without its title.
fn section<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(title));
    assert!(lines.next().is_some(), "{title}: {text}");
    lines
        .take_while(|line| line.is_empty() || line.starts_with("  "))
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn the_summary_tells_what_ps_did_who_waited_for_one_and_who_was_blocked() {
    for (file, ps, reasons, site) in [
        (GO, 4, ["chan receive", "sleep"], "main.main (./go.go:"),
        (GORT, 3, ["sync.Mutex.Lock", "sleep"], "sample::main::{{closure}} (examples/sample.rs:"),
    ] {
        let text = out(&gort(&[file, "--top", "20"]));
        let used = section(&text, "Processors");
        assert_eq!(used.len(), ps, "{text}");
        for (p, line) in used.iter().enumerate() {
            // Running, in calls, searching and idle are all of the time.
            assert!(line.starts_with(&format!("  P {p}")), "{line}");
            let words: Vec<&str> = line.split_whitespace().collect();
            let shares = words.windows(2).filter(|pair| pair[1] == "%");
            let sum: f64 = shares.map(|pair| pair[0].parse::<f64>().unwrap()).sum();
            assert!((99.7..=100.3).contains(&sum), "{line}");
        }
        let latency = section(&text, "Scheduling latency");
        for word in ["p50 ", "p99.9 ", "max "] {
            assert!(latency[0].contains(word), "{text}");
        }
        let head = latency.iter().position(|line| line.contains("made runnable")).unwrap();
        assert!(latency.len() > head + 3, "{text}");
        assert!(latency[head + 1..].iter().any(|line| line.contains("created by 1")), "{text}");
        let by_reason = section(&text, "Blocked, by reason").join("\n");
        for reason in reasons {
            assert!(by_reason.contains(reason), "{reason}: {text}");
        }
        let by_site = section(&text, "Blocked, by site").join("\n");
        assert!(by_site.contains(&format!("sleep: {site}")), "{text}");
        assert!(section(&text, "Tasks")[0].contains("batch"), "{text}");
        assert!(!text.contains('\x1b') && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn json_has_the_figures() {
    let figures: Value = serde_json::from_str(&out(&gort(&[GO, "--json", "--top", "2"]))).unwrap();
    assert_eq!(figures["damage"], Value::Null);
    assert_eq!(figures["totals"]["generations"], 2);
    assert_eq!(figures["procs"].as_array().unwrap().len(), 4);
    let span = figures["span_ns"].as_u64().unwrap();
    for p in figures["procs"].as_array().unwrap() {
        let parts = ["running_ns", "syscall_ns", "scheduling_ns", "idle_ns"];
        assert_eq!(parts.iter().map(|part| p[part].as_u64().unwrap()).sum::<u64>(), span, "{p}");
    }
    for list in ["blocked_by_reason", "blocked_by_site", "groups"] {
        assert_eq!(figures[list].as_array().unwrap().len(), 2, "{list}");
    }
    let longest = &figures["latencies"]["longest"][0];
    assert_eq!(longest["ns"], figures["latencies"]["max_ns"]);
}

/// The events of a file for Perfetto, checked for what the format asks for.
fn perfetto(file: &str) -> Vec<Value> {
    let dir = TempDir::new();
    let path = dir.file("out.json");
    assert_eq!(out(&gort(&[file, "--perfetto", &path])), "");
    let mut whole: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let Value::Array(events) = whole["traceEvents"].take() else { panic!("no array") };
    for event in &events {
        let phase = event["ph"].as_str().unwrap();
        assert!(event["name"].is_string() && event["pid"].is_u64(), "{event}");
        let fields: &[&str] = match phase {
            "X" => &["ts", "dur", "tid"],
            "s" | "f" => &["ts", "tid", "id", "cat"],
            "b" | "e" => &["ts", "id", "cat"],
            "C" => &["ts", "args"],
            "M" => &["args"],
            other => panic!("phase {other}"),
        };
        for field in fields {
            assert!(!event[field].is_null(), "{field}: {event}");
        }
        if phase != "M" {
            assert!(event["ts"].as_f64().unwrap() >= 0.0, "{event}");
        }
    }
    events
}

#[test]
fn perfetto_gets_a_track_for_each_p_and_goroutine() {
    for (file, ps) in [(GO, 4), (GORT, 3)] {
        let events = perfetto(file);
        let names = |pid: u64| {
            let of = |event: &&Value| event["name"] == "thread_name" && event["pid"] == pid;
            events.iter().filter(of).map(|event| event["args"]["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(1).iter().filter(|name| name.starts_with("P ")).count(), ps, "{:?}", names(1));
        assert!(names(2).iter().any(|name| name.starts_with("G1 ")), "{:?}", names(2));
        // Slices of one P do not overlap: a goroutine at a time.
        for p in 1..=ps as u64 {
            let on = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == 1 && e["tid"] == p);
            let mut slices: Vec<(f64, f64)> =
                on.map(|e| (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap())).collect();
            slices.sort_by(|a, b| a.partial_cmp(b).unwrap());
            // Microseconds with three digits, as binary fractions.
            assert!(
                slices.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0 + 0.000_6),
                "P {p} of {file}"
            );
        }
        let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert!(count("s") > 0 && count("C") > 0);
        assert_eq!((count("s"), count("b")), (count("f"), count("e")));
        assert!(events.iter().any(|e| e["cat"] == "task" && e["name"] == "batch"));
        assert!(events.iter().any(|e| e["cat"] == "region"));
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let dir = TempDir::new();
    let path = dir.file("out.html");
    assert_eq!(out(&gort(&[GORT, "--html", &path])), "");
    let page = fs::read_to_string(&path).unwrap();
    for outside in ["http:", "https:", "src=", "<link", "@import", "url(", "import(", "fetch(", "XMLHttp"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in ["<!doctype html>", "</html>", "id=\"view\"", "prefers-color-scheme: dark"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("/*data*/") && !page.contains("/*script*/"));
}

#[test]
fn figures_and_files_can_be_asked_for_at_once() {
    let dir = TempDir::new();
    let (html, perfetto) = (dir.file("a.html"), dir.file("a.json"));
    let output = gort(&[GO, "--html", &html, "--perfetto", &perfetto, "--json"]);
    serde_json::from_str::<Value>(&out(&output)).unwrap();
    assert!(err(&output).contains("a.html") && err(&output).contains("a.json"), "{}", err(&output));
    assert!(Path::new(&html).exists() && Path::new(&perfetto).exists());
}

#[test]
fn a_file_that_is_no_trace_is_told() {
    let dir = TempDir::new();
    let (text, old, empty) = (dir.file("text"), dir.file("old"), dir.file("empty"));
    fs::write(&text, "Dear reader").unwrap();
    fs::write(&old, b"go 1.21 trace\0\0\0abc").unwrap();
    fs::write(&empty, "").unwrap();
    let missing = dir.file("missing");
    for (file, wanted) in [
        (&text, "this is no Go execution trace"),
        (&old, "Go 1.21"),
        (&empty, "ends inside of the header"),
        (&missing, "cannot read"),
    ] {
        let html = dir.file("out.html");
        let output = gort(&[file, "--html", &html]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        assert!(err(&output).starts_with("gort: ") && err(&output).contains(wanted), "{}", err(&output));
        assert!(err(&output).contains(file.as_str()), "{}", err(&output));
        assert!(!Path::new(&html).exists());
    }
    let output = gort(&[GO, "--html", "/nonexistent/a.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("cannot write /nonexistent/a.html"), "{}", err(&output));
    assert_eq!(gort(&[]).status.code(), Some(2));
    assert_eq!(gort(&[GO, "--top", "0"]).status.code(), Some(2));
}

#[test]
fn a_cut_file_is_shown_up_to_the_cut_and_is_a_failure() {
    let dir = TempDir::new();
    let cut = dir.file("cut");
    let whole = fs::read(GO).unwrap();
    fs::write(&cut, &whole[..whole.len() - 10]).unwrap();
    let output = gort(&[&cut]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("the file is cut: at byte"), "{}", err(&output));
    assert!(String::from_utf8(output.stdout).unwrap().contains(" in 1 generation,"));
}

/// A snapshot of the flight recorder, whose window begins in the middle of things.
#[test]
fn snapshots_of_the_flight_recorder_are_read() {
    use gort::trace::{FlightRecorder, FlightRecorderConfig};

    let recorder = FlightRecorder::new(FlightRecorderConfig::new().max_bytes(64 << 10));
    recorder.start().unwrap();
    let (sender, receiver) = gort::chan::bounded::<usize>(0);
    let old = gort::Builder::new().name("older than the window".into());
    let old = old.spawn(move || receiver.iter().count()).unwrap();
    gort::run(|| (0..5_000).for_each(|_| gort::yield_now()));
    gort::run(move || (0..500).for_each(|number| sender.send(number).unwrap()));
    assert_eq!(old.join().unwrap(), 500);
    let dir = TempDir::new();
    let file = dir.file("snapshot.trace");
    let summary = recorder.write_to(&mut fs::File::create(&file).unwrap()).unwrap();
    assert_eq!(summary.repairs, 0, "{summary:?}");
    let text = out(&gort(&[&file, "--top", "20"]));
    assert!(text.contains("chan receive"), "{text}");
    let export = dir.file("snapshot.json");
    out(&gort(&[&file, "--perfetto", &export]));
    assert!(fs::read_to_string(export).unwrap().contains("older than the window"));
}

#[test]
fn what_a_terminal_obeys_is_not_printed() {
    let mut bytes = fs::read(GORT).unwrap();
    // The first letter of some names becomes an escape.
    for name in ["feeder", "batch", "sleep", "examples/sample.rs"] {
        let places: Vec<usize> =
            (0..bytes.len()).filter(|&at| bytes[at..].starts_with(name.as_bytes())).collect();
        assert!(!places.is_empty(), "{name}");
        places.into_iter().for_each(|at| bytes[at] = 0x1b);
    }
    let dir = TempDir::new();
    fs::write(dir.file("trace"), bytes).unwrap();
    let text = out(&gort(&[&dir.file("trace"), "--top", "20"]));
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    for name in ["\u{fffd}eeder", "\u{fffd}atch", "\u{fffd}leep", "\u{fffd}xamples/sample.rs"] {
        assert!(text.contains(name), "{name}: {text}");
    }
}
