//! `#[gort::test(leaks = "deny")]` fails if goroutines of the test wait forever, names them, and leaves alone
//! what can still end.

#[path = "../common/mod.rs"]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{message_of, named};
use gort::chan::{bounded, never};
use gort::sync::Mutex;

/// Waits for a channel that it alone has.
#[inline(never)]
fn wait_forever() {
    let (sender, receiver) = bounded::<u32>(0);
    let _received = receiver.recv();
    drop(sender);
}

/// Runs a test that leaks until its message has all these parts. A stale copy of a handle anywhere in memory
/// may hide a leak, so that it takes several times.
fn must_fail(test: fn(), parts: &[&str]) {
    let mut message = String::new();
    for _ in 0..100 {
        let run = AssertUnwindSafe(|| gort::runtime::__run_test_denying_leaks(test));
        message = catch_unwind(run).map_or_else(message_of, |()| "it did not fail".into());
        if parts.iter().all(|part| message.contains(part)) {
            return;
        }
    }
    panic!("{parts:?} are not in {message}");
}

#[test]
fn a_leak_fails_the_test_with_name_stack_and_origin() {
    must_fail(
        || drop(named("the leaked one", wait_forever)),
        &[
            "the test has left behind a goroutine that waits forever (1):",
            "[chan receive] {name: the leaked one}",
            "deny_leaks::wait_forever",
            "at tests/testing/deny_leaks.rs:",
        ],
    );
}

#[test]
fn descendants_count() {
    fn test() {
        gort::spawn(|| {
            for _ in 0..3 {
                gort::spawn(|| gort::spawn(wait_forever));
            }
        });
    }
    must_fail(test, &["goroutines that wait forever (3):"]);
}

#[test]
fn locks_count() {
    fn test() {
        gort::spawn(|| {
            let lock = Mutex::new(());
            let _first = lock.lock();
            drop(lock.lock());
        });
    }
    must_fail(test, &["[sync.Mutex.Lock]"]);
}

#[gort::test(leaks = "deny")]
#[should_panic(expected = "that wait forever (")]
fn the_attribute_denies_leaks() {
    for _ in 0..30 {
        gort::spawn(wait_forever);
    }
}

#[gort::test(leaks = "deny")]
#[should_panic(expected = "the function's own panic")]
fn a_panic_of_the_function_comes_first() {
    gort::spawn(wait_forever);
    panic!("the function's own panic");
}

#[gort::test(leaks = "deny")]
fn goroutines_that_end_a_little_later_are_no_leak() {
    let (sender, receiver) = bounded::<u32>(0);
    gort::spawn(move || receiver.recv().map(|_| gort::sleep(std::time::Duration::from_millis(20))));
    gort::spawn(move || sender.send(1));
}

#[gort::test(leaks = "deny")]
fn goroutines_that_can_still_be_woken_are_no_leak() {
    static KEPT: std::sync::Mutex<Option<gort::chan::Sender<()>>> = std::sync::Mutex::new(None);
    let (sender, receiver) = bounded(0);
    *KEPT.lock().unwrap() = Some(sender);
    gort::spawn(move || receiver.recv());
    gort::spawn(|| gort::sleep(std::time::Duration::from_secs(3600)));
}

#[gort::test(leaks = "deny")]
fn results_are_returned() -> Result<(), String> {
    gort::spawn(|| ()).join().map_err(|_| "it panicked".into())
}

/// What other tests leave behind, and what was there before, is not this test's.
#[test]
fn others_are_not_blamed() {
    gort::run(|| drop(named("of nobody", || never::<()>().recv().is_ok())));
    must_fail(|| drop(gort::spawn(wait_forever)), &["waits forever (1):"]);
    gort::runtime::__run_test_denying_leaks(|| gort::spawn(|| ()).join().unwrap());
}

/// There are 255 numbers for tests that run.
#[test]
fn any_number_of_tests_can_run_one_after_the_other() {
    for _ in 0..300 {
        gort::runtime::__run_test_denying_leaks(|| gort::spawn(|| ()).join().unwrap());
    }
}
