//! `gort::process`.

#[path = "../common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Procs, Watchdog, threads, until};
use gort::process::{Child, Command, Stdio};

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn both_outputs_are_read_at_once() {
    let _watchdog = Watchdog::start();
    // More bytes than two pipes hold: first all of one stream, then all of the other.
    let script = "head -c 300000 /dev/zero >&2; head -c 400000 /dev/zero; exit 4";
    let output = gort::run(|| sh(script).output()).unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (400_000, 300_000));
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn output_has_stds_defaults_and_leaves_them() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let mut command = sh("cat; echo out; echo err >&2");
        command.stderr(Stdio::null());
        let output = command.output().unwrap(); // `cat` ends: there is no input
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b""[..]));
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        assert!(child.stdout.is_none() && child.wait().unwrap().success());
        let mut command = sh("cat");
        command.stdin(Stdio::piped());
        assert_eq!(command.output().unwrap().stdout, b"");
    });
}

#[test]
fn a_dialogue_with_a_child() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        for n in 0..100 {
            writeln!(child.stdin.as_ref().unwrap(), "line {n}").unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), format!("line {n}"));
        }
        assert!(child.try_wait().unwrap().is_none());
        // Closes the child's input, at whose end the child ends.
        assert!(child.wait().unwrap().success());
        assert!(answers.next().is_none());
        assert!(child.wait().unwrap().success(), "the status is remembered");
        assert!(child.try_wait().unwrap().unwrap().success());
        child.kill().unwrap();
    });
}

#[test]
fn goroutines_that_wait_for_children_hold_no_p_and_no_thread() {
    // Alone, because other tests start threads.
    if !common::alone("goroutines_that_wait_for_children_hold_no_p_and_no_thread") {
        return;
    }
    let _procs = Procs::set(1);
    let (waiting, before) = (AtomicUsize::new(0), threads().len());
    let mut during = usize::MAX;
    gort::scope(|s| {
        let mut children: Vec<Child> =
            (0..20).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect();
        let ids: Vec<u32> = children.iter().map(Child::id).collect();
        for mut child in children.drain(..) {
            let waiting = &waiting;
            s.spawn(move || {
                waiting.fetch_add(1, Ordering::Relaxed);
                assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
            });
        }
        until("all wait", || waiting.load(Ordering::Relaxed) == 20);
        gort::spawn(|| gort::sleep(Duration::from_millis(1))).join().unwrap();
        during = threads().len();
        for id in ids {
            // SAFETY: a child of ours, which runs or was not waited for.
            assert_eq!(unsafe { libc::kill(id as i32, libc::SIGTERM) }, 0);
        }
    });
    // Checked only now, so that no child stays behind when this fails.
    assert!(during < before + 15, "{during} threads, {before} before");
}

#[test]
fn errors_and_settings_are_stds() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let error = Command::new("/no/such/program").spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(Command::new("/no/such/program").output().unwrap_err().kind(), ErrorKind::NotFound);
        let mut command = sh("echo $WHO in $PWD; echo ${HOME-homeless}");
        command.env_clear().env("WHO", "gort").envs([("A", "B")]).env_remove("A").current_dir("/");
        assert_eq!(command.output().unwrap().stdout, b"gort in /\nhomeless\n");
        assert_eq!(command.get_program(), "sh");
        assert_eq!(command.get_args().count(), 2);
        assert_eq!(command.get_current_dir().unwrap().to_str(), Some("/"));
        command.as_std_mut().arg0("other");
        assert!(command.status().unwrap().success());
    });
}

#[test]
fn from_a_thread_and_from_std() {
    let _watchdog = Watchdog::start();
    let mut child = Child::from(std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
    assert!(child.wait().unwrap().success());
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    assert!(Child::from(ended).wait().unwrap().success());
    let mut one = sh("echo 1; echo 2").stdout(Stdio::piped()).spawn().unwrap();
    let two = Command::new("tail").args(["-n", "1"]).stdin(one.stdout.take().unwrap()).output().unwrap();
    assert_eq!(two.stdout, b"2\n");
    assert!(one.wait().unwrap().success());
}

#[test]
fn many_children_under_load() {
    let _watchdog = Watchdog::start();
    let rounds = common::amount(10, 125);
    gort::scope(|s| {
        for n in 0..8 {
            s.spawn(move || {
                for round in 0..rounds {
                    let code = (n * 10 + round) % 256;
                    let mut child =
                        sh(&format!("echo x; exit {code}")).stdout(Stdio::piped()).spawn().unwrap();
                    let mut text = String::new();
                    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
                    assert_eq!(text, "x\n");
                    assert_eq!(child.wait().unwrap().code(), Some(code as i32));
                }
            });
        }
    });
}
