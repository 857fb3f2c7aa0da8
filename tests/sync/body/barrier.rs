//! Barrier, as in std.

use std::sync::atomic::{AtomicUsize, Ordering};

use gort::sync::Barrier;

use super::{scope, test};

#[test]
fn nobody_passes_before_all_have_come_and_one_leads() {
    const N: usize = 10;
    let (barrier, came, leaders) = (Barrier::new(N), AtomicUsize::new(0), AtomicUsize::new(0));
    scope(|s| {
        for _ in 0..N {
            s.spawn(|| {
                for round in 1..=50 {
                    came.fetch_add(1, Ordering::Relaxed);
                    if barrier.wait().is_leader() {
                        leaders.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(came.load(Ordering::Relaxed) >= round * N);
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(leaders.into_inner(), 50);
}

#[test]
fn none_and_one_never_wait() {
    for n in [0, 1] {
        let barrier = Barrier::new(n);
        assert!(barrier.wait().is_leader());
        assert!(barrier.wait().is_leader());
    }
}
