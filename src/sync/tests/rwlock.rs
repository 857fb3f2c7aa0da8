//! Tests of the reader-writer lock's internals: which waiter is next, and the state after a waiter has given
//! up.

use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lock_api::{RawRwLock as _, RawRwLockFair as _, RawRwLockTimed as _, RawRwLockUpgrade as _};

use crate::sync::Holders;
use crate::sync::raw::rwlock::{READER, RawRwLock, STARVING, UPGRADABLE, WRITER};
use crate::sync::raw::rwlock_grant::Keep;
use crate::test_util::until;

fn state(raw: &RawRwLock) -> u64 {
    raw.state.load(Ordering::Relaxed)
}

/// The numbers of queued readers, upgraders and writers.
fn queued(raw: &RawRwLock) -> (usize, usize, usize) {
    let queues = raw.queues.lock();
    (queues.readers.len(), queues.upgraders.len(), queues.writers.len())
}

/// Turns the starving mode on, as a waiter does that has waited for too long.
fn starve(raw: &RawRwLock) {
    raw.state.fetch_or(STARVING, Ordering::Relaxed);
}

#[test]
fn waiters_that_give_up_leave_nothing_behind() {
    let raw = RawRwLock::INIT;
    let brief = Duration::from_micros(200);
    raw.lock_exclusive();
    assert!(!raw.try_lock_shared_for(brief));
    assert_eq!(state(&raw), WRITER);
    assert!(!raw.try_lock_exclusive_for(brief));
    assert_eq!(state(&raw), WRITER);
    assert!(!raw.acquire_upgradable(Some(std::time::Instant::now() + brief)));
    assert_eq!(state(&raw), WRITER);
    raw.release_exclusive();
    raw.lock_shared();
    assert!(!raw.try_lock_exclusive_for(brief));
    assert_eq!(state(&raw), READER);
    raw.lock_upgradable();
    assert!(!raw.upgrade(Some(std::time::Instant::now() + brief)));
    assert_eq!(state(&raw), READER + UPGRADABLE);
    assert_eq!(queued(&raw), (0, 0, 0));
}

#[test]
fn when_a_writer_leaves_a_starving_lock_all_readers_enter_before_the_next_writer() {
    let raw = RawRwLock::INIT;
    let inside = AtomicUsize::new(0);
    let leave = AtomicBool::new(false);
    raw.lock_exclusive();
    thread::scope(|s| {
        let next_writer = s.spawn(|| {
            raw.lock_exclusive();
            assert_eq!(inside.load(Ordering::Relaxed), 3, "the readers were first");
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 0, 1));
        for n in 1..=3 {
            s.spawn(|| {
                raw.lock_shared();
                inside.fetch_add(1, Ordering::Relaxed);
                until(|| leave.load(Ordering::Relaxed));
                raw.release_shared();
            });
            until(|| queued(&raw) == (n, 0, 1));
        }
        starve(&raw);
        raw.release_exclusive();
        // This cannot race: the unlock itself has let them in.
        assert_eq!(state(&raw) / READER, 3);
        assert_eq!(queued(&raw), (0, 0, 1));
        assert!(!raw.try_lock_shared(), "newcomers wait behind the writer");
        until(|| inside.load(Ordering::Relaxed) == 3);
        assert!(!next_writer.is_finished());
        leave.store(true, Ordering::Relaxed);
    });
    assert_eq!(state(&raw), 0);
}

#[test]
fn the_last_reader_hands_a_starving_lock_over_to_the_writer() {
    let raw = RawRwLock::INIT;
    let leave = AtomicBool::new(false);
    raw.lock_shared();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock_exclusive();
            until(|| leave.load(Ordering::Relaxed));
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 0, 1));
        starve(&raw);
        assert!(!raw.try_lock_shared());
        raw.release_shared();
        assert_eq!(state(&raw), WRITER, "handed over, and starving no longer");
        assert!(!raw.try_lock_exclusive());
        leave.store(true, Ordering::Relaxed);
    });
}

#[test]
fn until_it_starves_whoever_runs_may_overtake_those_that_are_parked() {
    let raw = RawRwLock::INIT;
    raw.lock_exclusive();
    thread::scope(|s| {
        let reader = s.spawn(|| raw.lock_shared());
        until(|| queued(&raw) == (1, 0, 0));
        raw.release_exclusive();
        assert_eq!(queued(&raw), (0, 0, 0), "woken");
        reader.join().unwrap();
        let writer = s.spawn(|| raw.lock_exclusive());
        until(|| queued(&raw) == (0, 0, 1));
        // A new reader may overtake the writer, unless a millisecond has passed, as it may on a slow machine.
        if raw.try_lock_shared() {
            raw.release_shared();
        }
        raw.release_shared();
        writer.join().unwrap();
        assert_eq!(state(&raw), WRITER);
    });
}

#[test]
fn readers_that_come_when_a_writer_has_waited_too_long_let_it_go_first() {
    let raw = RawRwLock::INIT;
    let order = StdMutex::new(Vec::new());
    raw.lock_shared();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock_exclusive();
            order.lock().unwrap().push("writer");
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 0, 1));
        until(|| {
            let entered = raw.try_lock_shared();
            if entered {
                raw.release_shared();
            }
            !entered
        });
        s.spawn(|| {
            raw.lock_shared();
            order.lock().unwrap().push("reader");
            raw.release_shared();
        });
        until(|| queued(&raw) == (1, 0, 1));
        raw.release_shared();
    });
    assert_eq!(*order.lock().unwrap(), ["writer", "reader"]);
    assert_eq!(state(&raw), 0);
}

#[test]
fn a_writer_that_gives_up_lets_readers_join_those_inside() {
    let raw = RawRwLock::INIT;
    raw.lock_shared();
    thread::scope(|s| {
        let writer = s.spawn(|| raw.try_lock_exclusive_for(Duration::from_millis(30)));
        until(|| queued(&raw).2 == 1 || writer.is_finished());
        let queues = raw.queues.lock();
        if !queues.writers.is_empty() {
            starve(&raw);
        }
        drop(queues);
        let reader = s.spawn(|| raw.lock_shared());
        assert!(!writer.join().unwrap());
        reader.join().unwrap();
        assert_eq!(state(&raw), 2 * READER);
    });
}

#[test]
fn an_upgrade_goes_before_queued_writers_and_keeps_newcomers_out() {
    let raw = RawRwLock::INIT;
    let order = StdMutex::new(Vec::new());
    raw.lock_shared();
    raw.lock_upgradable();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock_exclusive();
            order.lock().unwrap().push("writer");
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 0, 1));
        s.spawn(|| {
            raw.lock_upgradable();
            order.lock().unwrap().push("upgradable");
            raw.release_upgradable(Keep::Nothing);
        });
        until(|| queued(&raw) == (0, 1, 1));
        let upgrade = s.spawn(|| {
            assert!(RawRwLock::upgrade(&raw, None));
            order.lock().unwrap().push("upgraded");
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 2, 1));
        assert!(!upgrade.is_finished());
        raw.release_shared();
    });
    assert_eq!(*order.lock().unwrap(), ["upgraded", "upgradable", "writer"]);
    assert_eq!(state(&raw), 0);
}

#[test]
fn an_upgradable_reader_that_leaves_stands_back_behind_a_writer() {
    let raw = RawRwLock::INIT;
    let order = StdMutex::new(Vec::new());
    raw.lock_upgradable();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock_exclusive();
            order.lock().unwrap().push("writer");
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 0, 1));
        s.spawn(|| {
            raw.lock_upgradable();
            order.lock().unwrap().push("upgradable");
            raw.release_upgradable(Keep::Nothing);
        });
        until(|| queued(&raw) == (0, 1, 1));
        raw.release_upgradable(Keep::Nothing);
    });
    assert_eq!(*order.lock().unwrap(), ["writer", "upgradable"]);
    assert_eq!(state(&raw), 0);
}

#[test]
fn a_fair_unlock_hands_over_to_the_next_writer() {
    let raw = RawRwLock::INIT;
    let leave = AtomicBool::new(false);
    raw.lock_exclusive();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock_exclusive();
            until(|| leave.load(Ordering::Relaxed));
            raw.release_exclusive();
        });
        until(|| queued(&raw) == (0, 0, 1));
        // SAFETY: we locked it above.
        unsafe { raw.unlock_exclusive_fair() };
        assert_eq!(state(&raw), WRITER);
        leave.store(true, Ordering::Relaxed);
    });
    assert_eq!(state(&raw), 0);
}

#[test]
fn a_hog_that_relocks_at_once_loses_to_a_starving_writer() {
    let raw = RawRwLock::INIT;
    let served = AtomicBool::new(false);
    raw.lock_exclusive();
    thread::scope(|s| {
        s.spawn(|| {
            raw.lock_exclusive();
            served.store(true, Ordering::Relaxed);
            raw.release_exclusive();
        });
        until(|| queued(&raw).2 == 1);
        until(|| {
            let held = std::time::Instant::now();
            while held.elapsed() < Duration::from_micros(500) {
                std::hint::spin_loop();
            }
            raw.release_exclusive();
            raw.lock_exclusive();
            served.load(Ordering::Relaxed)
        });
        raw.release_exclusive();
    });
    assert_eq!(state(&raw), 0);
}

#[test]
fn the_holders_are_known() {
    let raw = RawRwLock::INIT;
    // SAFETY: the argument is the address of a live lock.
    let holders = || unsafe { RawRwLock::holders_of(&raw const raw as usize) };
    assert_eq!(holders(), Holders::Nobody);
    raw.lock_shared();
    raw.lock_shared();
    assert!(matches!(holders(), Holders::Readers { count: 2, upgradable: None, .. }));
    raw.lock_upgradable();
    assert!(matches!(holders(), Holders::Readers { count: 2, upgradable: Some(_), .. }));
    raw.release_shared();
    raw.release_shared();
    assert!(RawRwLock::try_upgrade(&raw));
    let Holders::Writer(page) = holders() else { panic!("a writer holds it") };
    let here = 0u8;
    let here = &raw const here as usize;
    assert!(page.near(here).abs_diff(here) < 0x4000);
}
