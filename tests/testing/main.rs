//! `gort::testing`: bubbles with virtual time and repeatable schedules. By behaviour from Go's synctest
//! tests: TestNow, TestRunEmpty, TestSimpleWait, TestGoroutineWait, TestWait, TestMallocs (as a stress),
//! TestTimerReadBeforeDeadline, TestTimerReadAfterDeadline, TestTimerReset, TestTimeAfter,
//! TestTimerAfterBubbleExit, TestTimerFromOutsideBubble, TestDeadlockRoot, TestDeadlockChild,
//! TestDeadlockTicker, TestCond, TestWaitGroupInBubble, TestContextDeadline, TestHappensBefore (as one
//! goroutine at a time).

#[path = "../common/mod.rs"]
mod common;

mod failures;
mod outside;
mod schedule;
mod time;

use std::time::Duration;

use gort::testing::Bubble;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs `f` in a bubble, where it must panic. Returns the message.
#[track_caller]
fn panic_of(f: impl FnOnce() + Send + 'static) -> String {
    common::panic_message(|| Bubble::new().seed(1).run(f))
}
