//! The queue of preempted goroutines: runnable ones that were stopped because their slice was over. They run
//! after all others, so that a goroutine that was just woken never waits for a slice of 10 ms. The queue is
//! behind the scheduler lock (`schedt.rs`).

use super::latency_sampler::{Clock, SampledQueue};

pub(crate) struct PreemptedQueue<T: 'static> {
    /// Goroutines that stopped at a runtime call: any M can run them.
    movable: SampledQueue<T>,
    /// Goroutines whose own M waits for them, because a signal stopped them or they are bound to their
    /// thread. They only need a P.
    on_own_m: SampledQueue<T>,
    /// The next pop begins with `movable`.
    movable_next: bool,
    /// The head of `on_own_m` was skipped once; it is not skipped again.
    head_was_skipped: bool,
}

impl<T> PreemptedQueue<T> {
    pub(crate) const fn new() -> PreemptedQueue<T> {
        PreemptedQueue {
            movable: SampledQueue::new(),
            on_own_m: SampledQueue::new(),
            movable_next: false,
            head_was_skipped: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.movable.len() + self.on_own_m.len()
    }

    /// Appends a goroutine; `on_own_m` if its own M waits for it.
    pub(crate) fn push(&mut self, g: &'static T, on_own_m: bool, clock: Clock<'_>) {
        let list = if on_own_m { &mut self.on_own_m } else { &mut self.movable };
        list.push_back(g, clock);
    }

    /// Takes the oldest goroutine of the two lists in turn. `was_here` as for
    /// [`prefer_near`](PreemptedQueue::prefer_near).
    pub(crate) fn pop(
        &mut self,
        clock: Clock<'_>,
        was_here: impl Fn(&'static T) -> bool,
    ) -> Option<&'static T> {
        let movable_first = self.movable_next;
        self.movable_next = !movable_first;
        if !movable_first || self.movable.len() == 0 {
            self.prefer_near(was_here);
        }
        let (first, second) = if movable_first {
            (&mut self.movable, &mut self.on_own_m)
        } else {
            (&mut self.on_own_m, &mut self.movable)
        };
        first.pop_front(clock).or_else(|| second.pop_front(clock))
    }

    /// Takes a goroutine whose own M waits for it: it only needs a P. A caller that is about to sleep calls
    /// [`prefer_near`](PreemptedQueue::prefer_near) first.
    pub(crate) fn pop_on_own_m(&mut self, clock: Clock<'_>) -> Option<&'static T> {
        self.on_own_m.pop_front(clock)
    }

    /// Of the first two goroutines whose own M waits, moves the one to the front whose thread was last on the
    /// caller's CPU. The kernel wakes a thread on the CPU where it slept. If that CPU is busy and the caller
    /// is about to sleep, the caller's CPU has nothing to do until the kernel notices, often for
    /// milliseconds.
    ///
    /// The head is skipped at most once, and goroutines further behind are not preferred. Otherwise each CPU
    /// would end up with goroutines of its own, and not with equally many.
    pub(crate) fn prefer_near(&mut self, was_here: impl Fn(&'static T) -> bool) {
        let may_skip = !self.head_was_skipped && self.on_own_m.len() > 1;
        self.head_was_skipped = may_skip && self.on_own_m.prefer_second(was_here);
    }

    /// Whether goroutines are queued, and all of them are ones whose own M waits.
    pub(crate) fn only_on_own_m(&self) -> bool {
        self.movable.len() == 0 && self.on_own_m.len() != 0
    }
}
