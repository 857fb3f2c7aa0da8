//! Models of `join`: the deque of pending forks (`sched/queue/fork_deque.rs`), with a ring of 2, its owner
//! and up to two thieves, and the frame of a call, which must stay until its fork has ended.

use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::check;
use crate::goroutine::join_word::JoinWord;
use crate::sched::queue::fork_deque::{ForkDeque, Stolen};

type Deque = ForkDeque<u8>;

fn fork(n: usize) -> *mut u8 {
    ptr::without_provenance_mut(n)
}

/// Steals up to `attempts` times; returns what it got.
fn thief(deque: &Arc<Deque>, attempts: usize) -> thread::JoinHandle<Vec<usize>> {
    let deque = deque.clone();
    thread::spawn(move || {
        let steal = |_| match deque.steal() {
            Stolen::Fork(fork) => Some(fork.addr()),
            Stolen::Empty | Stolen::Lost => None,
        };
        (0..attempts).filter_map(steal).collect()
    })
}

/// Checks `script` against thieves; `thieves` says how often each tries. The script returns the forks that
/// its pops returned. All of `1..=count` must come out once.
fn against(
    preemptions: Option<usize>,
    thieves: &'static [usize],
    count: usize,
    script: fn(&Deque) -> Vec<usize>,
) {
    check(preemptions, move || {
        let deque = Arc::new(Deque::new());
        let thieves: Vec<_> = thieves.iter().map(|attempts| thief(&deque, *attempts)).collect();
        let mut out = script(&deque);
        for thief in thieves {
            let stolen = thief.join().unwrap();
            assert!(stolen.is_sorted(), "the oldest is stolen first");
            out.extend(stolen);
        }
        out.sort_unstable();
        assert_eq!(out, (1..=count).collect::<Vec<_>>(), "a fork was lost or came out twice");
        assert!(deque.is_empty());
    });
}

/// The fork that the owner pops, if thieves have not taken all. It must be its newest (Y3).
fn pop(deque: &Deque, newest: usize) -> Option<usize> {
    let fork = deque.pop();
    assert!(fork.is_null() || fork.addr() == newest, "the newest is popped first");
    (!fork.is_null()).then_some(newest)
}

/// One fork, which its owner and two thieves want.
pub fn one_fork_against_two_thieves() {
    against(None, &[1, 1], 1, |deque| {
        assert!(deque.push(fork(1)));
        pop(deque, 1).into_iter().collect()
    });
}

/// A fork within the first half of another.
pub fn nested_forks_against_a_thief() {
    against(None, &[2], 2, |deque| {
        assert!(deque.push(fork(1)) && deque.push(fork(2)));
        let inner = pop(deque, 2);
        inner.into_iter().chain(pop(deque, 1)).collect()
    });
}

/// As above, with two thieves.
pub fn nested_forks_against_two_thieves() {
    against(Some(3), &[1, 2], 2, |deque| {
        assert!(deque.push(fork(1)) && deque.push(fork(2)));
        let inner = pop(deque, 2);
        inner.into_iter().chain(pop(deque, 1)).collect()
    });
}

/// The places of the ring are used again while a thief steals from them.
pub fn places_are_used_again_under_a_thief() {
    against(Some(3), &[3], 4, |deque| {
        assert!(deque.push(fork(1)) && deque.push(fork(2)));
        let mut out: Vec<usize> = pop(deque, 2).into_iter().collect();
        assert!(deque.push(fork(3)));
        // There is room only if a thief has taken the first.
        let pushed = deque.push(fork(4));
        if pushed {
            out.extend(pop(deque, 4));
        } else {
            out.push(4);
        }
        out.extend(pop(deque, 3));
        out.extend(pop(deque, 1));
        out
    });
}

/// The frame of a call of `join`.
struct Frame {
    deque: Deque,
    word: JoinWord,
    function: UnsafeCell<u32>,
    result: UnsafeCell<u32>,
    readied: AtomicUsize,
}

// SAFETY: loom checks the accesses to the cells.
unsafe impl Sync for Frame {}

const JOINER: usize = 64;

impl Frame {
    fn run(&self) {
        // SAFETY: loom checks it.
        let function = self.function.with_mut(|function| unsafe { std::mem::take(&mut *function) });
        // SAFETY: as above.
        self.result.with_mut(|result| unsafe { *result = function + 1 });
    }
}

/// The thief sees the function complete, its last access is `finish`, and the forking goroutine leaves the
/// frame after that, whether it popped the fork, came too late, or waited.
pub fn a_frame_stays_until_its_fork_has_ended() {
    check(None, || {
        let frame = Arc::new(Frame {
            deque: Deque::new(),
            word: JoinWord::new(),
            function: UnsafeCell::new(0),
            result: UnsafeCell::new(0),
            readied: AtomicUsize::new(0),
        });
        let helper = thread::spawn({
            let frame = frame.clone();
            move || {
                if let Stolen::Fork(_) = frame.deque.steal() {
                    frame.run();
                    if let Some(joiner) = frame.word.finish() {
                        // The G of the waiter, which stays; what follows touches nothing else of the frame.
                        assert_eq!(joiner, JOINER);
                        frame.readied.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        // SAFETY: not published yet.
        frame.function.with_mut(|function| unsafe { *function = 6 });
        assert!(frame.deque.push(fork(1)));
        if frame.deque.pop().is_null() {
            if !frame.word.is_done() && frame.word.wait(JOINER) {
                // The park's end synchronises with the ready by the park word; here, by the join word.
                while !frame.word.is_done() || frame.readied.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
            }
        } else {
            frame.run();
        }
        // The frame goes: loom complains if the helper accesses these cells later, or at the same time.
        // SAFETY: as above.
        assert_eq!(frame.result.with_mut(|result| unsafe { std::mem::take(&mut *result) }), 7);
        // SAFETY: as above.
        frame.function.with_mut(|function| unsafe { *function = u32::MAX });
        helper.join().unwrap();
    });
}
