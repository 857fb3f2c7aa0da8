//! Tests of shared flights that need to know how many callers have joined.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::sync::SingleFlight;
use crate::test_util::until;

#[test]
fn all_that_joined_get_the_one_answer() {
    const N: usize = 10;
    let (flights, calls) = (SingleFlight::new(), AtomicUsize::new(0));
    thread::scope(|s| {
        let all: Vec<_> = (0..N)
            .map(|_| {
                s.spawn(|| {
                    flights.call("key", || {
                        until(|| flights.joined(&"key") == N);
                        calls.fetch_add(1, Ordering::Relaxed)
                    })
                })
            })
            .collect();
        assert!(all.into_iter().all(|t| t.join().unwrap() == (0, true)));
    });
    assert_eq!(calls.into_inner(), 1);
    assert_eq!(flights.joined(&"key"), 0);
}
