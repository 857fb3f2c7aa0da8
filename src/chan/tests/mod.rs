//! Tests of channel behaviour that crossbeam's own tests (see `conformance/`) do not cover.

mod basic;
mod crowd;
mod drops;
mod macros;
mod props;
mod select;
mod two_steps;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Receiver, Sender, bounded, limited_list, unbounded};

/// One channel of every kind except timers: capacity zero, rings, lists with a limit, an unbounded list.
fn every_kind<T>() -> Vec<(Sender<T>, Receiver<T>)> {
    vec![bounded(0), bounded(1), bounded(3), bounded(64), limited_list(3), bounded(usize::MAX), unbounded()]
}

/// A message that counts its drops. Its drop may panic.
struct Counted {
    drops: Arc<AtomicUsize>,
    panics: bool,
}

impl Counted {
    fn new(drops: &Arc<AtomicUsize>) -> Counted {
        Counted { drops: Arc::clone(drops), panics: false }
    }

    fn panicking(drops: &Arc<AtomicUsize>) -> Counted {
        Counted { drops: Arc::clone(drops), panics: true }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "the drop of a message panics");
    }
}
