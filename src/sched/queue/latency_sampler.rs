//! Measures how long goroutines wait in the run queues and how long they run. It takes samples, so that an
//! ordinary switch need not read the clock.
//!
//! The owner of a P compares each tick with `due`: one predictable branch, which also sends every 61st tick
//! to the global queue (`run/find_runnable.rs`). A sample begins one tick after every fourth visit to the
//! global queue, not at the visit itself: a goroutine from that queue may be bound to another thread, and its
//! slice is not this P's.
//!
//! ```text
//! tick T       read the clock; note the end of the ring               Slice
//! tick T + 1   the goroutine of tick T has stopped: read the clock    -> a time slice
//!              one in runnext became runnable during that slice       -> a latency, at most a slice too long
//!              the first one that was put into the ring meanwhile:    Queued
//! tick T + k   it is the next to be taken: read the clock             -> a latency, at most a slice too long
//! ```
//! The watched goroutine is not taken before all goroutines ahead of it in the ring, so the owner looks again
//! after as many ticks as there are goroutines ahead. The sampler drops a sample whose goroutine was stolen,
//! and a slice in which the P had nothing to do.
//!
//! In the global queues every 16th goroutine is measured, under their lock, from the put until a P takes it.

use std::cell::Cell;

use super::histogram::Histogram;
use super::runq::RunQueue;
use crate::base::deque::PtrDeque;

/// Every 61st tick the P looks at the global queue first, so that two goroutines that keep waking each other
/// cannot starve the rest. 61 is Go's number.
pub(crate) const GLOBAL_EVERY: u32 = 61;

/// A sample begins at one of this many visits to the global queue.
const SAMPLE_EVERY: u32 = 4;

/// A clock (ns), and the histogram for latencies of the global queues.
#[derive(Clone, Copy)]
pub(crate) struct Clock<'a> {
    pub(crate) now: &'a dyn Fn() -> u64,
    pub(crate) latencies: &'a Histogram,
}

/// Belongs to the owner of its P, except for the histograms, which any thread may read.
pub(crate) struct Sampler {
    due: Cell<u32>,
    next_global: Cell<u32>,
    visits: Cell<u32>,
    state: Cell<State>,
    pub(crate) latencies: Histogram,
    pub(crate) slices: Histogram,
}

#[derive(Clone, Copy)]
enum State {
    Resting,
    /// A sample begins at the next tick.
    Wanted,
    /// A slice began at `start`, when the ring ended at `tail`.
    Slice {
        start: u64,
        tail: u32,
    },
    /// The goroutine at index `place` of the ring has been runnable since about `since`.
    Queued {
        since: u64,
        place: u32,
    },
}

impl Sampler {
    pub(crate) fn new() -> Sampler {
        Sampler {
            due: Cell::new(GLOBAL_EVERY),
            next_global: Cell::new(GLOBAL_EVERY),
            visits: Cell::new(0),
            state: Cell::new(State::Resting),
            latencies: Histogram::new(),
            slices: Histogram::new(),
        }
    }

    /// Whether `look` has something to do at this tick. Ticks may be skipped (`monitor/preempt.rs`), so a
    /// later tick counts too.
    #[inline(always)]
    pub(crate) fn is_due(&self, tick: u32) -> bool {
        tick.wrapping_sub(self.due.get()) as i32 >= 0
    }

    /// Drops the sample, because the P found nothing in its own queue: the sample would measure the search
    /// for work.
    pub(crate) fn forget(&self) {
        if !matches!(self.state.get(), State::Wanted) {
            self.state.set(State::Resting);
        }
    }

    /// Called by the owner of the queue at a tick that is due. `next_wins`: `runnext` comes before the ring.
    /// True: look at the global queue first.
    pub(crate) fn look<T>(
        &self,
        tick: u32,
        queue: &RunQueue<T>,
        next_wins: bool,
        now: impl Fn() -> u64,
    ) -> bool {
        let global_first = tick.wrapping_sub(self.next_global.get()) as i32 >= 0;
        if global_first {
            self.next_global.set(tick.wrapping_add(GLOBAL_EVERY));
            self.visits.set(self.visits.get().wrapping_add(1));
        }
        let begin = global_first && self.visits.get().is_multiple_of(SAMPLE_EVERY);
        let wait = self.advance(queue, next_wins, begin, now);
        let until_global = self.next_global.get().wrapping_sub(tick);
        self.due.set(tick.wrapping_add(wait.map_or(until_global, |wait| wait.clamp(1, until_global))));
        global_first
    }

    /// Continues the sample. Returns after how many ticks it wants to be called again.
    fn advance<T>(
        &self,
        queue: &RunQueue<T>,
        next_wins: bool,
        begin: bool,
        now: impl Fn() -> u64,
    ) -> Option<u32> {
        let (head, tail) = queue.ends();
        let next_waits = !queue.peek_next().is_null();
        match self.state.get() {
            State::Resting if begin => {
                self.state.set(State::Wanted);
                Some(1)
            }
            State::Resting => None,
            State::Wanted => {
                self.state.set(State::Slice { start: now(), tail });
                Some(1)
            }
            State::Slice { start, tail: before } => {
                let nanos = now().saturating_sub(start);
                self.slices.add(nanos);
                if next_waits {
                    self.latencies.add(nanos);
                }
                if before == tail {
                    self.state.set(State::Resting);
                    return None;
                }
                self.state.set(State::Queued { since: start, place: before });
                self.follow(start, before.wrapping_sub(head) as i32, next_waits && next_wins, now)
            }
            State::Queued { since, place } => {
                self.follow(since, place.wrapping_sub(head) as i32, next_waits && next_wins, now)
            }
        }
    }

    /// `ahead` goroutines of the ring come before the watched one, and the one in `runnext` if `next_first`.
    fn follow(&self, since: u64, ahead: i32, next_first: bool, now: impl Fn() -> u64) -> Option<u32> {
        if ahead > 0 || (ahead == 0 && next_first) {
            return Some(ahead as u32);
        }
        if ahead == 0 {
            self.latencies.add(now().saturating_sub(since));
        }
        self.state.set(State::Resting);
        None
    }
}

/// A global queue that measures every 16th goroutine that passes through it.
pub(crate) struct SampledQueue<T: 'static> {
    deque: PtrDeque<T>,
    put: u32,
    taken: u32,
    /// The number of the watched goroutine, and since when it waits (ns).
    watched: Option<(u32, u64)>,
}

impl<T> SampledQueue<T> {
    pub(crate) const fn new() -> SampledQueue<T> {
        SampledQueue { deque: PtrDeque::new(), put: 0, taken: 0, watched: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.deque.len()
    }

    pub(crate) fn push_back(&mut self, g: &'static T, clock: Clock<'_>) {
        if self.put.is_multiple_of(16) && self.watched.is_none() {
            self.watched = Some((self.put, (clock.now)()));
        }
        self.put = self.put.wrapping_add(1);
        self.deque.push_back(g);
    }

    /// See [`PtrDeque::prefer_second`].
    pub(crate) fn prefer_second(&mut self, preferred: impl Fn(&'static T) -> bool) -> bool {
        self.deque.prefer_second(preferred)
    }

    pub(crate) fn pop_front(&mut self, clock: Clock<'_>) -> Option<&'static T> {
        let g = self.deque.pop_front()?;
        if let Some((which, since)) = self.watched
            && which == self.taken
        {
            clock.latencies.add((clock.now)().saturating_sub(since));
            self.watched = None;
        }
        self.taken = self.taken.wrapping_add(1);
        Some(g)
    }
}
