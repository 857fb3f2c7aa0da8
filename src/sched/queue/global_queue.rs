//! The global queue: runnable goroutines that belong to no P. It is behind the scheduler lock (`schedt.rs`).

use super::latency_sampler::{Clock, SampledQueue};
use crate::base::list::{Linked, List};

pub(crate) struct GlobalQueue<T: 'static> {
    queue: SampledQueue<T>,
    /// Goroutines that must not wait behind `queue`, so `pop` alternates between the two lists:
    ///
    /// - those that lost their P in a blocking call and came back: one of them may hold a lock of the user's,
    ///   on which the goroutines that run instead may block;
    /// - those that would have run next on a P that lost its M;
    /// - in a burst of blocking calls (`monitor/sysmon/burst.rs`), those that a timer or I/O woke.
    early: SampledQueue<T>,
    /// The next pop tries `early` first.
    early_next: bool,
}

impl<T> GlobalQueue<T> {
    pub(crate) const fn new() -> GlobalQueue<T> {
        GlobalQueue { queue: SampledQueue::new(), early: SampledQueue::new(), early_next: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.early.len()
    }

    /// Appends a goroutine.
    pub(crate) fn push(&mut self, g: &'static T, clock: Clock<'_>) {
        self.queue.push_back(g, clock);
    }

    /// Appends a goroutine that must not wait behind all others.
    pub(crate) fn push_early(&mut self, g: &'static T, clock: Clock<'_>) {
        self.early.push_back(g, clock);
    }

    /// Appends a whole list.
    pub(crate) fn push_list(&mut self, list: &List<T>, clock: Clock<'_>)
    where
        T: Linked,
    {
        while let Some(g) = list.pop_front() {
            self.queue.push_back(g, clock);
        }
    }

    /// Appends a whole list of goroutines that must not wait behind all others.
    pub(crate) fn push_list_early(&mut self, list: &List<T>, clock: Clock<'_>)
    where
        T: Linked,
    {
        while let Some(g) = list.pop_front() {
            self.early.push_back(g, clock);
        }
    }

    pub(crate) fn pop(&mut self, clock: Clock<'_>) -> Option<&'static T> {
        self.early_next = !self.early_next;
        let (first, second) = if self.early_next {
            (&mut self.queue, &mut self.early)
        } else {
            (&mut self.early, &mut self.queue)
        };
        first.pop_front(clock).or_else(|| second.pop_front(clock))
    }

    /// Looks at up to `count` goroutines of each list and takes the first that is `wanted`. Those that it
    /// looked at in vain go to the end of their list, so that the next call looks at others.
    pub(crate) fn pop_wanted(
        &mut self,
        count: usize,
        clock: Clock<'_>,
        wanted: impl Fn(&'static T) -> bool,
    ) -> Option<&'static T> {
        for list in [&mut self.early, &mut self.queue] {
            for _ in 0..list.len().min(count) {
                let g = list.pop_front(clock)?;
                if wanted(g) {
                    return Some(g);
                }
                list.push_back(g, clock);
            }
        }
        None
    }

    /// Takes up to `count` at once: returns the first and gives the others to `each`.
    pub(crate) fn pop_share(
        &mut self,
        count: usize,
        clock: Clock<'_>,
        each: impl Fn(&'static T),
    ) -> Option<&'static T> {
        let first = self.pop(clock)?;
        for _ in 1..count {
            // A goroutine of `early` is never moved to a run queue, where it would wait behind others again.
            let Some(g) = self.queue.pop_front(clock) else { break };
            each(g);
        }
        Some(first)
    }
}
