//! The housekeeper: a thread without a P for work that is not urgent. About once a second while goroutines
//! run, and twice more after they stopped, it shrinks stacks (`shrink.rs`), and checks whether the CPU
//! quota changed and whether libraries were loaded. And it serves reports (`Hooks::housekeep`).
//!
//! It may allocate, and wait for locks that goroutines hold. No goroutine depends on it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::shrink::Shrinker;
use super::signal_handler;
use crate::sched::idle::start_m::wake_housekeeper;
use crate::sched::machine::{SCHED, hooks};
use crate::sys::clock::nanotime;
use crate::sys::thread;
use crate::tls::loaded;

/// The time between two passes.
const PASS_EVERY: Duration = Duration::from_secs(1);

/// Shrinking stacks takes at most one part in this many (1/50) of the housekeeper's time: to look at a
/// million goroutines takes a tenth of a second.
const TRIM_SHARE: u32 = 50;

/// Called by sysmon: goroutines have run, so a pass may find something to do.
pub(crate) fn request_pass() {
    if !SCHED.platform.housekeeper.pass_wanted.swap(true, Ordering::Relaxed) {
        wake_housekeeper();
    }
}

/// The housekeeper's thread. It calls `once_a_second` at each pass.
pub(crate) fn run(mut once_a_second: impl FnMut()) {
    let own = &SCHED.platform.housekeeper;
    own.tid.store(thread::tid(), Ordering::Relaxed);
    let mut passes = Passes { next: None, next_trim: Instant::now(), shrinker: Shrinker::new() };
    let mut report: Option<Instant> = None;
    loop {
        own.wake.wait_until(passes.next.into_iter().chain(report).min());
        if SCHED.platform.sysmon.deaf.swap(false, Ordering::Acquire) {
            let _sent = signal_handler::send(SCHED.platform.sysmon.tid.load(Ordering::Relaxed));
        }
        report = (hooks().housekeep)();
        passes.serve(&mut once_a_second);
    }
}

/// What is done about once a second.
struct Passes {
    next: Option<Instant>,
    next_trim: Instant,
    shrinker: Shrinker,
}

impl Passes {
    fn serve(&mut self, once_a_second: &mut impl FnMut()) {
        let wanted = &SCHED.platform.housekeeper.pass_wanted;
        if self.next.is_none() && wanted.load(Ordering::Relaxed) {
            self.next = Some(Instant::now() + PASS_EVERY);
        }
        if self.next.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let start = Instant::now();
        if start >= self.next_trim {
            // One more pass if goroutines ran since the last one: a goroutine that parked meanwhile is shrunk
            // only then.
            self.next = wanted.swap(false, Ordering::Relaxed).then(|| start + PASS_EVERY);
            self.shrinker.pass();
            self.next_trim = start + start.elapsed() * TRIM_SHARE;
        } else {
            self.next = Some(start + PASS_EVERY);
            SCHED.platform.coarse_clock.store(nanotime(), Ordering::Relaxed);
        }
        once_a_second();
        loaded::notice();
    }
}
