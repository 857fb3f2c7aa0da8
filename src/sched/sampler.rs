//! How long goroutines wait in the run queues, and how long they run: by samples, so that a switch need not read the
//! clock.
//!
//! The owner of a P compares each tick with `due`, one predictable branch, which also brings every 61st tick to
//! the global queue (`find.rs`). After every fourth of those a sample begins, one tick later: what comes from the global queues
//! may be bound to another thread, and its slice is not this P's.
//!
//! ```text
//! tick T       read the clock; note the end of the ring               Slice
//! tick T + 1   the goroutine of tick T has stopped: read the clock    -> a time slice
//!              one in runnext became runnable during that slice        -> a latency, at most the slice too long
//!              the first one that was put into the ring meanwhile:     Queued
//! tick T + k   it is the next to be taken: read the clock             -> a latency, at most the slice too long
//! ```
//! It cannot be reached earlier than as many ticks later as there are goroutines before it, so that is when the owner looks
//! again. A sample whose goroutine was stolen, and a slice in which the P had nothing to do, are forgotten.
//!
//! The global queues are sampled where they are locked anyway: every 16th goroutine put there, until a P takes it.

use std::cell::Cell;

use super::g::G;
use super::gdeque::GDeque;
use super::histogram::Histogram;
use super::p::P;
use crate::sys::clock::nanotime;

/// The global queue comes first at every such tick, so that two goroutines that keep waking each other cannot
/// keep the rest away.
pub(crate) const GLOBAL_EVERY: u32 = 61;

/// A sample begins at so many visits to the global queue.
const SAMPLE_EVERY: u32 = 4;

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
    /// The goroutine at this place of the ring became runnable then.
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

    /// Whether there is something to do at this tick. A tick may be left out (`preempt.rs`), so later counts too.
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

    /// At a tick that is due, by the owner of `p`; `next_wins` says that runnext comes before the ring. True: the global
    /// queue is to be looked at first.
    pub(crate) fn look(&self, tick: u32, p: &P, next_wins: bool) -> bool {
        let global_first = tick.wrapping_sub(self.next_global.get()) as i32 >= 0;
        if global_first {
            self.next_global.set(tick.wrapping_add(GLOBAL_EVERY));
            self.visits.set(self.visits.get().wrapping_add(1));
        }
        let wait = self.advance(p, next_wins, global_first && self.visits.get().is_multiple_of(SAMPLE_EVERY));
        let until_global = self.next_global.get().wrapping_sub(tick);
        self.due.set(tick.wrapping_add(wait.map_or(until_global, |wait| wait.clamp(1, until_global))));
        global_first
    }

    /// Goes on with the sample. Returns in how many ticks it wants to be called again.
    fn advance(&self, p: &P, next_wins: bool, begin: bool) -> Option<u32> {
        let (head, tail) = p.runq.ends();
        let next_waits = !p.runq.peek_next().is_null();
        match self.state.get() {
            State::Resting if begin => {
                self.state.set(State::Wanted);
                Some(1)
            }
            State::Resting => None,
            State::Wanted => {
                self.state.set(State::Slice { start: nanotime(), tail });
                Some(1)
            }
            State::Slice { start, tail: before } => {
                let nanos = nanotime().saturating_sub(start);
                self.slices.add(nanos);
                if next_waits {
                    self.latencies.add(nanos);
                }
                if before == tail {
                    self.state.set(State::Resting);
                    return None;
                }
                self.state.set(State::Queued { since: start, place: before });
                self.follow(start, before.wrapping_sub(head) as i32, next_waits && next_wins)
            }
            State::Queued { since, place } => {
                self.follow(since, place.wrapping_sub(head) as i32, next_waits && next_wins)
            }
        }
    }

    /// `ahead` goroutines of the ring come before the one that is watched, and perhaps one in runnext.
    fn follow(&self, since: u64, ahead: i32, next_first: bool) -> Option<u32> {
        if ahead > 0 || (ahead == 0 && next_first) {
            return Some(ahead as u32);
        }
        if ahead == 0 {
            self.latencies.add(nanotime().saturating_sub(since));
        }
        self.state.set(State::Resting);
        None
    }
}

/// How long goroutines were in the global queues.
pub(crate) static GLOBAL_LATENCIES: Histogram = Histogram::new();

/// A global queue that measures every 16th goroutine that passes through it.
pub(crate) struct SampledQueue {
    deque: GDeque,
    put: u32,
    taken: u32,
    /// Which one is watched, and since when it waits.
    watched: Option<(u32, u64)>,
}

impl SampledQueue {
    pub(crate) const fn new() -> SampledQueue {
        SampledQueue { deque: GDeque::new(), put: 0, taken: 0, watched: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.deque.len()
    }

    pub(crate) fn push_back(&mut self, g: &'static G) {
        if self.put.is_multiple_of(16) && self.watched.is_none() {
            self.watched = Some((self.put, nanotime()));
        }
        self.put = self.put.wrapping_add(1);
        self.deque.push_back(g);
    }

    /// See [`GDeque::prefer_second`].
    pub(crate) fn prefer_second(&mut self, preferred: impl Fn(&'static G) -> bool) -> bool {
        self.deque.prefer_second(preferred)
    }

    pub(crate) fn pop_front(&mut self) -> Option<&'static G> {
        let g = self.deque.pop_front()?;
        if let Some((which, since)) = self.watched
            && which == self.taken
        {
            GLOBAL_LATENCIES.add(nanotime().saturating_sub(since));
            self.watched = None;
        }
        self.taken = self.taken.wrapping_add(1);
        Some(g)
    }
}
