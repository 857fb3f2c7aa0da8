//! Bursts of unmarked blocking calls.
//!
//! A goroutine that blocks without marking the call keeps its P until sysmon finds it, which takes two looks
//! and the pause between them. For one call that is nothing. If thousands of goroutines do the same, the wait
//! for each adds up, and every other goroutine waits in the queue behind them.
//!
//! When sysmon has taken a few Ps from blocked goroutines shortly after each other, it assumes that the
//! goroutines that wait will block, too. From then on, until it has found none for 10 ms:
//!
//! - it looks again after the shortest pause (`pauses.rs`), and takes the P of a goroutine as soon as it sees
//!   the thread asleep in the kernel (`slices.rs`);
//! - it asks the housekeeper for Ms ahead of the need, so that the P goes to an idle M at once;
//! - Ms take goroutines from the global queue one by one (`Sched::take_global`) and sysmon moves the ring of
//!   the P to the global queue, so that nothing waits in a ring behind a goroutine that will block;
//! - a goroutine that a timer or I/O woke does not wait in a ring (`Sched::inject_on`), and takes turns with
//!   the others in the global queue (`Lane::Urgent`), because it will likely run only briefly.
//!
//! A wrong guess costs little: a goroutine that slept in the kernel for a moment, say for a lock, waits for a
//! P at its next call into the runtime, and a few threads too many end after some seconds.

use std::sync::atomic::Ordering;

use super::MILLI;
use crate::sched::idle::start_m::keep_spare_ms;
use crate::sched::machine::SCHED;

/// A burst begins when sysmon has taken this many Ps from blocked goroutines with few looks in between.
const BEGINS_AT: u32 = 4;
/// A burst does not begin if this many looks in a row find no blocked goroutine (about a millisecond).
const QUIET_BEFORE: u32 = 8;
/// A burst ends when this many looks in a row, during [`LULL`], found no blocked goroutine. Both are needed:
/// looks may follow each other quickly, and other processes may keep all threads of this one from the cores
/// for longer than that.
const QUIET_AFTER: u32 = 64;
/// See [`QUIET_AFTER`] (ns).
const LULL: u64 = 10 * MILLI;

/// The most idle Ms that the housekeeper keeps ready. It starts an M faster than sysmon finds the next
/// blocked goroutine, but other threads may keep it from a core for a while.
const MOST_SPARE_MS: u32 = 8;

#[derive(Default)]
pub(super) struct Burst {
    /// How many Ps sysmon took from blocked goroutines, with few looks between two of them.
    taken: u32,
    /// Looks since it took the last one.
    quiet_looks: u32,
    /// When it took the last one (ns).
    last: u64,
}

impl Burst {
    /// Called at each look.
    pub(super) fn begin_look(&mut self, now: u64) {
        self.quiet_looks = self.quiet_looks.saturating_add(1);
        let over = if self.is_on() {
            self.quiet_looks > QUIET_AFTER && now - self.last > LULL
        } else {
            self.quiet_looks > QUIET_BEFORE
        };
        if over {
            self.end();
        }
    }

    /// sysmon found no blocked goroutine for a while, or is about to sleep.
    pub(super) fn end(&mut self) {
        *self = Burst::default();
        SCHED.platform.sysmon.in_burst.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self) -> bool {
        self.taken >= BEGINS_AT
    }

    /// sysmon has taken the P of a goroutine that blocks in an unmarked call.
    pub(super) fn took_p(&mut self, now: u64) {
        *self = Burst { taken: self.taken.saturating_add(1), quiet_looks: 0, last: now };
        if self.taken == BEGINS_AT {
            SCHED.platform.sysmon.in_burst.store(true, Ordering::Relaxed);
            SCHED.lock().sort_global();
        }
        if self.is_on() {
            keep_spare_ms(self.taken.min(MOST_SPARE_MS));
        }
    }
}
