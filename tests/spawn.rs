//! Starting goroutines and waiting for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn run_returns_what_the_closure_returns() {
    assert_eq!(gort::run(|| 6 * 7), 42);
}

#[test]
fn many_goroutines_all_run() {
    let count = Arc::new(AtomicUsize::new(0));
    let total = gort::run(|| {
        let handles: Vec<_> = (0..10_000)
            .map(|n| {
                let count = count.clone();
                gort::spawn(move || {
                    gort::yield_now();
                    count.fetch_add(1, Ordering::Relaxed);
                    n
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).sum::<usize>()
    });
    assert_eq!(total, 9_999 * 10_000 / 2);
    assert_eq!(count.load(Ordering::Relaxed), 10_000);
}
