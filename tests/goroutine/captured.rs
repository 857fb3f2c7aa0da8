//! The test harness captures what a `#[gort::test]` prints.
//!
//! The tests that are ignored are run by the others, in a process of their own.

#[path = "../common/mod.rs"]
mod common;

use std::process::Command;

/// What a run of that ignored test prints, and whether it passes.
fn outcome(test: &str, arguments: &[&str]) -> (String, String, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored"]).args(arguments).env_remove("RUST_BACKTRACE");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.success())
}

#[gort::test]
#[ignore = "run by others"]
fn fails() {
    println!("printed before the wait");
    gort::sleep(std::time::Duration::from_millis(2));
    common::migrate();
    println!("printed after the wait");
    eprintln!("printed to standard error");
    panic!("the reason of the failure");
}

#[gort::test]
#[ignore = "run by others"]
fn passes() {
    println!("printed before the wait");
}

#[test]
fn a_failing_test_has_its_output_and_message_under_failures() {
    for threads in ["--test-threads=1", "--test-threads=2"] {
        let (stdout, stderr, passed) = outcome("fails", &[threads]);
        assert!(!passed);
        let Some((before, entry)) = stdout.split_once("---- fails stdout ----") else {
            panic!("there is no entry:\n{stdout}\n{stderr}");
        };
        for expected in [
            "printed before the wait",
            "printed after the wait",
            "printed to standard error",
            "(spawned at tests/goroutine/captured.rs:",
            "the reason of the failure",
        ] {
            assert!(entry.contains(expected), "{expected:?} is missing:\n{stdout}\n{stderr}");
            assert!(!before.contains(expected) && !stderr.contains(expected), "{stdout}\n{stderr}");
        }
    }
}

#[test]
fn a_passing_test_prints_nothing_unless_asked_to() {
    let (stdout, stderr, passed) = outcome("passes", &[]);
    assert!(passed && !stdout.contains("printed") && !stderr.contains("printed"), "{stdout}\n{stderr}");
    let (stdout, _, passed) = outcome("passes", &["--nocapture"]);
    assert!(passed && stdout.contains("printed before the wait"), "{stdout}");
    let (stdout, _, passed) = outcome("passes", &["--show-output"]);
    assert!(passed && stdout.contains("printed before the wait"), "{stdout}");
}
