//! The progress of the demo: the parts report it here, and the monitor reads it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::sync::Mutex;

use super::sampler::Sampler;

/// The parts of the demo, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Service,
    Balance,
    Hogs,
    Blocking,
    Crowd,
}

impl Part {
    pub(crate) const ALL: [Part; 5] = [Part::Service, Part::Balance, Part::Hogs, Part::Blocking, Part::Crowd];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Part::Service => "service",
            Part::Balance => "uneven load",
            Part::Hogs => "endless loops",
            Part::Blocking => "blocking calls",
            Part::Crowd => "parked crowd",
        }
    }
}

type Note = Arc<dyn Fn() -> String + Send + Sync>;
type Queues = Arc<dyn Fn() -> (usize, usize, usize) + Send + Sync>;

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Running {
        begun: Instant,
        planned: Duration,
        note: Note,
    },
    Ended {
        took: Duration,
        note: String,
    },
}

/// A part as the view shows it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) part: Part,
    /// `None` before it begins, 1 when it has ended.
    pub(crate) fraction: Option<f64>,
    /// The part has begun and has not ended.
    pub(crate) running: bool,
    pub(crate) elapsed: Duration,
    pub(crate) note: String,
}

/// The state of all parts, which the parts and the monitor share.
pub(crate) struct Board {
    pub(crate) begun: Instant,
    states: Mutex<[State; Part::ALL.len()]>,
    queues: Mutex<Option<Queues>>,
    sampler: Arc<Sampler>,
}

impl Board {
    pub(crate) fn new(sampler: Arc<Sampler>) -> Board {
        Board { begun: Instant::now(), states: Mutex::default(), queues: Mutex::new(None), sampler }
    }

    /// A part begins and will take about `planned`; `note` describes its progress.
    pub(crate) fn begin(
        &self,
        part: Part,
        planned: Duration,
        note: impl Fn() -> String + Send + Sync + 'static,
    ) {
        self.states.lock()[part as usize] =
            State::Running { begun: Instant::now(), planned, note: Arc::new(note) };
    }

    pub(crate) fn end(&self, part: Part) {
        let ended = match &self.states.lock()[part as usize] {
            State::Running { begun, note, .. } => Some((begun.elapsed(), note.clone())),
            _ => None,
        };
        if let Some((took, note)) = ended {
            // `note` is called without the lock, because it may take other locks.
            self.states.lock()[part as usize] = State::Ended { took, note: note() };
        }
    }

    /// The state of each part.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let look = |part: Part| match &self.states.lock()[part as usize] {
            State::Waiting => (None, false, Duration::ZERO, Err(String::new())),
            State::Running { begun, planned, note } => {
                let elapsed = begun.elapsed();
                let fraction = (elapsed.as_secs_f64() / planned.as_secs_f64().max(0.001)).min(0.99);
                (Some(fraction), true, elapsed, Ok(note.clone()))
            }
            State::Ended { took, note } => (Some(1.0), false, *took, Err(note.clone())),
        };
        let line = |part| {
            let (fraction, running, elapsed, note) = look(part);
            let note = note.map_or_else(|text| text, |note| note());
            Line { part, fraction, running, elapsed, note }
        };
        Part::ALL.map(line).to_vec()
    }

    /// Registers a function that returns the number of waiting jobs, the capacity of their queue, and the
    /// number of waiting answers.
    pub(crate) fn watch_queues(&self, queues: impl Fn() -> (usize, usize, usize) + Send + Sync + 'static) {
        *self.queues.lock() = Some(Arc::new(queues));
    }

    pub(crate) fn stop_watching_queues(&self) {
        *self.queues.lock() = None;
    }

    pub(crate) fn queues(&self) -> Option<(usize, usize, usize)> {
        let queues = self.queues.lock().clone();
        queues.map(|queues| queues())
    }

    /// Starts to measure how busy the processors are.
    pub(crate) fn busy_since(&self) -> BusySince {
        BusySince { sampler: self.sampler.clone(), before: self.sampler.counts() }
    }
}

/// A measurement that [`Board::busy_since`] has started.
pub(crate) struct BusySince {
    sampler: Arc<Sampler>,
    before: super::sampler::Counts,
}

impl BusySince {
    /// How busy each processor was until now, from 0 to 1.
    pub(crate) fn shares(&self) -> Vec<f64> {
        self.sampler.counts().shares_since(&self.before)
    }
}
