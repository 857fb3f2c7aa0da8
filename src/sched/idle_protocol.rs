//! The idle protocol: when an M may sleep and when one must be woken. It consists of two counts, and of the
//! order in which threads change and read them.
//!
//! | count      | what it counts                                                                          |
//! |------------|-----------------------------------------------------------------------------------------|
//! | `idle`     | Ps in the idle list; changed under the scheduler lock, read without it                  |
//! | `spinning` | tokens. An M that looks for work in other Ps' queues holds one; so do an M that was     |
//! |            | handed a P to do so, a thread start under way, and a waker about to hand out a P        |
//!
//! The promise Q: when no thread is inside one of these functions, then no queue holds a goroutine, or no P
//! is idle, or some thread holds a token. (What a brisk P keeps does not count: `queue/deferred_wake.rs`.)
//! Four rules keep it (README.md has the argument, `gort-loom` checks it):
//!
//! - S1. A thread that made work puts it into a queue first and then asks `should_wake`.
//! - S2. A thread that makes a P idle, or gives a token up without having found work, looks at all queues
//!   afterwards (`recheck_after_idle`, `find_p_for_token`, `work_waits`).
//! - S3. A spinner that found work gives its token up and then wakes the next M
//!   (`transition_spinner_to_working`): there may be more work, whose maker saw a spinner and woke nobody.
//! - S4. A token is handed on or given up through these functions, never forgotten.

use crate::base::atomic::{AtomicU32, CachePadded, Ordering, fence_after_seq_cst};

pub(crate) struct IdleProtocol {
    idle: CachePadded<AtomicU32>,
    spinning: CachePadded<AtomicU32>,
}

impl IdleProtocol {
    /// Starts with both counts at 0. The caller passes them in, because loom's atomics cannot be made in a
    /// const fn.
    pub(crate) const fn new(idle: AtomicU32, spinning: AtomicU32) -> IdleProtocol {
        IdleProtocol { idle: CachePadded::new(idle), spinning: CachePadded::new(spinning) }
    }

    /// A P entered the idle list. The caller holds the scheduler lock, and looks at the queues after
    /// releasing it (S2).
    pub(crate) fn transition_p_to_idle(&self) {
        // SeqCst: pairs with the load in `should_wake`, and comes before the caller's look at the queues.
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// A P left the idle list. The caller holds the scheduler lock.
    pub(crate) fn transition_p_to_busy(&self) {
        self.idle.fetch_sub(1, Ordering::SeqCst);
    }

    /// Called by a thread that has just put work into a queue with a SeqCst operation (S1). True: no M is on
    /// the way to find the work, so the caller should take a token
    /// ([`claim_token`](IdleProtocol::claim_token)) and wake an M.
    #[inline]
    #[must_use]
    pub(crate) fn should_wake(&self) -> bool {
        fence_after_seq_cst();
        // SeqCst: after the put in program order, and before `transition_p_to_idle` or `release_token` of a
        // thread that did not see the put.
        self.idle.load(Ordering::SeqCst) != 0 && self.spinning.load(Ordering::SeqCst) == 0
    }

    /// Whether a P seems to be idle: a cheap check before an expensive one.
    #[inline]
    pub(crate) fn some_p_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) != 0
    }

    /// How many Ps are idle. SeqCst: sysmon announces that it sleeps before it reads this, and a thread that
    /// takes an idle P checks afterwards whether sysmon sleeps.
    pub(crate) fn idle(&self) -> u32 {
        self.idle.load(Ordering::SeqCst)
    }

    /// How many tokens exist; may be out of date at once.
    pub(crate) fn spinning(&self) -> u32 {
        self.spinning.load(Ordering::Relaxed)
    }

    /// Takes a token if no thread has one.
    #[must_use = "a token has to be handed on or given up"]
    pub(crate) fn claim_token(&self) -> bool {
        // SeqCst, also on failure: then the load comes before the holder's `release_token`, after which the
        // holder looks at the queues.
        self.spinning.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes a token before stealing, unless half as many Ms spin as Ps are busy.
    #[must_use = "a token has to be handed on or given up"]
    pub(crate) fn transition_m_to_spinning(&self, procs: u32) -> bool {
        // A guess is enough: an M that is refused gives its P up and looks at the queues once more.
        let busy = procs.saturating_sub(self.idle.load(Ordering::Relaxed));
        if 2 * self.spinning.load(Ordering::Relaxed) >= busy {
            return false;
        }
        self.add_spinner();
        true
    }

    /// Takes one more token.
    pub(crate) fn add_spinner(&self) {
        self.spinning.fetch_add(1, Ordering::SeqCst);
    }

    /// A spinner found work, which it holds or has queued on its P, and gives its token up. True: it must
    /// wake the next M, as with `should_wake` (S3).
    #[must_use]
    pub(crate) fn transition_spinner_to_working(&self) -> bool {
        self.release_token();
        self.should_wake()
    }

    /// Gives a token up. The caller calls `should_wake` afterwards, or looks at the queues (S2).
    pub(crate) fn release_token(&self) {
        // SeqCst: pairs with the loads of `spinning` in `should_wake` and `claim_token`, and comes before the
        // caller's next loads.
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether work waits that an idle P could run. Called after a P became idle or a token was given up.
    #[must_use]
    pub(crate) fn work_waits(&self, work_anywhere: impl FnOnce() -> bool) -> bool {
        fence_after_seq_cst();
        self.idle.load(Ordering::SeqCst) != 0 && work_anywhere()
    }

    /// Finds a P for the holder of a token. None: there is none, or nothing to do for it, and the token is
    /// given up.
    #[must_use]
    pub(crate) fn find_p_for_token<P>(
        &self,
        take_idle_p: impl Fn() -> Option<P>,
        work_anywhere: impl Fn() -> bool,
    ) -> Option<P> {
        loop {
            if let Some(p) = take_idle_p() {
                return Some(p);
            }
            // Threads that made work while we held the token relied on us, so look again.
            self.release_token();
            if !self.work_waits(&work_anywhere) || !self.claim_token() {
                return None;
            }
        }
    }

    /// The last step of an M that put its P into the idle list: gives up its token, if it has one, and looks
    /// at all queues. `Some`: there is work, and the M now has this P and a token.
    #[must_use]
    pub(crate) fn recheck_after_idle<P>(
        &self,
        was_spinning: bool,
        take_idle_p: impl Fn() -> Option<P>,
        work_anywhere: impl Fn() -> bool,
    ) -> Option<P> {
        if was_spinning {
            self.release_token();
        }
        if !self.work_waits(&work_anywhere) || !self.claim_token() {
            return None;
        }
        self.find_p_for_token(take_idle_p, work_anywhere)
    }
}
