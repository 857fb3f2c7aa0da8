//! Models of `sched/queue/runq.rs`: a ring of 4 with its owner and up to two thieves. No item is lost, and
//! none comes out twice.

use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::base::atomic::RUNQ_SIZE;
use crate::sched::queue::runq::{BATCH, Owner, RunQueue};

type Queue = RunQueue<u8>;

fn item(n: usize) -> *mut u8 {
    ptr::without_provenance_mut(n)
}

/// The numbers of the items that came out of the queue.
type Taken = Vec<usize>;

fn thief(queue: &Arc<Queue>, rounds: usize, take_next: bool) -> thread::JoinHandle<Taken> {
    let queue = queue.clone();
    thread::spawn(move || {
        let mut taken = Vec::new();
        for _ in 0..rounds {
            let mut batch = [ptr::null_mut(); BATCH];
            let count = queue.steal(&mut batch, take_next);
            taken.extend(batch[..count].iter().map(|item| item.addr()));
        }
        taken
    })
}

fn take_all(owner: &Owner<'_, u8>, taken: &mut Taken) {
    loop {
        let next = owner.take_next();
        let item = if next.is_null() { owner.take() } else { next };
        if item.is_null() {
            return;
        }
        taken.push(item.addr());
    }
}

/// Puts an item at the end of the ring, as `Sched::put_last` does: if the ring is full, half of it goes to
/// `taken`, which stands for the global queue.
fn put_last(owner: &Owner<'_, u8>, n: usize, taken: &mut Taken) {
    while !owner.try_put(item(n)) {
        let mut batch = [ptr::null_mut(); BATCH];
        if let Some(count) = owner.take_half_when_full(&mut batch) {
            taken.extend(batch[..count].iter().map(|item| item.addr()));
            taken.push(n);
            return;
        }
    }
}

fn assert_complete(mut taken: Taken, count: usize) {
    taken.sort_unstable();
    assert_eq!(taken, (1..=count).collect::<Vec<_>>());
}

/// Checks `script` against thieves; `thieves` says how many times each steals.
fn against(
    preemptions: Option<usize>,
    thieves: &'static [usize],
    take_next: bool,
    count: usize,
    script: fn(&Owner<'_, u8>, &mut Taken),
) {
    check(preemptions, move || {
        let queue = Arc::new(Queue::new());
        // SAFETY: the only owner.
        let owner = unsafe { queue.owner() };
        let thieves: Vec<_> = thieves.iter().map(|rounds| thief(&queue, *rounds, take_next)).collect();
        let mut taken = Vec::new();
        script(&owner, &mut taken);
        for thief in thieves {
            taken.extend(thief.join().unwrap());
        }
        take_all(&owner, &mut taken);
        assert!(queue.is_empty());
        assert_complete(taken, count);
    });
}

/// The owner puts and takes while two thieves steal.
pub fn put_and_take_against_two_thieves() {
    against(Some(3), &[1, 1], false, 3, |owner, taken| {
        for n in 1..=3 {
            assert!(owner.try_put(item(n)));
        }
        for _ in 0..2 {
            let got = owner.take();
            if !got.is_null() {
                taken.push(got.addr());
            }
        }
    });
}

/// The indices go around: slots are written again while a thief reads them.
pub fn slots_are_reused_under_a_thief() {
    against(Some(3), &[2], false, 6, |owner, taken| {
        for n in 1..=6 {
            put_last(owner, n, taken);
            if n % 2 == 0 {
                let got = owner.take();
                if !got.is_null() {
                    taken.push(got.addr());
                }
            }
        }
    });
}

/// The ring overflows while two thieves make room.
pub fn overflow_against_two_thieves() {
    against(Some(3), &[1, 1], false, RUNQ_SIZE + 1, |owner, taken| {
        for n in 1..=RUNQ_SIZE + 1 {
            put_last(owner, n, taken);
        }
    });
}

/// `runnext` goes to the owner, to one of two thieves, or into the ring: once.
pub fn runnext_against_two_thieves() {
    against(Some(3), &[1, 1], true, 3, |owner, taken| {
        for n in 1..=3 {
            let kicked = owner.put_next(item(n));
            if !kicked.is_null() {
                put_last(owner, kicked.addr(), taken);
            }
        }
        let got = owner.take_next();
        if !got.is_null() {
            taken.push(got.addr());
        }
    });
}

/// All executions, without a bound, of a small script that uses every operation.
pub fn every_operation_against_one_thief() {
    against(None, &[1], true, 3, |owner, taken| {
        assert!(owner.try_put(item(1)));
        assert!(owner.put_next(item(2)).is_null());
        let kicked = owner.put_next(item(3));
        if !kicked.is_null() {
            put_last(owner, kicked.addr(), taken);
        }
        let got = owner.take();
        if !got.is_null() {
            taken.push(got.addr());
        }
    });
}

/// The owner puts one before it takes another. So the queue is never empty, and `is_empty`, which reads its
/// words one after the other, never says that it is.
pub fn a_queue_that_is_never_empty_never_looks_empty() {
    check(None, || {
        let queue = Arc::new(Queue::new());
        // SAFETY: the only owner.
        let owner = unsafe { queue.owner() };
        assert!(owner.put_next(item(1)).is_null());
        let looker = thread::spawn({
            let queue = queue.clone();
            move || assert!(!queue.is_empty())
        });
        let mut running = 2;
        for _ in 0..3 {
            assert!(owner.try_put(item(running)));
            let next = owner.take_next();
            running = if next.is_null() { owner.take() } else { next }.addr();
            assert_ne!(running, 0);
        }
        looker.join().unwrap();
    });
}

/// A thief may touch what it stole: it sees the owner's writes before the put, through the ring and through
/// `runnext`.
pub fn a_stolen_goroutine_is_complete() {
    for through_next in [false, true] {
        check(None, move || {
            let queue = Arc::new(RunQueue::<UnsafeCell<u32>>::new());
            let thief = thread::spawn({
                let queue = queue.clone();
                move || {
                    let mut batch = [ptr::null_mut(); BATCH];
                    let count = queue.steal(&mut batch, true);
                    batch[..count].iter().for_each(|item| end(*item));
                    count
                }
            });
            // SAFETY: the only owner.
            let owner = unsafe { queue.owner() };
            let g = Box::into_raw(Box::new(UnsafeCell::new(0)));
            // SAFETY: not shared yet.
            unsafe { (*g).with_mut(|value| *value = 5) };
            if through_next {
                assert!(owner.put_next(g).is_null());
            } else {
                assert!(owner.try_put(g));
            }
            let stolen = thief.join().unwrap();
            let left = owner.take_next();
            let left = if left.is_null() { owner.take() } else { left };
            assert_eq!(stolen + usize::from(!left.is_null()), 1);
            if !left.is_null() {
                end(left);
            }
        });
    }
}

/// Uses up what came out of the queue.
fn end(g: *mut UnsafeCell<u32>) {
    // SAFETY: a leaked box, and the thread that took it out of the queue owns it; loom checks that the write
    // is visible.
    let g = unsafe { Box::from_raw(g) };
    // SAFETY: as above.
    assert_eq!(g.with(|value| unsafe { *value }), 5);
}
