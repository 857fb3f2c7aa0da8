//! How long sysmon pauses between two looks.
//!
//! After it was woken or found something to do, sysmon looks again soon: after 20 µs, or 150 µs if neither
//! a marked call nor a burst of blocking calls (`burst.rs`) is under way. As long as nothing needs it, each
//! pause is twice as long as the one before. When every P has been idle for some looks, it sleeps until it
//! is woken.
//!
//! While goroutines wait for a P the pauses are short. A thread that queues a goroutine while all Ps are busy
//! cuts a long pause short (`wake_sysmon::look_soon`). It queues first and then reads whether sysmon is in a
//! long pause; sysmon first announces a long pause and then looks at the queues. So one of them sees the
//! other.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{MICRO, MILLI, TIMER_OVERDUE, all_idle, waiting};
use crate::sched::idle::poll_wait;
use crate::sched::idle::wake_sysmon::{ASLEEP, LONG_PAUSE, LOOKING, WATCH};
use crate::sched::machine::{SCHED, hooks};
use crate::sched::types::p::P;
use crate::sys::thread;

/// The first pause (ns).
const PAUSE: u64 = 20 * MICRO;
/// The longest pause (ns) while goroutines wait for a P. An unmarked blocking call may keep its P for twice
/// this long: less than half a millisecond.
const PAUSE_WAITING: u64 = 150 * MICRO;
/// The longest pause while all Ps are busy, or timers or descriptors may make work (ns).
const PAUSE_BUSY: u64 = MILLI;
/// The longest pause otherwise (ns): an M that is trusted to be brief relies on it, as on sysmon's timer.
const PAUSE_MAX: u64 = WATCH;

/// After more looks than this at which all Ps were idle, sysmon sleeps until it is woken. A server's Ps
/// become idle and busy again thousands of times a second, and waking sysmon each time would cost more than
/// the request.
const LINGER: u32 = 5;

/// For this many looks after goroutines waited for a P, sysmon assumes that some still do: between two
/// goroutines that take turns there are moments when none waits.
const WAITED: u32 = 8;

/// After this many looks at which nothing was urgent, sysmon's wake-ups no longer preempt running threads.
const POLITE_AFTER: u32 = 16;

pub(super) struct Pauses {
    /// The next pause (ns).
    next: u64,
    /// For this many more looks sysmon assumes that goroutines wait for a P ([`WAITED`]).
    waited: u32,
    /// Some P was brisk at the last look.
    some_brisk: bool,
    /// Looks in a row at which all Ps were idle.
    idle_looks: u32,
    /// Looks since the last one that found something urgent.
    quiet_looks: u32,
    /// The scheduling policy may be changed.
    may_be_polite: bool,
    /// sysmon's wake-ups do not preempt running threads.
    polite: bool,
}

impl Pauses {
    pub(super) fn new(may_be_polite: bool) -> Pauses {
        Pauses {
            next: PAUSE,
            waited: 0,
            some_brisk: false,
            idle_looks: 0,
            quiet_looks: 0,
            may_be_polite,
            polite: false,
        }
    }

    /// Rests until the next look. True: it slept until it was woken, and called `before_sleep` before.
    pub(super) fn rest(&mut self, before_sleep: impl FnOnce()) -> bool {
        self.idle_looks = if all_idle() { self.idle_looks + 1 } else { 0 };
        if self.idle_looks > LINGER {
            before_sleep();
            self.sleep_for_good();
            true
        } else {
            let soon = self.idle_looks == 0 || self.some_brisk;
            self.pause(if soon { self.next } else { PAUSE_BUSY });
            false
        }
    }

    /// Sleeps until a thread takes a P from the idle list, and does not give it back soon (Y3).
    fn sleep_for_good(&mut self) {
        let own = &SCHED.platform.sysmon;
        own.forget_timer();
        own.state.store(ASLEEP, Ordering::SeqCst);
        if all_idle() {
            (hooks().all_idle)();
            own.sleep();
        }
        own.state.store(LOOKING, Ordering::SeqCst);
        SCHED.platform.watchdog.wake.set();
        self.next = PAUSE;
    }

    fn pause(&mut self, mut nanos: u64) {
        let own = &SCHED.platform.sysmon;
        if nanos > PAUSE_WAITING {
            own.state.store(LONG_PAUSE, Ordering::SeqCst);
            if waiting().any {
                nanos = PAUSE_WAITING;
            }
        }
        if own.wake.wait_until(Some(Instant::now() + Duration::from_nanos(nanos))) {
            self.next = PAUSE;
        }
        own.state.store(LOOKING, Ordering::Relaxed);
    }

    /// Chooses the next pause. `some_wait`: goroutines wait for a P. `some_call`: a marked call or a
    /// burst of unmarked ones is under way. `acted`: the last look did something.
    /// `unattended`: of the Ps that may not have looked at their timers since the last look, the one with the
    /// earliest timer.
    pub(super) fn choose(
        &mut self,
        now: u64,
        some_wait: bool,
        some_brisk: bool,
        some_call: bool,
        acted: bool,
        unattended: Option<&'static P>,
    ) {
        self.some_brisk = some_brisk;
        let busy = SCHED.idle.idle() == 0;
        self.waited = if some_wait { WAITED } else { self.waited.saturating_sub(1) };
        let longest = if self.waited != 0 {
            PAUSE_WAITING
        } else if busy || poll_wait::may_make_work() {
            // (An M that polls may find a P, and then run something that takes long.)
            PAUSE_BUSY
        } else {
            PAUSE_MAX
        };
        // Only for blocking calls is a shorter pause of use.
        let shortest = if some_call { PAUSE } else { PAUSE_WAITING };
        self.next = if acted { PAUSE } else { (self.next * 2).clamp(shortest, longest) };
        if let Some(p) = unattended
            && (busy || !poll_wait::is_waiting())
        {
            let left = p.timers.next().saturating_add(TIMER_OVERDUE).saturating_sub(now);
            self.next = self.next.min(left.max(poll_wait::slack([p], now)));
        }
    }

    /// Chooses whether sysmon preempts a running thread when it wakes up (the kernel's scheduling policy).
    ///
    /// While goroutines take turns by themselves, a look that preempts one of them costs more than it is
    /// worth (measured with echo and timers: a sixth of all CPU time). Then sysmon waits for a free core; a
    /// goroutine that blocks leaves one, unless other processes want it. Long slices, and calls that block
    /// one after the other, need sysmon on time.
    pub(super) fn set_wakeup_preemption(&mut self, in_demand: bool) {
        self.quiet_looks = if in_demand { 0 } else { self.quiet_looks.saturating_add(1) };
        let polite = self.may_be_polite && self.quiet_looks >= POLITE_AFTER;
        if self.polite != polite {
            self.polite = polite;
            thread::set_wakeup_preemption(!polite);
        }
    }
}
