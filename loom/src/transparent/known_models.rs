//! Models of what is known of a descriptor: what is noted is never older than the last change.

use loom::sync::Arc;
use loom::thread;

use super::known::{Epoch, Known};
use crate::base::atomic::{AtomicU64, Ordering};

/// A number, and the kernel's side of it.
struct Number {
    known: Known,
    epoch: Epoch,
    /// O_NONBLOCK. Relaxed: the fences of the protocol have to order it.
    nonblocking: AtomicU64,
    /// The kind of the open file.
    kind: AtomicU64,
}

impl Number {
    fn new() -> Arc<Number> {
        let zero = || AtomicU64::new(0);
        Arc::new(Number {
            known: Known { facts: zero(), limits: [zero(), zero()] },
            epoch: Epoch(AtomicU64::new(1)),
            nonblocking: zero(),
            kind: AtomicU64::new(1),
        })
    }

    /// A wait asks about the flags.
    fn ask(&self) {
        let asking = self.known.begin_asking(0, &self.epoch);
        let nonblocking = self.nonblocking.load(Ordering::Relaxed) != 0;
        if let Some(asking) = asking {
            self.known.end_asking(asking, !nonblocking);
        }
    }

    /// `settings_changed` in `trust.rs`.
    fn change(&self, fenced: bool) {
        self.nonblocking.store(1, Ordering::Relaxed);
        let known = if fenced { self.known.may_be_known() } else { self.waits() };
        if known {
            self.epoch.advance();
        }
    }

    fn waits(&self) -> bool {
        self.known.waits_without_limit(0, self.epoch.now())
    }

    /// `Kind::ask`.
    fn look(&self) {
        let generation = self.known.facts().generation();
        let kind = self.kind.load(Ordering::SeqCst);
        self.known.note_kind(generation, kind as u8);
    }
}

fn with(number: &Arc<Number>, f: impl FnOnce(&Number) + 'static) -> thread::JoinHandle<()> {
    let number = number.clone();
    thread::spawn(move || f(&number))
}

fn asks_while_flags_change(fenced: bool) {
    let number = Number::new();
    let asks = with(&number, Number::ask);
    number.change(fenced);
    asks.join().unwrap();
    assert!(!number.waits(), "an answer of before the change is trusted");
}

pub fn a_change_of_flags_makes_all_answers_before_it_old() {
    loom::model(|| asks_while_flags_change(true));
}

/// Must fail: the change does not see those that are asking.
pub fn a_change_that_looks_for_answers_only_leaves_an_old_one() {
    loom::model(|| asks_while_flags_change(false));
}

pub fn two_that_ask_do_not_hide_each_other() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let number = Number::new();
        let asks = with(&number, Number::ask);
        let changes = with(&number, |number| number.change(true));
        number.ask();
        asks.join().unwrap();
        changes.join().unwrap();
        assert!(!number.waits(), "an answer of before the change is trusted");
    });
}

pub fn what_was_found_before_a_number_was_reused_is_not_noted() {
    loom::model(|| {
        let number = Number::new();
        let looks = with(&number, |number| {
            number.look();
            number.ask();
        });
        // Closed, and opened again with another file; the second half is `is_new`.
        number.kind.store(2, Ordering::SeqCst);
        number.nonblocking.store(1, Ordering::SeqCst);
        number.known.forget();
        looks.join().unwrap();
        assert!([0, 2].contains(&number.known.facts().kind()), "the kind of the earlier file");
        assert!(!number.waits(), "the flags of the earlier file");
    });
}
