//! Waking an M for an idle P (`wake_p`), handing a P to another M (`hand_off_p`), and retiring a P.

use crate::base::atomic::Ordering;
use crate::sched::platform::Platform;
use crate::sched::schedt::Sched;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::status::Status;

/// The M that takes over the waker's token, when a P is idle.
enum Successor {
    /// An idle M, which gets the P.
    IdleM(&'static M, &'static P),
    /// A new M: it will look for an idle P itself.
    NewM,
    /// A new M as well; and the P goes to a goroutine whose own M waits for it.
    NewMBeside(&'static P, &'static G),
}

impl<X: Platform> Sched<X> {
    /// Wakes an M for an idle P, unless an M spins already. The caller has queued the work before (S1).
    #[inline]
    pub(crate) fn wake_p(&self) {
        if self.idle.should_wake() {
            self.wake_p_slow();
        } else {
            self.tell_if_all_busy();
        }
    }

    /// Tells sysmon that a goroutine has to wait, unless an M is on the way.
    #[inline]
    pub(super) fn tell_if_all_busy(&self) {
        if !self.idle.some_p_idle() {
            self.platform.all_ps_busy();
        }
    }

    /// `wake_p`, after the idle protocol said that an M should be woken.
    #[cold]
    pub(crate) fn wake_p_slow(&self) {
        if !self.idle.claim_token() {
            return;
        }
        match self.idle.find_p_for_token(|| self.find_successor(), || self.work_anywhere()) {
            Some(Successor::IdleM(m, p)) => {
                m.spinning.set(true);
                self.hand_p_to(m, p);
            }
            Some(Successor::NewM) => self.platform.start_spinning_m(),
            Some(Successor::NewMBeside(p, g)) => {
                self.hand_p_to_own_m(p, g);
                self.platform.start_spinning_m();
            }
            None => {}
        }
    }

    fn find_successor(&self) -> Option<Successor> {
        let mut locked = self.lock();
        if !locked.has_idle_p() {
            return None;
        }
        if let Some(m) = locked.take_idle_m() {
            return locked.take_idle_p().map(|p| Successor::IdleM(m, p));
        }
        match locked.pop_on_own_m() {
            Some(g) => locked.take_idle_p().map(|p| Successor::NewMBeside(p, g)),
            None => Some(Successor::NewM),
        }
    }

    /// Gives a P to an M that sleeps.
    pub(crate) fn hand_p_to(&self, m: &'static M, p: &'static P) {
        m.next_p.set(Some(p));
        self.platform.wake_m(m);
    }

    /// Lets a goroutine go on whose own M waits for it.
    fn hand_p_to_own_m(&self, p: &'static P, g: &'static G) {
        match g.locked_m.get() {
            Some(m) => self.hand_p_to(m, p),
            None => unreachable!("a goroutine that its M waits for has one"),
        }
    }

    /// For the housekeeper when no M can be started: gives idle Ps to goroutines in the global queue that are
    /// bound to an M, because those Ms wait for nothing but a P. Usually an M takes a bound goroutine out of
    /// the queue and hands its own P on (`locked_m.rs`); when every M is bound, there is no such M.
    pub(crate) fn hand_idle_ps_to_bound(&self) {
        // In portions: the queue may be long, and all Ms need its lock.
        const PORTION: usize = 64;
        let mut left = self.global_len() as usize;
        while left > 0 {
            let mut locked = self.lock();
            if !locked.has_idle_p() {
                return;
            }
            let Some(g) = locked.pop_global_bound(PORTION) else {
                left = left.saturating_sub(PORTION);
                continue;
            };
            left -= 1;
            let p = locked.take_idle_p();
            drop(locked);
            match p {
                Some(p) => self.hand_p_to_own_m(p, g),
                None => unreachable!("there was an idle P under this lock"),
            }
        }
    }

    /// Finds an M for a P whose owner cannot use it: a locked goroutine stopped, or a call blocks.
    ///
    /// If there is no M to spare, the P goes to a goroutine that a signal stopped, because its own M waits
    /// for it. This is not only faster than a new M: the goroutine may have been stopped inside the
    /// allocator. Then every thread that allocates waits for it, the housekeeper that starts new Ms included.
    pub(crate) fn hand_off_p(&self, p: &'static P) {
        let has_work =
            !p.runq.is_empty() || self.global_len() + self.preempted_len() != 0 || self.platform.forks_wait();
        if has_work && self.hand_p_to_some_m(p) {
            return;
        }
        self.drain_to_global(p);
        let locked = self.lock();
        if p.retired.load(Ordering::Relaxed) {
            drop(locked);
            return self.retire_p(p);
        }
        locked.put_idle_p(p);
        drop(locked);
        if self.idle.work_waits(|| self.work_anywhere()) {
            self.wake_p();
        } else {
            X::ensure_poller(self);
        }
    }

    fn hand_p_to_some_m(&self, p: &'static P) -> bool {
        let mut locked = self.lock();
        if let Some(m) = locked.take_idle_m() {
            drop(locked);
            m.spinning.set(false);
            self.hand_p_to(m, p);
            return true;
        }
        if p.retired.load(Ordering::Relaxed) {
            return false;
        }
        locked.prefer_near();
        let Some(g) = locked.pop_on_own_m() else { return false };
        drop(locked);
        // Next time, other runnable goroutines need an idle M.
        self.platform.start_spare_m();
        self.hand_p_to_own_m(p, g);
        // Start an M for the next time, too. Otherwise, with one P and one M, a goroutine that a signal
        // stopped would get its P back each time, and the others would starve.
        if self.idle.claim_token() {
            self.platform.start_spinning_m();
        }
        true
    }

    /// For a goroutine that came back from a blocking call: takes an idle P for it, or queues it. In the
    /// second case no M need be woken, because an M gives up its P under the same lock, and only if the queue
    /// is empty.
    pub(crate) fn take_p_or_queue(&self, g: &'static G) -> Option<&'static P> {
        let mut locked = self.lock();
        let p = locked.take_idle_p();
        if p.is_none() {
            g.set_status(Status::Runnable);
            locked.push_returned(g);
            drop(locked);
            self.platform.all_ps_busy();
        }
        p
    }

    /// For an M that found its P retired: gives it up.
    pub(crate) fn give_up_retired_p(&self, m: &'static M, p: &'static P) {
        m.set_p(None);
        if m.spinning.replace(false) {
            self.idle.release_token();
        }
        self.retire_p(p); // wakes the M that is needed (S2)
    }

    /// Moves everything that a retired P holds elsewhere. The P has no owner any more.
    pub(crate) fn retire_p(&self, p: &'static P) {
        self.drain_to_global(p);
        X::p_retired(self, p);
    }
}
