//! Puts the events of all Ms of a generation into one order.
//!
//! Each M's events are in order. Between Ms, clocks may disagree; sequence numbers decide: GoStart and
//! GoUnblock have the number of their goroutine, ProcStart, ProcSteal and GoSyscallBegin that of their P. An
//! event is *due* if the state of its goroutine or P is what the event needs and its number is the next one.
//!
//! The merge takes the earliest event of all Ms. If it is due, it happens: `rules` changes the state, and the
//! sink sees it. If not, its M waits for the goroutine or P to come into the needed state (`Wait`), and other
//! Ms go on. If every M waits, the trace is broken.
//!
//! When exactly what several Ms wait for happens, only the one with the earliest event is tried again: its
//! event changes the state, so the others would have to wait again. If another event has changed the state
//! before, nobody can go on, and the M waits again. So an event that happens causes at most two more
//! attempts, whatever the file has in it, and the work is linear in the number of events but for the heap.
//! (Go's reader tries all Ms again.)

mod rules;
mod state;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};

use crate::error::Error;
use crate::event::{Event, Events};
use crate::generation::{Generation, RawSample};
use crate::spec;
use state::Wait;
pub(crate) use state::{Context, State};

/// An event that has happened, with what was current before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) event: Event,
    /// The M that emitted it, its P and its goroutine, before the event.
    pub(crate) context: Context,
    /// The goroutine that the event is about, if it names one.
    pub(crate) g: Option<u32>,
    /// The P that the event is about, if it names one.
    pub(crate) p: Option<u32>,
    /// ProcSteal: the goroutine that loses its P. GoStatus: the M on which the goroutine is.
    pub(crate) other: Option<u32>,
}

/// What sees the ordered events.
pub(crate) trait Sink {
    fn step(&mut self, state: &State, generation: &Generation, step: &Step) -> Result<(), Error>;
    fn sample(&mut self, state: &State, generation: &Generation, sample: &RawSample);
}

/// Ms by the times of their next events, the earliest first.
type Earliest = BinaryHeap<Reverse<(u64, usize)>>;

enum Outcome {
    Happened(Step),
    NotYet(Wait),
}

/// Orders the events of a generation.
pub(crate) fn generation(
    state: &mut State,
    file: &[u8],
    generation: &Generation,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    state.begin(generation.number);
    let mut streams: Vec<(Events<'_>, Option<Event>)> = Vec::with_capacity(generation.streams.len());
    let mut ready = Earliest::with_capacity(generation.streams.len());
    for (index, stream) in generation.streams.iter().enumerate() {
        let mut events = Events::new(file, stream);
        let first = events.next()?;
        if let Some(event) = &first {
            ready.push(Reverse((event.time, index)));
        }
        streams.push((events, first));
    }
    let mut waiting: HashMap<Wait, Earliest> = HashMap::new();
    let mut samples = generation.samples.iter().peekable();
    while let Some(Reverse((time, index))) = ready.pop() {
        while let Some(sample) = samples.next_if(|sample| sample.time < time) {
            sink.sample(state, generation, sample);
        }
        let (events, current) = &mut streams[index];
        let Some(event) = *current else { continue };
        match state.advance(&event, generation.streams[index].m)? {
            Outcome::NotYet(wait) => waiting.entry(wait).or_default().push(Reverse((time, index))),
            Outcome::Happened(step) => {
                sink.step(state, generation, &step)?;
                *current = events.next()?;
                if let Some(event) = current {
                    ready.push(Reverse((event.time, index)));
                }
                for change in state.changes.drain(..) {
                    if let Entry::Occupied(mut those) = waiting.entry(change) {
                        ready.extend(those.get_mut().pop());
                        if those.get().is_empty() {
                            those.remove();
                        }
                    }
                }
            }
        }
    }
    samples.for_each(|sample| sink.sample(state, generation, sample));
    let first = waiting.into_iter().filter_map(|(wait, mut those)| those.pop().map(|Reverse(m)| (m, wait)));
    match first.min_by_key(|&(m, _)| m) {
        None => Ok(()),
        Some(((_, index), wait)) => Err(stuck(state, &streams[index].1, generation, index, wait)),
    }
}

/// Nothing can happen any more, and this M's event is the earliest that waits.
fn stuck(state: &State, event: &Option<Event>, generation: &Generation, index: usize, wait: Wait) -> Error {
    let (offset, kind) = event.map_or((0, 0), |event| (event.offset, event.kind));
    let m = generation.streams[index].m;
    let m = if m == spec::NO_M { String::from("no M") } else { format!("M {m}") };
    Error::broken(
        offset,
        format!(
            "{} on {m} in generation {} never becomes possible: {}",
            spec::name(kind),
            generation.number,
            state.explain(&wait)
        ),
    )
}
