//! What an M writes down in its log: one function for each kind of fact. Those that return a number return
//! the time, or 0 if nothing is traced.

use std::sync::atomic::Ordering;

use super::log::Log;
use super::record::{Kind, Record};
use super::{EVENTS, New, Note, Stop, TRACER, Whereabouts, is_traced, text};
use crate::sys::clock::nanotime;

/// A stack is sampled again when this many times the time that the last sample took has passed: samples take
/// at most one per cent of the time, but up to ten while there are places that were not sampled yet (the
/// second number). For the flight recorder alone, which is on all the time and remembers stacks, they take a
/// tenth of that.
const PAUSES: [u64; 2] = [100, 10];
const PAUSES_IN_FLIGHT: [u64; 2] = [1000, 100];
/// If a sample took longer (ns), then because the thread was not running.
const LONGEST_SAMPLE: u64 = 100_000;
/// At most this many frames of a stack are recorded.
const MOST_FRAMES: usize = 48;

impl Log {
    #[inline]
    fn append(&self, record: Record) {
        if is_traced() && self.append_to(&EVENTS.logs, record) {
            EVENTS.wake_flight_recorder();
        }
    }

    fn event(&self, kind: Kind, second: u64) -> u64 {
        if !is_traced() {
            return 0;
        }
        let now = nanotime();
        self.append(Record::new(kind, 0, now, second));
        now
    }

    /// This M got a P, or gave its P up.
    #[cold]
    pub(crate) fn proc_started(&self, p: u32) {
        self.event(Kind::ProcStart, p.into());
    }

    #[cold]
    pub(crate) fn proc_stopped(&self, p: u32) {
        self.event(Kind::ProcStop, p.into());
    }

    #[cold]
    pub(crate) fn created(&self, new: &New<'_>) -> u64 {
        if !is_traced() {
            return 0;
        }
        let now = nanotime();
        new.records(now).for_each(|record| self.append(record));
        now
    }

    #[cold]
    pub(crate) fn unblocked(&self, g: u64) -> u64 {
        self.event(Kind::Unblock, g)
    }

    /// The running goroutine, which is at `place`, ended the wait of `g`.
    #[cold]
    pub(crate) fn unblocked_by(&self, g: u64, place: &Whereabouts) -> u64 {
        if !is_traced() {
            return 0;
        }
        let now = nanotime();
        self.sample(Kind::Unblock, 0, now, place);
        self.append(Record::new(Kind::Unblock, 0, now, g | place.depth() << 48));
        now
    }

    /// The running goroutine enters a marked call.
    #[cold]
    pub(crate) fn call_began(&self, g: u64, place: &Whereabouts) {
        if !is_traced() {
            return;
        }
        let now = nanotime();
        self.sample(Kind::CallBegin, 0, now, place);
        self.append(Record::new(Kind::CallBegin, 0, now, g | place.depth() << 48));
    }

    /// Writes the stack of the running goroutine down, if it is time for that.
    fn sample(&self, kind: Kind, extra: u8, now: u64, place: &Whereabouts) {
        let (index, path) = place.path(kind, extra);
        let traced = EVENTS.on.load(Ordering::Relaxed) & TRACER != 0;
        let pauses = if traced { PAUSES } else { PAUSES_IN_FLIGHT };
        let pause = pauses[usize::from(self.sampled[index].get() != path)];
        let (last, took) = self.last_sample.get();
        if now < last + took * pause {
            return;
        }
        self.sampled[index].set(path);
        self.append(Record::new(Kind::Site, 0, 0, place.site as u64));
        let mut left = MOST_FRAMES;
        (place.sampler)(place.stack.clone(), &mut |address| {
            if left > 0 {
                left -= 1;
                self.append(Record::new(Kind::Frame, 0, 0, address as u64));
            }
        });
        let end = nanotime();
        self.last_sample.set((end, (end - now).min(LONGEST_SAMPLE)));
    }

    #[cold]
    pub(crate) fn call_ended(&self, g: u64) {
        self.event(Kind::CallEnd, g);
    }

    /// The call of `g` ended, its P was gone, and the M took `p`.
    #[cold]
    pub(crate) fn call_ended_with_new_p(&self, g: u64, p: u32) {
        self.event(Kind::CallEndWithoutP, g);
        self.proc_started(p);
        self.started(g);
    }

    #[cold]
    pub(crate) fn started(&self, g: u64) -> u64 {
        self.event(Kind::Start, g)
    }

    /// The running goroutine `g` stops, and `next`, if there is one, starts in its place. `place` is missing
    /// in a signal handler.
    #[cold]
    #[inline(never)]
    pub(crate) fn switched(&self, g: u64, stop: Stop, next: Option<u64>, place: Option<&Whereabouts>) -> u64 {
        if !is_traced() {
            return 0;
        }
        let now = nanotime();
        let (kind, extra) = match stop {
            Stop::Wait(reason) => (Kind::Wait, reason),
            Stop::Yield => (Kind::Yield, 0),
            Stop::Preempt => (Kind::Preempt, 0),
            Stop::End => (Kind::End, 0),
            Stop::NeedsP => (Kind::CallEndWithoutP, 0),
        };
        let mut depth = 0;
        if let Some(place) = place.filter(|_| kind == Kind::Wait) {
            depth = place.depth();
            self.sample(kind, extra, now, place);
        }
        if let Some(place) = place.filter(|_| kind == Kind::End) {
            self.append(Record::new(Kind::Site, 0, 0, place.site as u64));
        }
        self.append(Record::new(kind, extra, now, g | depth << 48));
        if let Some(next) = next {
            self.append(Record::new(Kind::Start, 0, now, next));
        }
        now
    }

    /// An annotation by the running goroutine.
    #[cold]
    pub(crate) fn noted(&self, note: &Note<'_>) {
        for part in note.texts {
            text(part).for_each(|record| self.append(record));
        }
        self.append(Record::new(Kind::Task, 0, 0, note.parent));
        self.event(note.kind, note.task);
    }
}
