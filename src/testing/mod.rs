//! Virtual time for tests, like Go's `testing/synctest`, with a schedule that can be repeated.
//!
//! [`bubble`] runs a function as a goroutine in a bubble. The goroutines that it spawns, and those that they
//! spawn, are in the bubble too.
//! - Time in the bubble stands still while a goroutine of it runs. When all goroutines wait, it jumps to the
//!   next timer. So a test with timeouts of hours takes microseconds, and no timeout fires because the
//!   machine is slow. Everything in gort (sleeps, timers, timeouts, contexts,
//!   [`time::now`](crate::time::now)) uses that time; std's `Instant::now()` does not.
//! - The goroutines run one at a time, in an order drawn from a seed: a schedule that made a test fail can be
//!   repeated.
//! - When all goroutines wait and there is no timer, or the first goroutine has ended and others wait, the
//!   bubble panics and says which goroutine waits for what.
//!
//! ```
//! use gort::testing::bubble;
//! use gort::time::{now, sleep};
//! use std::time::Duration;
//!
//! let slept = bubble(|| {
//!     let start = now();
//!     sleep(Duration::from_secs(24 * 3600));
//!     now() - start
//! });
//! assert_eq!(slept, Duration::from_secs(24 * 3600));
//! ```
//!
//! Every wait counts, even a wait for a channel that only goroutines outside of the bubble use: it does not
//! stop the clock from jumping. Only waits for I/O and blocking calls, marked or not, stop it. Randomness
//! outside of gort (the order of a `HashMap`) does not come from the seed.

pub(crate) mod bubble;

use std::hash::{BuildHasher, RandomState};
use std::panic::{Location, catch_unwind, resume_unwind};

use crate::goroutine::spawn_in_bubble;
use crate::sched::park::park_ready::park;
use crate::sched::types::current::{current, current_bubble};
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;
use crate::stack::size::Need;
use crate::sys::env;
use bubble::BubbleEnd;

/// Runs `f` in a bubble, with the seed in the environment variable `GORT_SEED`, or a random one. Returns its
/// result when all goroutines of the bubble have ended. See the [module](self).
///
/// # Panics
/// If `f` panics, with the same payload. If all goroutines of the bubble wait and no timer is left, or if
/// some still wait after `f` has returned. If it is called inside a bubble. The seed is printed.
#[track_caller]
pub fn bubble<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Bubble::new().run(f)
}

/// A bubble with a chosen seed.
///
/// ```
/// use gort::testing::Bubble;
/// // The same order each time.
/// let order = || Bubble::new().seed(7).run(|| {
///     let (s, r) = gort::chan::unbounded();
///     for n in 0..10 {
///         let s = s.clone();
///         gort::spawn(move || s.send(n).unwrap());
///     }
///     drop(s);
///     r.iter().collect::<Vec<_>>()
/// });
/// assert_eq!(order(), order());
/// ```
#[derive(Debug, Clone)]
#[must_use = "a bubble does nothing before `run`"]
pub struct Bubble {
    seed: u64,
}

impl Default for Bubble {
    fn default() -> Bubble {
        Bubble::new()
    }
}

impl Bubble {
    /// A bubble with the seed in the environment variable `GORT_SEED`, or a random one.
    pub fn new() -> Bubble {
        Bubble { seed: env::seed().unwrap_or_else(|| RandomState::new().hash_one(0)) }
    }

    /// Chooses the seed.
    pub fn seed(mut self, seed: u64) -> Bubble {
        self.seed = seed;
        self
    }

    /// Runs `f`, as [`bubble`] does.
    ///
    /// # Panics
    /// As [`bubble`].
    #[track_caller]
    pub fn run<F, T>(self, f: F) -> T
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        assert_eq!(current_bubble(), 0, "a bubble cannot be started inside a bubble");
        let Some(number) = bubble::make(self.seed, Waiter::current()) else {
            panic!("255 bubbles exist: some of them never came to an end");
        };
        let root = match spawn_in_bubble(number, Need::main, Location::caller(), f) {
            Ok(root) => root,
            Err(error) => panic!("failed to start the goroutine of a bubble: {error}"),
        };
        park(WaitReason::Scope, usize::from(number));
        let end = bubble::end(number);
        let result = (end == Some(BubbleEnd::Finished) || root.is_finished()).then(|| root.join());
        let report = if end == Some(BubbleEnd::Finished) {
            bubble::retire(number);
            None
        } else {
            Some(bubble::report(number))
        };
        let (seed, hint) = (self.seed, "repeats its schedule");
        match (result, report) {
            (Some(Ok(value)), None) => value,
            (Some(Err(payload)), _) => {
                // If the message cannot be written, the payload is still passed on.
                let _ = catch_unwind(|| {
                    eprintln!("gort: the bubble failed with seed {seed}; GORT_SEED={seed} {hint}");
                });
                resume_unwind(payload)
            }
            (Some(Ok(_)), Some(report)) => panic!(
                "the bubble's first goroutine has ended, and others wait forever (seed {seed}; \
                 GORT_SEED={seed} {hint}):{report}"
            ),
            (None, report) => panic!(
                "deadlock: all goroutines of the bubble wait (seed {seed}; GORT_SEED={seed} {hint}):{}",
                report.unwrap_or_default()
            ),
        }
    }
}

/// Waits until all other goroutines of the bubble wait: then everything that can happen at this time has
/// happened.
///
/// ```
/// use gort::testing::{bubble, wait};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// bubble(|| {
///     let done = Arc::new(AtomicBool::new(false));
///     let set = done.clone();
///     gort::spawn(move || set.store(true, Ordering::Relaxed));
///     wait();
///     assert!(done.load(Ordering::Relaxed));
/// });
/// ```
///
/// # Panics
/// If it is called outside of a bubble, or while another goroutine of the bubble is in this function.
pub fn wait() {
    let g = match current() {
        Some(g) if g.bubble.get() != 0 => g,
        _ => panic!("`wait` works in a bubble only"),
    };
    assert!(bubble::wait_for_all_others(g), "another goroutine of the bubble waits for all others");
    park(WaitReason::Bubble, 0);
}
