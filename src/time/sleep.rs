//! Functions that make the calling goroutine or thread sleep.

use std::time::{Duration, Instant};

use crate::context::{Context, Error};
use crate::sched::park::park_ready::yield_now;
use crate::sched::park::timers::sleep_goroutine;
use crate::sched::park::wait::Wait;
use crate::sched::park::{clock, limit};
use crate::sched::types::current::current;
use crate::sched::word::status::WaitReason;

/// Parks the calling goroutine, or blocks the calling thread, for at least `duration`.
///
/// `Duration::MAX` means forever. A goroutine that sleeps allocates nothing and holds no thread.
///
/// ```
/// use std::time::{Duration, Instant};
/// gort::run(|| {
///     let start = Instant::now();
///     gort::time::sleep(Duration::from_millis(2));
///     assert!(start.elapsed() >= Duration::from_millis(2));
/// });
/// ```
pub fn sleep(duration: Duration) {
    match current() {
        Some(_) if duration.is_zero() => yield_now(),
        Some(g) => {
            let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            sleep_goroutine(g, clock::nanos().saturating_add(nanos));
        }
        None => std::thread::sleep(duration),
    }
}

/// Like [`sleep`], but until `deadline`. Returns at once if the deadline has passed.
///
/// ```
/// use std::time::{Duration, Instant};
/// let deadline = Instant::now() + Duration::from_millis(1);
/// gort::run(|| gort::time::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
pub fn sleep_until(deadline: Instant) {
    match current() {
        Some(g) if deadline > clock::now() => sleep_goroutine(g, clock::nanos_at(deadline)),
        Some(_) => yield_now(),
        None => std::thread::sleep(deadline.saturating_duration_since(Instant::now())),
    }
}

/// Like [`sleep`], but may last up to `slack` longer: the sleep ends at the next multiple of `slack` on the
/// monotonic clock, as all sleeps with the same slack do. One wake-up then serves all of them, which saves
/// most of what many sleepers cost. [`Config::timer_slack`](crate::runtime::Config::timer_slack) is for all
/// timers.
///
/// ```
/// use std::time::{Duration, Instant};
/// gort::run(|| {
///     let start = Instant::now();
///     gort::time::sleep_with_slack(Duration::from_millis(2), Duration::from_millis(1));
///     assert!(start.elapsed() >= Duration::from_millis(2));
/// });
/// ```
pub fn sleep_with_slack(duration: Duration, slack: Duration) {
    let Some(g) = current() else { return std::thread::sleep(duration) };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sleep_goroutine(g, round_up(clock::nanos().saturating_add(nanos(duration)), nanos(slack)));
}

/// The next multiple of `step`, if that is a time.
fn round_up(time: u64, step: u64) -> u64 {
    time.checked_next_multiple_of(step.max(1)).unwrap_or(time)
}

/// Like [`sleep`], but only until the context ends.
///
/// # Errors
/// If the context ended first.
///
/// ```
/// use gort::context::{Context, Error};
/// use std::time::Duration;
/// let (ctx, cancel) = Context::background().with_cancel();
/// assert_eq!(gort::time::sleep_ctx(&ctx, Duration::from_millis(1)), Ok(()));
/// cancel.cancel();
/// assert_eq!(gort::time::sleep_ctx(&ctx, Duration::MAX), Err(Error::Canceled));
/// ```
pub fn sleep_ctx(ctx: &Context, duration: Duration) -> Result<(), Error> {
    let deadline = clock::now().checked_add(duration);
    loop {
        if let Some(error) = ctx.err() {
            return Err(error);
        }
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Ok(());
        }
        ctx.limit(|| {
            let until = deadline.or_else(|| clock::after(Duration::MAX));
            limit::park_until(&Wait::new(), WaitReason::Sleep, 0, until)
        });
    }
}
