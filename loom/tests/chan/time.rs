//! The clock, as far as the included files read it.

pub(crate) mod clock {
    use std::time::{Duration, Instant};

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn after(wait: Duration) -> Option<Instant> {
        now().checked_add(wait)
    }
}
