//! What a client has taken of the bytes that the server wrote, and since when it takes none.
//!
//! A write that the kernel accepts is no progress of the client: the kernel may have had room that the server
//! did not use yet, for it reports room only when a third of its buffer is free. So progress is measured by
//! what the client's side has acknowledged: the bytes written minus those that the kernel still keeps. The
//! kernel does not say when that changed. So while a write waits, the connection looks [`LOOKS`] times in
//! each timeout, and a client is cut off at most that much later than its last progress demands.

use std::time::{Duration, Instant};

/// How often a connection looks in the time of a timeout.
const LOOKS: u32 = 8;

#[derive(Clone, Copy, Default)]
pub(super) struct Delivery {
    /// Bytes that the kernel has accepted. Counted from any moment: only differences matter.
    written: i64,
    /// The last write was not accepted.
    waits: bool,
    /// Set since a write first had to wait.
    behind: Option<Behind>,
}

#[derive(Clone, Copy)]
struct Behind {
    /// The bytes that the client had taken when the connection last saw progress, on the scale of `written`.
    taken: i64,
    since: Instant,
}

impl Delivery {
    /// The kernel has accepted that many bytes.
    pub(super) fn accepted(&mut self, bytes: usize) {
        self.waits = false;
        // If the client had taken everything, it had nothing to take in the meantime.
        self.behind = self.behind.filter(|behind| behind.taken != self.written);
        self.written += bytes as i64;
    }

    /// The kernel has accepted no bytes at `now`, and `kept` are those that the client has not taken yet.
    pub(super) fn refused(&mut self, kept: usize, now: Instant) {
        self.waits = true;
        let taken = self.written - kept as i64;
        if self.behind.is_none_or(|behind| taken > behind.taken) {
            self.behind = Some(Behind { taken, since: now });
        }
    }

    /// When the client has taken nothing for `timeout`. `None`: no write waits, or never.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.behind.filter(|_| self.waits)?.since.checked_add(timeout)
    }

    /// When to try again, and so to look, if a write waits at `now`.
    pub(super) fn next_look(&self, timeout: Duration, now: Instant) -> Option<Instant> {
        self.deadline(timeout).map(|deadline| deadline.min(now + timeout / LOOKS))
    }

    /// Whether a write waits.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn bytes_that_only_the_kernel_takes_are_no_progress() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        delivery.accepted(1000);
        assert_eq!(delivery.deadline(SECOND), None);
        delivery.refused(900, start);
        let deadline = Some(start + SECOND);
        assert_eq!(delivery.deadline(SECOND), deadline);
        // A retry finds room for some bytes.
        delivery.accepted(50);
        assert_eq!(delivery.deadline(SECOND), None);
        delivery.refused(950, start + SECOND / 2);
        assert_eq!(delivery.deadline(SECOND), deadline);
        // The client takes one byte.
        delivery.refused(949, start + SECOND / 2);
        assert_eq!(delivery.deadline(SECOND), Some(start + SECOND + SECOND / 2));
    }

    #[test]
    fn a_client_that_had_taken_everything_is_not_behind() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        delivery.accepted(1000);
        delivery.refused(0, start);
        // The server has nothing to say for a long time.
        delivery.accepted(500);
        let later = start + 100 * SECOND;
        delivery.refused(500, later);
        assert_eq!(delivery.deadline(SECOND), Some(later + SECOND));
    }

    #[test]
    fn a_connection_looks_several_times_before_the_deadline() {
        let (mut delivery, start) = (Delivery::default(), Instant::now());
        assert_eq!(delivery.next_look(SECOND, start), None);
        delivery.refused(10, start);
        assert_eq!(delivery.next_look(SECOND, start), Some(start + SECOND / 8));
        assert_eq!(delivery.next_look(SECOND, start + SECOND * 19 / 20), Some(start + SECOND));
        assert_eq!(delivery.next_look(Duration::MAX, start), None);
    }
}
