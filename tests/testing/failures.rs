//! How a bubble ends: with a value, a panic, a deadlock, or with goroutines left behind.

use std::time::Duration;

use gort::chan::bounded;
use gort::sync::Mutex;
use gort::testing::bubble;
use gort::time::{Ticker, sleep};

use crate::{MS, panic_of};

#[test]
fn an_empty_bubble_ends_and_returns() {
    bubble(|| {});
    assert_eq!(bubble(|| String::from("value")), "value");
    assert_eq!(gort::run(|| bubble(|| 5)), 5);
}

#[test]
fn a_deadlock_is_found_and_lists_the_waiters() {
    let text = panic_of(|| {
        let (_s, r) = bounded::<()>(0);
        gort::Builder::new()
            .name("the child".into())
            .spawn(|| {
                let mutex = Mutex::new(());
                let _held = mutex.lock();
                drop(mutex.lock());
            })
            .unwrap();
        let _ = r.recv();
    });
    assert!(text.contains("deadlock") && text.contains("GORT_SEED=1"), "{text}");
    assert!(text.contains("'the child': sync.Mutex.Lock") && text.contains("chan receive"), "{text}");
    assert!(text.contains("failures.rs"), "where it was spawned: {text}");
    // A goroutine that sleeps forever.
    assert!(panic_of(|| sleep(Duration::MAX)).contains("sleep"));
}

#[test]
fn goroutines_left_behind_are_found() {
    let text = panic_of(|| {
        let ticker = Ticker::new(MS);
        gort::spawn(move || ticker.c().iter().count());
        sleep(10 * MS);
    });
    assert!(text.contains("others wait forever") && text.contains("chan receive"), "{text}");
}

#[test]
fn a_panic_comes_out_and_others_stay_isolated() {
    assert_eq!(panic_of(|| panic!("from the bubble, on purpose")), "from the bubble, on purpose");
    bubble(|| assert!(gort::spawn(|| panic!("inside, on purpose")).join().is_err()));
    let text = panic_of(|| bubble(|| {}));
    assert!(text.contains("inside a bubble"), "{text}");
}
