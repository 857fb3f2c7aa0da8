//! The global queue: runnable goroutines that belong to no P. It is behind the scheduler lock (`schedt.rs`).

use super::latency_sampler::{Clock, SampledQueue};

/// The lists of the global queue. [`GlobalQueue::pop`] takes from each in turn, so that goroutines of one
/// list do not wait behind those of another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// All others.
    Common,
    /// Goroutines that lost their P in a blocking call and came back. One of them may hold a lock of the
    /// user's, on which the goroutines that run instead may block.
    Returned,
    /// Goroutines that would have run soon but for a goroutine that blocks: what was to run next on a P that
    /// lost its M, and what a timer or I/O woke in a burst of blocking calls (`monitor/sysmon/burst.rs`).
    Urgent,
}

const LANES: usize = 3;

pub(crate) struct GlobalQueue<T: 'static> {
    lists: [SampledQueue<T>; LANES],
    /// The list that the next pop tries first.
    next: usize,
}

impl<T> GlobalQueue<T> {
    pub(crate) const fn new() -> GlobalQueue<T> {
        GlobalQueue { lists: [const { SampledQueue::new() }; LANES], next: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.lists.iter().map(SampledQueue::len).sum()
    }

    /// Appends a goroutine to one of the lists.
    pub(crate) fn push(&mut self, lane: Lane, g: &'static T, clock: Clock<'_>) {
        self.lists[lane as usize].push_back(g, clock);
    }

    /// Moves each goroutine of the common list to the list that `lane_of` says, unless there are more than
    /// `most`.
    pub(crate) fn sort(&mut self, most: usize, clock: Clock<'_>, lane_of: impl Fn(&'static T) -> Lane) {
        let count = self.lists[Lane::Common as usize].len();
        if count > most {
            return;
        }
        for _ in 0..count {
            let Some(g) = self.lists[Lane::Common as usize].pop_front(clock) else { break };
            self.push(lane_of(g), g, clock);
        }
    }

    pub(crate) fn pop(&mut self, clock: Clock<'_>) -> Option<&'static T> {
        let first = self.next;
        let mut lanes = (0..LANES).map(|n| (first + n) % LANES);
        let lane = lanes.find(|&lane| self.lists[lane].len() != 0)?;
        self.next = (lane + 1) % LANES;
        self.lists[lane].pop_front(clock)
    }

    /// Looks at up to `count` goroutines of each list and takes the first that is `wanted`. Those that it
    /// looked at in vain go to the end of their list, so that the next call looks at others.
    pub(crate) fn pop_wanted(
        &mut self,
        count: usize,
        clock: Clock<'_>,
        wanted: impl Fn(&'static T) -> bool,
    ) -> Option<&'static T> {
        for list in self.lists.iter_mut().rev() {
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
            // The others are never moved to a run queue, where they would wait behind the common ones again.
            let Some(g) = self.lists[Lane::Common as usize].pop_front(clock) else { break };
            each(g);
        }
        Some(first)
    }
}
