//! Models of `goroutine/join_word.rs`: the end of a goroutine meets its joiner.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::check;
use crate::goroutine::join_word::JoinWord;

const JOINER: usize = 64;

struct Packet {
    word: JoinWord,
    result: UnsafeCell<u32>,
    /// The joiner's state, which the ended goroutine touches when it readies it.
    joiner: UnsafeCell<u32>,
    readied: AtomicUsize,
}

// SAFETY: loom checks the accesses to the cells.
unsafe impl Sync for Packet {}

impl Packet {
    fn new() -> Packet {
        Packet {
            word: JoinWord::new(),
            result: UnsafeCell::new(0),
            joiner: UnsafeCell::new(0),
            readied: AtomicUsize::new(0),
        }
    }

    /// The goroutine's last steps.
    fn end(&self) {
        // SAFETY: the joiner reads it only after `finish`.
        self.result.with_mut(|result| unsafe { *result = 7 });
        if let Some(joiner) = self.word.finish() {
            assert_eq!(joiner, JOINER);
            // SAFETY: the joiner waits for us.
            assert_eq!(self.joiner.with(|state| unsafe { *state }), 1);
            self.readied.fetch_add(1, Ordering::Release);
        }
    }

    fn take_result(&self) {
        // SAFETY: the goroutine has ended.
        assert_eq!(self.result.with_mut(|result| unsafe { std::mem::take(&mut *result) }), 7);
    }
}

/// Either the joiner sees the end, or the end sees the joiner and readies it once; the result is there in
/// both cases.
pub fn exactly_one_side_sees_the_other() {
    check(None, || {
        let packet = Arc::new(Packet::new());
        let goroutine = thread::spawn({
            let packet = packet.clone();
            move || packet.end()
        });
        // SAFETY: the goroutine reads it only after `wait`.
        packet.joiner.with_mut(|state| unsafe { *state = 1 });
        let waits = packet.word.wait(JOINER);
        if waits {
            while packet.readied.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        }
        packet.take_result();
        goroutine.join().unwrap();
        assert_eq!(packet.readied.load(Ordering::Relaxed), usize::from(waits));
    });
}

/// `is_done` alone is enough to take the result.
pub fn a_finished_goroutine_needs_no_wait() {
    check(None, || {
        let packet = Arc::new(Packet::new());
        let goroutine = thread::spawn({
            let packet = packet.clone();
            move || packet.end()
        });
        if packet.word.is_done() {
            packet.take_result();
            assert!(!packet.word.wait(JOINER));
        }
        goroutine.join().unwrap();
        assert!(packet.word.is_done());
        assert_eq!(packet.readied.load(Ordering::Relaxed), 0);
    });
}
