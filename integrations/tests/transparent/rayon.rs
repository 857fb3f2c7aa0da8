//! rayon: goroutines that wait for its pool park.

use super::common::{alone, until};
use super::{Gate, MANY, results, until_few_threads};

/// The threads of the pool, which are OS threads.
const WORKERS: usize = 2;

#[test]
fn goroutines_wait_for_a_pool_of_rayon() {
    if !alone("rayon::goroutines_wait_for_a_pool_of_rayon") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(WORKERS).build().unwrap();
        let pool = std::sync::Arc::new(pool);
        static GATE: Gate = Gate::new();
        let waits = (0..MANY)
            .map(|n| {
                let pool = std::sync::Arc::clone(&pool);
                gort::spawn(move || {
                    pool.install(|| {
                        GATE.pass();
                        rayon::join(|| n, || 1)
                    })
                })
            })
            .collect();
        until("the pool is busy, and the others wait for it", || {
            GATE.arrived() == WORKERS && gort::runtime::stats().goroutines.waiting >= MANY
        });
        until_few_threads("rayon", WORKERS);
        GATE.open();
        let sums: usize = results(waits).into_iter().map(|(n, one)| n + one).sum();
        assert_eq!(sums, MANY * (MANY - 1) / 2 + MANY);
    });
}
