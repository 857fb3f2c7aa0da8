//! Time: sleeping, timers, tickers. The names and the semantics are Go's.
//!
//! Nothing here holds a thread while it waits, and a sleep allocates nothing. Times are those of the monotonic clock.
//! `Duration::MAX`, and whatever else is too long to be counted, means for ever.
//!
//! Nothing comes early. On an idle machine it comes about 50 µs late, as the kernel's own sleeps do. Where many timers are due
//! they are served together: up to 0.25 ms late with dozens in each millisecond, up to 0.75 ms with hundreds.

pub(crate) mod clock;
mod sleep;
mod ticker;
mod timeout;
mod timer;

pub use self::sleep::{sleep, sleep_ctx, sleep_until};
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
    clock::now()
}
