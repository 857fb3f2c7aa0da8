//! Sleeping goroutines.

use std::time::{Duration, Instant};

#[test]
fn sleepers_wake_in_order_and_never_early() {
    gort::run(|| {
        let start = Instant::now();
        let handles: Vec<_> = (0..2_000u64)
            .map(|n| {
                gort::spawn(move || {
                    let wanted = Duration::from_millis(n % 20) + Duration::from_micros(n);
                    let before = Instant::now();
                    gort::time::sleep(wanted);
                    assert!(before.elapsed() >= wanted);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(19));
    });
}

#[test]
fn a_deadline_in_the_past_returns_at_once() {
    let past = Instant::now();
    gort::run(|| gort::time::sleep_until(past));
}
