//! Says on standard error what is being run and how long it will still take.

use crate::results;
use crate::rounds::Measured;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// A run to come is taken to last as long as the mean of those before; the first, this.
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
    /// Expects `total` runs.
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
            // Only what the user sees: nothing depends on it.
            let _ = std::io::stderr().flush();
        }
    }

    /// It ended after `wall`.
    pub fn ends(&mut self, wall: Duration) {
        self.left = self.left.saturating_sub(1);
        self.spent += wall;
        self.runs += 1;
    }

    /// It failed, and `rounds` rounds of it need not be run.
    pub fn gives_up(&mut self, rounds: usize) {
        self.left = self.left.saturating_sub(rounds);
    }

    /// A workload is complete.
    pub fn says(&self, measured: &Measured) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{} ({} left)", results::one_line(measured), words(self.time_left()));
    }

    /// All is done.
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

/// How much is done.
fn bar(done: usize, total: usize) -> String {
    const WIDTH: usize = 24;
    let full = WIDTH * done.min(total) / total.max(1);
    "█".repeat(full) + &"·".repeat(WIDTH - full)
}

/// A length of time as one would say it.
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
