//! Making goroutines runnable: putting them into a queue.
//!
//! After each put, `wake_p` (`wake_p.rs`) wakes an M if a P is idle and no M spins. One is enough: a spinner
//! that finds work wakes the next.

use std::ptr;

use crate::base::atomic::{Ordering, fence};
use crate::sched::platform::Platform;
use crate::sched::queue::runq::BATCH;
use crate::sched::schedt::Sched;
use crate::sched::types::g::{G, GList};
use crate::sched::types::p::P;
use crate::sched::word::status::Status;

impl<X: Platform> Sched<X> {
    /// Puts a goroutine, which belongs to the caller, into the global queue.
    pub(crate) fn ready_global(&self, g: &'static G) {
        g.set_status(Status::Runnable);
        self.lock().push_global(g);
        self.wake_p();
    }

    /// Puts a goroutine, which belongs to the caller, into `runnext` of a P that the caller owns.
    #[inline]
    pub(crate) fn ready_on(&self, p: &'static P, g: &'static G) {
        g.set_status(Status::Runnable);
        self.put_next(p, g);
        if self.idle.should_wake() {
            if !p.deferred_wake.keeps(&p.runq) {
                self.wake_p_slow();
            }
        } else {
            self.tell_if_all_busy();
        }
    }

    /// Appends all goroutines of a list, which a timer or I/O woke, in order to the ring of a P that the
    /// caller owns.
    pub(crate) fn inject_on(&self, p: &'static P, list: &GList) {
        if list.len() == 0 {
            return;
        }
        if self.platform.in_burst() {
            // In the ring they would wait behind goroutines that block.
            return self.inject_global(list);
        }
        while let Some(g) = list.pop_front() {
            g.set_status(Status::Runnable);
            self.put_last(p, g);
        }
        // Between the puts and the look at the idle Ps: see `put_last`.
        fence(Ordering::SeqCst);
        self.wake_p();
    }

    /// Appends all goroutines of a list, which a timer or I/O woke, to the global queue.
    pub(crate) fn inject_global(&self, list: &GList) {
        if list.len() != 0 {
            list.for_each(|g| g.set_status(Status::Runnable));
            self.lock().push_global_list(list);
            self.wake_p();
        }
    }

    /// Puts `g` into runnext; what was there goes to the end of the ring. The caller owns the P.
    #[inline]
    pub(crate) fn put_next(&self, p: &'static P, g: &'static G) {
        // SAFETY: the caller owns the P (P1).
        let owner = unsafe { p.runq.owner() };
        let kicked = owner.put_next(ptr::from_ref(g).cast_mut());
        if !kicked.is_null() {
            // SAFETY: the queue holds pointers to Gs only.
            self.put_last(p, unsafe { &*kicked });
        }
    }

    /// Puts `g` at the end of the ring, or, if that is full, half of the ring and `g` into the global queue.
    /// A caller that then calls `wake_p` needs a SeqCst fence in between, unless it called `put_next` before.
    #[inline]
    pub(crate) fn put_last(&self, p: &'static P, g: &'static G) {
        // SAFETY: the caller owns the P (P1).
        if !unsafe { p.runq.owner() }.try_put(ptr::from_ref(g).cast_mut()) {
            self.overflow_to_global(p, g);
        }
    }

    #[cold]
    fn overflow_to_global(&self, p: &'static P, g: &'static G) {
        // SAFETY: the caller owns the P.
        let owner = unsafe { p.runq.owner() };
        let mut batch = [ptr::null_mut(); BATCH];
        loop {
            if let Some(count) = owner.take_half_when_full(&mut batch) {
                batch[count] = ptr::from_ref(g).cast_mut();
                p.stats.overflows.add(1);
                // SAFETY: the queue holds pointers to Gs only, and these are ours now.
                unsafe { self.lock().push_global_batch(&batch[..=count]) };
                // While they were between the queues no M could see them.
                self.wake_p();
                return;
            }
            if owner.try_put(ptr::from_ref(g).cast_mut()) {
                return;
            }
        }
    }

    /// Puts a goroutine that yielded at the end of the ring, after another one took its place on the P. In
    /// between no M could see it, so one may have to be woken.
    #[inline]
    pub(crate) fn requeue_yielded(&self, p: &'static P, g: &'static G) {
        self.put_last(p, g);
        if self.idle.some_p_idle() {
            fence(Ordering::SeqCst);
            self.wake_p();
        }
    }

    /// Moves everything in the P's run queue to the global queue. What was to run next does not wait behind
    /// the others there. The caller owns the P.
    pub(crate) fn drain_to_global(&self, p: &'static P) {
        // SAFETY: the caller owns the P.
        let owner = unsafe { p.runq.owner() };
        // SAFETY: the queue holds pointers to Gs only, and these are ours now.
        let next = unsafe { owner.take_next().as_ref() };
        let list = GList::new();
        // SAFETY: as above.
        while let Some(g) = unsafe { owner.take().as_ref() } {
            list.push_back(g);
        }
        if next.is_none() && list.len() == 0 {
            return;
        }
        let mut locked = self.lock();
        if let Some(g) = next {
            locked.push_urgent(g);
        }
        locked.push_global_list(&list);
    }
}
