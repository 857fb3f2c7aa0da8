//! Sleeping, timers and tickers, with Go's names and semantics.
//!
//! A goroutine that waits here holds no thread, and a sleep allocates nothing. All times are those of the
//! monotonic clock. `Duration::MAX`, and any other duration that is too long for the clock, means forever.
//!
//! No timer fires early. On an idle machine timers fire about 50 µs late, as the kernel's own sleeps do.
//! When many timers are due they are served together, up to 0.25 ms late.

mod sleep;
mod ticker;
mod timeout;
mod timer;

pub use self::sleep::{sleep, sleep_ctx, sleep_until, sleep_with_slack};
pub use self::ticker::Ticker;
pub use self::timeout::{Elapsed, timeout};
pub use self::timer::{Timer, after_func};

use std::time::Instant;

/// The current time. The same as `Instant::now()`, except in a test with virtual time.
///
/// ```
/// let before = gort::time::now();
/// assert!(gort::time::now() >= before);
/// ```
#[must_use]
pub fn now() -> Instant {
    crate::sched::park::clock::now()
}
