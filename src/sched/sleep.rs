//! When an M may sleep and when one must be woken: the counts, and the order in which they are touched.
//!
//! | count      | who is counted                                                                          |
//! |------------|-----------------------------------------------------------------------------------------|
//! | `idle`     | Ps in the idle list; changed under the scheduler lock, read without it                  |
//! | `spinning` | holders of a spinner's token: Ms that look for work in other Ps' queues, an M that was  |
//! |            | handed a P to do so, a thread start under way, a waker that is about to hand out a P    |
//!
//! The promise: when nobody is inside one of these functions, there is no work in any queue while a P is idle
//! and nobody spins, but for what a brisk P keeps (`brisk.rs`). Four rules keep it (README.md has the argument, `gort-loom` checks it):
//!
//! - S1. Who made work puts it into a queue first and then asks `should_wake`.
//! - S2. Who makes a P idle, or stops spinning without having found work, looks at all queues afterwards
//!   (`gave_up_p`, `p_for_spinner`, `work_waits`).
//! - S3. Who stops spinning because it found work wakes the next one (`found_work`): there may be more, and
//!   whoever made that saw a spinner and woke nobody.
//! - S4. A token is handed on or given up through these functions, never forgotten.

use crate::atomic::{AtomicU32, CachePadded, Ordering, fence_after_seq_cst};

pub(crate) struct Sleep {
    idle: CachePadded<AtomicU32>,
    spinning: CachePadded<AtomicU32>,
}

impl Sleep {
    /// With both counts at 0: given by the caller because loom's atomics cannot be made in a constant.
    pub(crate) const fn new(idle: AtomicU32, spinning: AtomicU32) -> Sleep {
        Sleep { idle: CachePadded::new(idle), spinning: CachePadded::new(spinning) }
    }

    /// A P entered the idle list; under the scheduler lock. S2: look at the queues after releasing it.
    pub(crate) fn p_idle(&self) {
        // SeqCst: pairs with the load in `should_wake`; before the caller's look at the queues.
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// A P left the idle list; under the scheduler lock.
    pub(crate) fn p_busy(&self) {
        self.idle.fetch_sub(1, Ordering::SeqCst);
    }

    /// Asked by whoever has just put work into a queue with a SeqCst operation (S1). True: nobody is on the way
    /// to find it, so [`claim`](Sleep::claim) a token and wake an M.
    #[inline]
    #[must_use]
    pub(crate) fn should_wake(&self) -> bool {
        fence_after_seq_cst();
        // SeqCst: after the put in program order, and before `p_idle` or `give_back` of whoever did not see the
        // put.
        self.idle.load(Ordering::SeqCst) != 0 && self.spinning.load(Ordering::SeqCst) == 0
    }

    /// Whether a P seems to be idle: a cheap question before a dear one.
    #[inline]
    pub(crate) fn some_p_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) != 0
    }

    /// How many Ps are idle. SeqCst: sysmon says that it sleeps before it asks, and who takes an idle P asks
    /// afterwards whether sysmon sleeps.
    pub(crate) fn idle(&self) -> u32 {
        self.idle.load(Ordering::SeqCst)
    }

    /// How many tokens are out, at some moment.
    pub(crate) fn spinning(&self) -> u32 {
        self.spinning.load(Ordering::Relaxed)
    }

    /// Takes a spinner's token if nobody has one.
    #[must_use = "a token has to be handed on or given up"]
    pub(crate) fn claim(&self) -> bool {
        // SeqCst, also on failure: then the load comes before the holder's `give_back`, who looks after it.
        self.spinning.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes a token before stealing, unless as many Ms spin as half the number of busy Ps.
    #[must_use = "a token has to be handed on or given up"]
    pub(crate) fn try_spin(&self, procs: u32) -> bool {
        // A guess is enough: who is refused gives its P up and looks at the queues once more.
        let busy = procs.saturating_sub(self.idle.load(Ordering::Relaxed));
        if 2 * self.spinning.load(Ordering::Relaxed) >= busy {
            return false;
        }
        self.spin();
        true
    }

    /// Takes a token in any case.
    pub(crate) fn spin(&self) {
        self.spinning.fetch_add(1, Ordering::SeqCst);
    }

    /// A spinner found work, which is in its hands or in its queue, and gives its token up. True: as
    /// `should_wake` (S3).
    #[must_use]
    pub(crate) fn found_work(&self) -> bool {
        self.give_back();
        self.should_wake()
    }

    /// Gives a token up. The caller calls `should_wake` afterwards, or looks at the queues (S2).
    pub(crate) fn give_back(&self) {
        // SeqCst: pairs with the loads of `spinning` in `should_wake` and `claim`; before what the caller does
        // next.
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether work waits that an idle P could run. Asked after a P became idle or a token was given up.
    #[must_use]
    pub(crate) fn work_waits(&self, work_anywhere: impl FnOnce() -> bool) -> bool {
        fence_after_seq_cst();
        self.idle.load(Ordering::SeqCst) != 0 && work_anywhere()
    }

    /// Finds a P for the holder of a token. None: there is none, or nothing to do for it, and the token is given
    /// up.
    #[must_use]
    pub(crate) fn p_for_spinner<P>(
        &self,
        take_idle_p: impl Fn() -> Option<P>,
        work_anywhere: impl Fn() -> bool,
    ) -> Option<P> {
        loop {
            if let Some(p) = take_idle_p() {
                return Some(p);
            }
            // Whoever made work since we have the token relied on us.
            self.give_back();
            if !self.work_waits(&work_anywhere) || !self.claim() {
                return None;
            }
        }
    }

    /// The last step of an M that put its P into the idle list: gives up its token, if it has one, and looks at
    /// all queues. With some: there is work; the M has this P and a token.
    #[must_use]
    pub(crate) fn gave_up_p<P>(
        &self,
        was_spinning: bool,
        take_idle_p: impl Fn() -> Option<P>,
        work_anywhere: impl Fn() -> bool,
    ) -> Option<P> {
        if was_spinning {
            self.give_back();
        }
        if !self.work_waits(&work_anywhere) || !self.claim() {
            return None;
        }
        self.p_for_spinner(take_idle_p, work_anywhere)
    }
}
