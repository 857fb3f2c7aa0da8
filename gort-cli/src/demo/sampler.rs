//! Samples how busy each processor is.
//!
//! A separate OS thread takes 200 samples a second. A goroutine cannot do that: whenever it takes a sample, a
//! processor is busy running it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gort::runtime::{ProcessorState, processors};
use gort::sync::Mutex;

const EVERY: Duration = Duration::from_millis(5);

/// The number of samples, and how many of them found each processor running a goroutine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    looks: u64,
    running: Vec<u64>,
}

impl Counts {
    /// The share of the samples since `before` that found each processor running a goroutine. Empty if there
    /// was no sample.
    pub(crate) fn shares_since(&self, before: &Counts) -> Vec<f64> {
        let looks = self.looks - before.looks;
        if looks == 0 {
            return Vec::new();
        }
        let before = before.running.iter().copied().chain(std::iter::repeat(0));
        self.running.iter().zip(before).map(|(now, then)| (now - then) as f64 / looks as f64).collect()
    }

    fn look(&mut self) {
        let found = processors();
        self.looks += 1;
        self.running.resize(self.running.len().max(found.len()), 0);
        for (count, processor) in self.running.iter_mut().zip(found) {
            *count += u64::from(processor.state == ProcessorState::Running);
        }
    }
}

#[derive(Default)]
pub(crate) struct Sampler {
    counts: Mutex<Counts>,
    stop: AtomicBool,
}

impl Sampler {
    /// Starts the sampling thread.
    pub(crate) fn start() -> std::io::Result<(Arc<Sampler>, Stop)> {
        let sampler = Arc::new(Sampler::default());
        let looking = sampler.clone();
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || {
            while !looking.stop.load(Ordering::Relaxed) {
                std::thread::sleep(EVERY);
                looking.counts.lock().look();
            }
        })?;
        Ok((sampler.clone(), Stop { sampler, thread: Some(thread) }))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }
}

/// Ends the thread when dropped.
pub(crate) struct Stop {
    sampler: Arc<Sampler>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.sampler.stop.store(true, Ordering::Relaxed);
        // The thread can panic only because of a bug in gort, and then the panic has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_looks_in_between() {
        let before = Counts { looks: 10, running: vec![10] };
        let after = Counts { looks: 20, running: vec![15, 10] };
        assert_eq!(after.shares_since(&before), [0.5, 1.0]);
        assert!(after.shares_since(&after).is_empty());
    }

    #[test]
    fn an_endless_loop_keeps_a_processor_busy() {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let hog = gort::spawn(move || while !stopped.load(Ordering::Relaxed) {});
        let mut counts = Counts::default();
        while counts.running.iter().sum::<u64>() == 0 {
            counts.look();
        }
        stop.store(true, Ordering::Relaxed);
        hog.join().unwrap();
    }
}
