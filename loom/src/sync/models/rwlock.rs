//! Models of the reader-writer lock: writers exclude all others, upgradable readers exclude writers and each
//! other, no wake-up is lost, and the word is clean when all threads are done.

use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::base::atomic::Ordering;
use crate::sync::new_rwlock;
use crate::sync::raw::rwlock::{BLOCKS_READERS, BLOCKS_RECURSIVE, RawRwLock};
use crate::sync::raw::rwlock_grant::Keep;
use crate::sync::raw::{spin, starvation};

struct Cell {
    raw: RawRwLock,
    value: UnsafeCell<usize>,
}

// SAFETY: `value` is used only as `raw` allows, which is what the models check.
unsafe impl Sync for Cell {}
// SAFETY: plain data.
unsafe impl Send for Cell {}

type Action = fn(&Cell) -> usize;

impl Cell {
    fn add_one(&self) {
        // SAFETY: the lock is held for writing; loom checks that no other thread is here.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn get(&self) -> usize {
        // SAFETY: the lock is held for reading; loom checks that no thread writes.
        self.value.with(|value| unsafe { *value })
    }
}

/// Each action returns how many times it wrote.
fn write(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_exclusive(None));
    cell.add_one();
    cell.raw.release_exclusive();
    1
}

fn write_fair(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_exclusive(None));
    cell.add_one();
    cell.raw.pass_on(Keep::Nothing, true);
    1
}

fn try_write_briefly(cell: &Cell) -> usize {
    if !cell.raw.acquire_exclusive(Some(Instant::now())) {
        return 0;
    }
    cell.add_one();
    cell.raw.release_exclusive();
    1
}

fn read(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_shared(BLOCKS_READERS, None));
    cell.get();
    cell.raw.release_shared();
    0
}

fn read_twice(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_shared(BLOCKS_READERS, None));
    assert!(cell.raw.acquire_shared(BLOCKS_RECURSIVE, None));
    cell.get();
    cell.raw.release_shared();
    cell.get();
    cell.raw.release_shared();
    0
}

fn try_read_briefly(cell: &Cell) -> usize {
    if cell.raw.acquire_shared(BLOCKS_READERS, Some(Instant::now())) {
        cell.get();
        cell.raw.release_shared();
    }
    0
}

fn read_upgradably(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_upgradable(None));
    cell.get();
    cell.raw.release_upgradable(Keep::Nothing);
    0
}

fn try_read_upgradably_briefly(cell: &Cell) -> usize {
    if cell.raw.acquire_upgradable(Some(Instant::now())) {
        cell.get();
        cell.raw.release_upgradable(Keep::Nothing);
    }
    0
}

fn read_then_write(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_upgradable(None));
    let before = cell.get();
    assert!(cell.raw.upgrade(None));
    assert_eq!(cell.get(), before, "nobody wrote between");
    cell.add_one();
    cell.raw.release_exclusive();
    1
}

fn read_then_try_to_write_briefly(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_upgradable(None));
    let before = cell.get();
    if !cell.raw.upgrade(Some(Instant::now())) {
        assert_eq!(cell.get(), before, "still reading");
        cell.raw.release_upgradable(Keep::Shared);
        assert_eq!(cell.get(), before, "still reading");
        cell.raw.release_shared();
        return 0;
    }
    cell.add_one();
    cell.raw.release_exclusive();
    1
}

fn write_then_read(cell: &Cell) -> usize {
    assert!(cell.raw.acquire_exclusive(None));
    cell.add_one();
    let now = cell.get();
    cell.raw.pass_on(Keep::Upgradable, false);
    assert_eq!(cell.get(), now, "nobody wrote between");
    cell.raw.release_upgradable(Keep::Shared);
    assert_eq!(cell.get(), now, "nobody wrote between");
    cell.raw.release_shared();
    1
}

fn run(actions: &'static [Action]) {
    let cell = Arc::new(Cell { raw: new_rwlock(), value: UnsafeCell::new(0) });
    let others: Vec<_> = actions[1..]
        .iter()
        .map(|action| {
            let cell = cell.clone();
            thread::spawn(move || action(&cell))
        })
        .collect();
    let mut wrote = actions[0](&cell);
    for other in others {
        wrote += other.join().unwrap();
    }
    assert_eq!(cell.raw.state.load(Ordering::Relaxed), 0, "no bit is left behind");
    assert_eq!(cell.raw.queues.lock().bits(), 0);
    assert_eq!(cell.get(), wrote);
}

/// Checks the actions with patient and with impatient waiters.
fn check_both(preemptions: usize, actions: &'static [Action]) {
    for exhausted in [false, true] {
        check(preemptions, move || {
            starvation::set_starving(exhausted);
            run(actions);
        });
    }
}

pub fn a_writer_and_readers() {
    check_both(3, &[write, read, read]);
}

pub fn writers_and_a_reader() {
    check_both(3, &[write, write, read]);
}

pub fn writers_alone() {
    check_both(3, &[write, write, write]);
}

pub fn spinning_changes_nothing() {
    check(2, || {
        spin::set_rounds(1);
        run(&[write, write, read]);
    });
}

pub fn a_fair_unlock() {
    check_both(2, &[write_fair, write, read]);
}

pub fn two_upgraders_and_a_reader() {
    check_both(2, &[read_then_write, read_then_write, read]);
}

pub fn an_upgrader_a_writer_and_a_reader() {
    check_both(2, &[read_then_write, write, read]);
}

pub fn an_upgradable_reader_leaves() {
    check_both(2, &[read_upgradably, write, read_upgradably]);
    check_both(2, &[read_upgradably, write, read]);
}

pub fn an_upgrade_that_gives_up() {
    check_both(4, &[read, read_then_try_to_write_briefly]);
    check_both(2, &[read_then_try_to_write_briefly, read, write]);
    check_both(2, &[read_then_try_to_write_briefly, read, read_then_write]);
}

pub fn a_writer_that_gives_up_lets_readers_in() {
    check_both(2, &[try_write_briefly, read, read]);
    check_both(2, &[try_write_briefly, read, write]);
}

pub fn the_only_one_queued_gives_up() {
    check_both(4, &[write, try_write_briefly]);
    check_both(4, &[read, try_write_briefly]);
    check_both(4, &[write, try_read_briefly]);
    check_both(4, &[write, try_read_upgradably_briefly]);
    check_both(4, &[read_upgradably, try_read_upgradably_briefly]);
    check_both(3, &[read, try_write_briefly, try_read_upgradably_briefly]);
}

pub fn a_reader_that_gives_up() {
    check_both(2, &[try_read_briefly, write, write]);
    check_both(2, &[try_read_briefly, write, read]);
}

pub fn recursive_reads_pass_a_queued_writer() {
    check_both(2, &[read_twice, write, read]);
}

pub fn downgrades() {
    check_both(2, &[write_then_read, write, read]);
    check_both(2, &[write_then_read, read_then_write, read]);
}
