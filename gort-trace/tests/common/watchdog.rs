//! Ends the process if a test hangs, and says at what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A step takes milliseconds; one that takes this long hangs, on whatever machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Dropped at the end of the test.
pub(crate) struct Watchdog {
    at: Arc<AtomicU64>,
    _end: mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn start(test: &'static str) -> Watchdog {
        let (at, (end, ended)) = (Arc::new(AtomicU64::new(0)), mpsc::channel::<()>());
        let seen = Arc::clone(&at);
        std::thread::spawn(move || {
            let mut before = u64::MAX;
            while ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = seen.load(Ordering::Relaxed);
                if now == before {
                    eprintln!("{test} hangs at step {now}");
                    std::process::abort();
                }
                before = now;
            }
        });
        Watchdog { at, _end: end }
    }

    /// The test goes on, to this step.
    pub(crate) fn step(&self, number: usize) {
        self.at.store(number as u64, Ordering::Relaxed);
    }
}
