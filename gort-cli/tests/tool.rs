//! Runs the commands of `gort` other than the demo as a user does, and checks their output and exit status.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

fn gort(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gort")).args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_names_all_commands_and_the_options_of_the_demo() {
    for args in [&["--help"][..], &["help"], &["-h"]] {
        let output = gort(args);
        assert!(output.status.success());
        for word in [
            "demo",
            "compare",
            "trace",
            "top",
            "doctor",
            "completions",
            "--seconds",
            "--procs",
            "--workers",
            "--json",
            "NO_COLOR",
        ] {
            assert!(out(&output).contains(word), "{args:?}, {word}: {}", out(&output));
        }
        assert!(!out(&output).contains('\x1b'));
    }
    for command in ["demo", "compare", "trace", "top", "doctor", "completions"] {
        assert!(gort(&[command, "--help"]).status.success());
        assert!(gort(&["help", command]).status.success());
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = out(&gort(&["--version"]));
    assert_eq!(version.trim(), format!("gort {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn arguments_that_make_no_sense_are_named_and_exit_with_two() {
    let cases: [(&[&str], &str); 12] = [
        (&["nonsense"], "nonsense"),
        (&["--nonsense"], "--nonsense"),
        (&["demo", "more"], "more"),
        (&["--seconds", "0"], "0"),
        (&["--seconds", "ten"], "ten"),
        (&["--seconds"], "--seconds"),
        (&["--procs", "0"], "0"),
        (&["demo", "--procs", "1025"], "1025"),
        (&["demo", "--workers", "-3"], "-3"),
        (&["--crowd", "0"], "0"),
        (&["compare", "--rounds", "0"], "0"),
        (&["completions", "cmd"], "cmd"),
    ];
    for (args, culprit) in cases {
        let output = gort(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(culprit), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
    }
}

#[test]
fn the_doctor_tells_of_everything_and_what_it_means() {
    let output = gort(&["doctor"]);
    assert!(output.status.success(), "{}", out(&output));
    for word in [
        "kernel",
        "MADV_GUARD_INSTALL",
        "FSGSBASE",
        "glibc",
        "CPUs",
        "cgroup CPU quota",
        "NUMA nodes",
        "vm.max_map_count",
        "open files",
        "user's threads",
        "kernel.pid_max",
        "GOMAXPROCS",
    ] {
        assert!(out(&output).contains(word), "{word}: {}", out(&output));
    }
    assert!(!out(&output).contains('\x1b'));
}

#[test]
fn the_doctor_speaks_json() {
    let output = gort(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["works"], true);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.len() >= 13);
    for finding in findings {
        for field in ["name", "value", "meaning", "grade"] {
            assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
    }
}

/// A terminal of 100 columns and 30 lines: the end of the user, and that of the program.
fn terminal() -> (File, File) {
    let (mut user, mut program) = (0, 0);
    let size = libc::winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let (no_name, as_usual) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: libc writes two descriptors, which are ours from now on.
    unsafe {
        assert_eq!(libc::openpty(&raw mut user, &raw mut program, no_name, as_usual, &raw const size), 0);
        (File::from_raw_fd(user), File::from_raw_fd(program))
    }
}

/// A process is known to `gort top` by its first server, so that one test at a time has one.
static ONE_SERVER: Mutex<()> = Mutex::new(());

#[test]
fn top_on_a_terminal_sorts_and_groups_as_keys_say() {
    let _one = ONE_SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let server = gort::debug::serve("127.0.0.1:0").unwrap();
    let (release, wait) = gort::chan::bounded::<()>(0);
    let waits: Vec<_> = ["b-sleeper", "a-sleeper"]
        .into_iter()
        .map(|name| {
            let own = wait.clone();
            let builder = gort::Builder::new().name(name.into()).label("kind", "on a terminal");
            builder.spawn(move || own.recv().is_ok()).unwrap()
        })
        .collect();
    let (mut user, program) = terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gort"));
    command.args(["top", &server.local_addr().to_string(), "--search", "sleeper", "--every", "1"]);
    command.env("TERM", "xterm");
    let ends = [program.try_clone().unwrap(), program.try_clone().unwrap(), program];
    let [input, output, errors] = ends.map(Stdio::from);
    let mut top = command.stdin(input).stdout(output).stderr(errors).spawn().unwrap();
    drop(command);

    // What is on the screen: everything since the cursor was last sent home.
    let written = Arc::new(Mutex::new(Vec::new()));
    let (own, mut screen) = (Arc::clone(&written), user.try_clone().unwrap());
    let reader = std::thread::spawn(move || {
        let mut part = [0; 4096];
        // Linux reports an error when the last program has closed the terminal.
        while let Ok(count @ 1..) = screen.read(&mut part) {
            own.lock().unwrap().extend_from_slice(&part[..count]);
        }
    });
    let last_screen = || {
        let bytes = written.lock().unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.rsplit_once("\x1b[J").map(|(before, _)| before).unwrap_or_default();
        whole.rsplit("\x1b[H").next().unwrap_or_default().to_owned()
    };
    let until = |what: &str, reached: &dyn Fn(&str) -> bool| {
        let start = Instant::now();
        while !reached(&last_screen()) {
            assert!(start.elapsed() < Duration::from_secs(100), "{what}: {}", last_screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let before = |text: &str, one: &str, other: &str| match (text.find(one), text.find(other)) {
        (Some(one), Some(other)) => one < other,
        _ => false,
    };
    let (a_first, b_first) = (
        |text: &str| before(text, "a-sleeper", "b-sleeper"),
        |text: &str| before(text, "b-sleeper", "a-sleeper"),
    );
    until("both are listed", &|text| a_first(text) || b_first(text));
    // The other one was made first, and waits longer. Between them, the order by name.
    for key in ["i", "w"] {
        user.write_all(b"n").unwrap();
        until("they are sorted by name", &a_first);
        user.write_all(key.as_bytes()).unwrap();
        until("they are sorted by age", &b_first);
    }
    // They are equal in these.
    for key in ["c", "t", "s"] {
        let count = written.lock().unwrap().len();
        user.write_all(key.as_bytes()).unwrap();
        until("both are still listed", &|text| {
            written.lock().unwrap().len() > count + text.len()
                && text.contains("a-sleeper")
                && text.contains("b-sleeper")
        });
    }
    for title in ["FUNCTION", "LABELS"] {
        user.write_all(b"g").unwrap();
        until("they are grouped", &|text| text.contains("COUNT") && text.contains(title));
    }
    until("the labels are there", &|text| text.contains("kind=on a terminal"));
    user.write_all(b"n").unwrap();
    until("they are single again", &a_first);
    user.write_all(b"q").unwrap();
    assert!(top.wait().unwrap().success());
    // The terminal is as it was: its usual screen, with a cursor.
    drop(user);
    reader.join().unwrap();
    assert!(written.lock().unwrap().ends_with(b"\x1b[?25h\x1b[?1049l"));
    drop((release, server));
    for goroutine in waits {
        assert!(!goroutine.join().unwrap());
    }
}

#[test]
fn top_shows_the_goroutines_of_a_process() {
    let _one = ONE_SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let server = gort::debug::serve("127.0.0.1:0").unwrap();
    let (release, wait) = gort::chan::bounded::<()>(0);
    let sleeper = gort::Builder::new().name("sleeper".into()).label("kind", "quiet");
    let sleeper = sleeper.spawn(move || wait.recv().is_ok()).unwrap();
    let (pid, address) = (std::process::id().to_string(), server.local_addr().to_string());
    for target in [pid.as_str(), &address, &server.url()] {
        let output = gort(&["top", target, "--once", "--search", "sleeper"]);
        let text = out(&output);
        assert!(output.status.success(), "{}", err(&output));
        for word in [
            "pid",
            "goroutines",
            "latency p50",
            "CPU",
            "sleeper",
            "chan receive",
            "kind=quiet",
            "tests/tool.rs",
        ] {
            assert!(text.contains(word), "{target}, {word}: {text}");
        }
        assert!(!text.contains('\x1b'));
    }
    let groups = gort(&["top", &pid, "--once", "--group", "labels"]);
    assert!(out(&groups).contains("kind=quiet"), "{}", out(&groups));
    let report: serde_json::Value = serde_json::from_slice(&gort(&["top", &pid, "--json"]).stdout).unwrap();
    assert_eq!(report["pid"], std::process::id());
    assert!(report["goroutines"]["rows"].as_array().unwrap().iter().any(|row| row["name"] == "sleeper"));
    drop((release, server));
    assert!(!sleeper.join().unwrap());
    for (target, says) in
        [(pid.as_str(), "has no debug server"), (&address, "no answer"), ("nowhere", "neither")]
    {
        let output = gort(&["top", target, "--once"]);
        assert_eq!(output.status.code(), Some(1), "{target}");
        assert!(err(&output).contains(says), "{target}: {}", err(&output));
    }
}

#[test]
fn completions_are_scripts_for_the_shell() {
    for (shell, sign) in [("bash", "complete"), ("zsh", "#compdef gort"), ("fish", "complete -c gort")] {
        let output = gort(&["completions", shell]);
        assert!(output.status.success());
        assert!(out(&output).contains(sign), "{shell}");
        assert!(out(&output).contains("doctor"), "{shell}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status =
        Command::new(env!("CARGO_BIN_EXE_gort")).arg("doctor").stdout(writer).stderr(Stdio::null()).status();
    assert!(status.unwrap().success());
}

#[test]
fn the_comparison_says_when_it_is_not_there() {
    let output = gort(&["compare", "--dir", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("/nonexistent is not the directory compare/"), "{}", err(&output));
}
