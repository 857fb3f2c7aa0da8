//! Models of `sched/word/park_word.rs`: a goroutine parks and is readied.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::check;
use crate::sched::word::park_word::ParkWord;

/// A goroutine: its park word, its saved context, what it waits for, and how often it was made runnable.
struct Goroutine {
    word: ParkWord,
    context: UnsafeCell<u32>,
    gift: UnsafeCell<u32>,
    runnable: AtomicUsize,
}

// SAFETY: loom checks the accesses to the cells.
unsafe impl Sync for Goroutine {}

impl Goroutine {
    fn new() -> Arc<Goroutine> {
        Arc::new(Goroutine {
            word: ParkWord::new(),
            context: UnsafeCell::new(0),
            gift: UnsafeCell::new(0),
            runnable: AtomicUsize::new(0),
        })
    }

    /// Touches the saved context, as the owner of the stack may. Loom panics if two threads do so at once.
    fn touch(&self) {
        // SAFETY: the caller owns the goroutine, which loom verifies.
        self.context.with_mut(|context| unsafe { *context += 1 });
    }

    /// What g0 does after the goroutine switched out. True: it is parked.
    fn stop(&self) -> bool {
        self.touch();
        let parked = self.word.commit();
        if !parked {
            self.touch(); // the M runs it on
            self.take_gift();
        }
        parked
    }

    /// What the goroutine does after its wait.
    fn take_gift(&self) {
        // SAFETY: the waker wrote it before it called `notify`.
        assert_eq!(self.gift.with_mut(|gift| unsafe { std::mem::take(&mut *gift) }), 1);
    }

    fn ready(&self) {
        // SAFETY: the goroutine reads it after its wait only.
        self.gift.with_mut(|gift| unsafe { *gift = 1 });
        if self.word.notify() {
            self.make_runnable();
        }
    }

    /// Called by the thread that was told that it owns the goroutine now.
    fn make_runnable(&self) {
        self.touch();
        self.take_gift();
        self.runnable.fetch_add(1, Ordering::Release);
    }

    /// The shrinker's visit.
    fn shrink(&self) {
        if self.word.hold() {
            self.touch();
            if self.word.release() {
                self.make_runnable();
            }
        }
    }

    fn runnable(&self) -> usize {
        self.runnable.load(Ordering::Acquire)
    }
}

fn spawn(g: &Arc<Goroutine>, f: impl FnOnce(&Goroutine) + 'static) -> thread::JoinHandle<()> {
    let g = g.clone();
    thread::spawn(move || f(&g))
}

/// Either `commit` fails and the M runs the goroutine on, or the waker makes it runnable: never both, never
/// neither.
pub fn exactly_one_side_runs_it() {
    check(None, || {
        let g = Goroutine::new();
        let waker = spawn(&g, Goroutine::ready);
        let parked = g.stop();
        waker.join().unwrap();
        assert_eq!(g.runnable(), usize::from(parked));
        assert!(!g.word.is_parked());
    });
}

/// A goroutine parks, a waker readies it, and a holder works on its stack: the holder makes it runnable if
/// the waker came meanwhile. No two threads own the stack at once.
pub fn a_holder_delays_the_wake_up_but_does_not_lose_it() {
    check(None, || {
        let g = Goroutine::new();
        let waker = spawn(&g, Goroutine::ready);
        let shrinker = spawn(&g, Goroutine::shrink);
        let parked = g.stop();
        waker.join().unwrap();
        shrinker.join().unwrap();
        assert_eq!(g.runnable(), usize::from(parked));
        assert!(!g.word.is_parked());
    });
}

/// Two holders exclude each other.
pub fn two_holders_take_turns() {
    check(None, || {
        let g = Goroutine::new();
        let first = spawn(&g, Goroutine::shrink);
        let second = spawn(&g, Goroutine::shrink);
        assert!(g.stop());
        first.join().unwrap();
        second.join().unwrap();
        assert!(g.word.is_parked());
        g.ready();
        assert_eq!(g.runnable(), 1);
    });
}

/// A notification that comes before the goroutine stops is taken without stopping; one that comes later ends
/// the wait. Two waits in a row, each with its own waker: no notification counts for the other wait.
pub fn each_wait_has_its_own_notification() {
    check(None, || {
        let g = Goroutine::new();
        let mut before = 0;
        for _ in 0..2 {
            let waker = spawn(&g, Goroutine::ready);
            if g.word.take_notification() {
                g.take_gift();
            } else if g.stop() {
                while g.runnable() == before {
                    thread::yield_now();
                }
                before += 1;
                g.touch();
            }
            waker.join().unwrap();
            assert_eq!(g.runnable(), before);
            assert!(!g.word.take_notification());
        }
    });
}
