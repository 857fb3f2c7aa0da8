//! Shows on standard error which run is in progress and how much time is left.

use crate::results;
use crate::rounds::Measured;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The estimated duration of a run before any has ended. Later estimates use the mean of the runs so far.
const FIRST_GUESS: Duration = Duration::from_millis(1500);

/// Counts runs and estimates the time left.
pub struct Progress {
    left: usize,
    total: usize,
    spent: Duration,
    runs: u32,
    live: bool,
}

impl Progress {
    /// Starts to count `total` expected runs.
    pub fn new(total: usize) -> Progress {
        let live = std::io::stderr().is_terminal();
        Progress { left: total, total, spent: Duration::ZERO, runs: 0, live }
    }

    /// A run begins.
    pub fn starts(&mut self, workload: &'static str, peer: &'static str) {
        if self.live {
            let (done, total, left) = (self.total - self.left, self.total, words(self.time_left()));
            let bar = bar(done, total);
            eprint!("\r\x1b[K{bar} {done}/{total}, {left} left: {workload} {peer}");
            // Nothing depends on the progress line, so an error is ignored.
            let _ = std::io::stderr().flush();
        }
    }

    /// A run ended after `wall`.
    pub fn ends(&mut self, wall: Duration) {
        self.left = self.left.saturating_sub(1);
        self.spent += wall;
        self.runs += 1;
    }

    /// A run failed, so that it and the remaining rounds, `rounds` in total, are skipped.
    pub fn gives_up(&mut self, rounds: usize) {
        self.left = self.left.saturating_sub(rounds);
    }

    /// A workload is complete: prints its medians.
    pub fn says(&self, measured: &Measured) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{} ({} left)", results::one_line(measured), words(self.time_left()));
    }

    /// All runs are done: clears the progress line.
    pub fn finish(&self) {
        if self.live {
            eprint!("\r\x1b[K");
        }
    }

    fn time_left(&self) -> Duration {
        let mean = if self.runs == 0 { FIRST_GUESS } else { self.spent / self.runs };
        mean * self.left as u32
    }
}

/// A progress bar.
fn bar(done: usize, total: usize) -> String {
    const WIDTH: usize = 24;
    let full = WIDTH * done.min(total) / total.max(1);
    "█".repeat(full) + &"·".repeat(WIDTH - full)
}

/// A duration, rounded to seconds or minutes.
pub fn words(time: Duration) -> String {
    match time.as_secs() {
        s if s < 90 => format!("{s} s"),
        s => format!("{} min", (s + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_mean_of_the_runs_so_far() {
        let mut progress = Progress::new(10);
        assert_eq!(progress.time_left(), FIRST_GUESS * 10);
        progress.ends(Duration::from_secs(2));
        progress.ends(Duration::from_secs(4));
        assert_eq!(progress.time_left(), Duration::from_secs(3) * 8);
        progress.gives_up(7);
        assert_eq!(progress.time_left(), Duration::from_secs(3));
    }

    #[test]
    fn the_bar_fills_up() {
        assert_eq!(bar(0, 10), "·".repeat(24));
        assert_eq!(bar(5, 10), "█".repeat(12) + &"·".repeat(12));
        assert_eq!(bar(10, 10), "█".repeat(24));
        assert_eq!(bar(0, 0), "·".repeat(24));
    }

    #[test]
    fn time_is_rounded_as_one_would_say_it() {
        assert_eq!(words(Duration::from_secs(89)), "89 s");
        assert_eq!(words(Duration::from_secs(100)), "2 min");
        assert_eq!(words(Duration::from_secs(600)), "10 min");
    }
}
