//! How long goroutines wait in the run queues, and how long they run: by samples, so that a switch need not
//! read the clock.
//!
//! The owner of a P compares each tick with `due`, one predictable branch, which also brings every 61st tick
//! to the global queue (`run/find_runnable.rs`). After every fourth of those a sample begins, one tick later:
//! a goroutine from the global queues may be bound to another thread, and its slice is not this P's.
//!
//! ```text
//! tick T       read the clock; note the end of the ring               Slice
//! tick T + 1   the goroutine of tick T has stopped: read the clock    -> a time slice
//!              one in runnext became runnable during that slice        -> a latency, at most the slice too long
//!              the first one that was put into the ring meanwhile:     Queued
//! tick T + k   it is the next to be taken: read the clock             -> a latency, at most the slice too long
//! ```
//! It cannot be reached earlier than as many ticks later as there are goroutines before it, so that is when
//! the owner looks again. The sampler drops a sample whose goroutine was stolen, and a slice in which the P
//! had nothing to do.
//!
//! The global queues are sampled where they are locked anyway: every 16th goroutine put there, until a P
//! takes it.

use std::cell::Cell;

use super::histogram::Histogram;
use super::runq::RunQueue;
use crate::base::deque::PtrDeque;

/// The global queue comes first at every such tick, so that two goroutines that keep waking each other cannot
/// keep the rest away. Go's figure.
pub(crate) const GLOBAL_EVERY: u32 = 61;

/// One sample begins for this many visits to the global queue.
const SAMPLE_EVERY: u32 = 4;

/// A clock, in nanoseconds, and where latencies of the global queues are counted.
#[derive(Clone, Copy)]
pub(crate) struct Clock<'a> {
    pub(crate) now: &'a dyn Fn() -> u64,
    pub(crate) latencies: &'a Histogram,
}

/// Belongs to the owner of its P, but for the histograms.
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
    /// To begin at the next tick.
    Wanted,
    /// A slice began at this time, when the ring ended there.
    Slice {
        start: u64,
        tail: u32,
    },
    /// The goroutine at this place of the ring became runnable at this time.
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

    /// Whether there is something to do at this tick. A tick may be left out (`monitor/preempt.rs`), so a
    /// later one counts too.
    #[inline(always)]
    pub(crate) fn is_due(&self, tick: u32) -> bool {
        tick.wrapping_sub(self.due.get()) as i32 >= 0
    }

    /// The P found nothing in its own queue: what is measured now would be its search.
    pub(crate) fn forget(&self) {
        if !matches!(self.state.get(), State::Wanted) {
            self.state.set(State::Resting);
        }
    }

    /// At a tick that is due, by the owner of the queue; `next_wins` says that runnext comes before the ring.
    /// True: the global queue is to be looked at first.
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

    /// Goes on with the sample. Returns in how many ticks it wants to be called again.
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

    /// `ahead` goroutines of the ring come before the one that is watched, and perhaps one in runnext.
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
    /// The number of the watched goroutine, and since when it waits.
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
