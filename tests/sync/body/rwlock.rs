//! RwLock. By behaviour from Go's rwmutex_test.go: TestParallelReaders, TestRWMutex (hammer); from
//! mutex_test.go: TestMutexMisuse (the RWMutex part).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::sync::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};

use super::{scope, sleep, spawn, test, yield_now};
use crate::common::{panic_message, patience, until};

#[test]
fn readers_are_inside_together() {
    let lock = RwLock::new(());
    for count in [1, 3, 10] {
        let inside = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..count {
                s.spawn(|| {
                    let _reading = lock.read();
                    inside.fetch_add(1, Ordering::Relaxed);
                    until("all readers are inside", || inside.load(Ordering::Relaxed) == count);
                });
            }
        });
    }
}

/// A writer adds 10,000 to the activity and a reader 1, so the sum tells who is inside.
fn hammer(readers: usize, loops: usize) {
    let lock = RwLock::new(0usize);
    let activity = AtomicI32::new(0);
    let written = AtomicUsize::new(0);
    let write = || {
        for _ in 0..loops {
            let mut value = lock.write();
            assert_eq!(activity.fetch_add(10_000, Ordering::Relaxed), 0);
            *value += 1;
            written.fetch_add(1, Ordering::Relaxed);
            std::hint::spin_loop();
            activity.fetch_sub(10_000, Ordering::Relaxed);
        }
    };
    let read = || {
        for _ in 0..loops {
            let value = lock.read();
            let before = activity.fetch_add(1, Ordering::Relaxed);
            assert!((0..10_000).contains(&before));
            let seen = *value;
            std::hint::spin_loop();
            assert_eq!(seen, *value);
            activity.fetch_sub(1, Ordering::Relaxed);
        }
    };
    let upgrade = || {
        for i in 0..loops {
            let value = lock.upgradable_read();
            let seen = *value;
            if i % 4 == 0 {
                continue;
            }
            let mut value = RwLockUpgradableReadGuard::upgrade(value);
            assert_eq!(activity.fetch_add(10_000, Ordering::Relaxed), 0);
            assert_eq!(*value, seen);
            *value += 1;
            written.fetch_add(1, Ordering::Relaxed);
            activity.fetch_sub(10_000, Ordering::Relaxed);
            if i % 4 == 1 {
                let value = RwLockWriteGuard::downgrade(value);
                assert_eq!(*value, seen + 1);
            }
        }
    };
    scope(|s| {
        s.spawn(write);
        (0..readers / 2).for_each(|_| _ = s.spawn(read));
        s.spawn(write);
        s.spawn(upgrade);
        s.spawn(upgrade);
        (readers / 2..readers).for_each(|_| _ = s.spawn(read));
    });
    assert!(!lock.is_locked());
    assert_eq!(lock.into_inner(), written.into_inner());
}

#[test]
fn a_hammered_lock_excludes_and_loses_nobody() {
    for readers in [1, 3, 10] {
        hammer(readers, 1000);
    }
}

#[test]
fn a_stream_of_readers_does_not_starve_a_writer() {
    let lock = Arc::new(RwLock::new(()));
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (lock, stop) = (lock.clone(), stop.clone());
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _reading = lock.read();
                    sleep(Duration::from_micros(50));
                }
            })
        })
        .collect();
    for _ in 0..10 {
        assert!(lock.try_write_for(patience()).is_some());
    }
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|r| r.join().unwrap());
}

#[test]
fn a_stream_of_writers_does_not_starve_a_reader() {
    let lock = Arc::new(RwLock::new(()));
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (lock, stop) = (lock.clone(), stop.clone());
            spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let _writing = lock.write();
                    sleep(Duration::from_micros(50));
                }
            })
        })
        .collect();
    for _ in 0..10 {
        assert!(lock.try_read_for(patience()).is_some());
        assert!(lock.try_upgradable_read_for(patience()).is_some());
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|w| w.join().unwrap());
}

#[test]
fn a_panic_releases_every_kind_of_lock() {
    let lock = Arc::new(RwLock::new(0));
    for kind in 0..3 {
        let lock = lock.clone();
        let panicked = spawn(move || {
            let _guards = match kind {
                0 => (Some(lock.read()), None, None),
                1 => (None, Some(lock.write()), None),
                _ => (None, None, Some(lock.upgradable_read())),
            };
            panic!("while holding");
        });
        assert!(panicked.join().is_err());
    }
    assert!(!lock.is_locked());
    assert!(lock.try_write().is_some());
}

#[test]
fn a_recursive_read_passes_a_waiting_writer() {
    let lock = Arc::new(RwLock::new(0));
    let reading = lock.read();
    let writer = spawn({
        let lock = lock.clone();
        move || *lock.write() = 1
    });
    // A queued writer keeps plain readers out.
    until("the writer waits", || lock.try_read().is_none());
    assert!(lock.try_read_for(Duration::from_micros(100)).is_none());
    assert_eq!(*lock.read_recursive(), 0);
    assert!(lock.try_read_recursive_for(Duration::ZERO).is_some());
    drop(reading);
    writer.join().unwrap();
    assert_eq!(*lock.read(), 1);
}

#[test]
fn upgradable_readers_share_with_readers_only() {
    let lock = RwLock::new(1);
    let upgradable = lock.upgradable_read();
    let reading = lock.try_read().expect("readers may enter");
    assert!(lock.try_upgradable_read().is_none());
    assert!(lock.try_upgradable_read_for(Duration::from_micros(100)).is_none());
    assert!(lock.try_write().is_none());
    let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect_err("somebody reads");
    let upgradable = RwLockUpgradableReadGuard::try_upgrade_for(upgradable, Duration::from_micros(100))
        .expect_err("somebody still reads");
    drop(reading);
    let mut writing = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect("alone now");
    *writing = 2;
    assert!(lock.try_read().is_none());
    let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writing);
    assert_eq!(*lock.try_read().expect("readers may enter"), 2);
    let reading = RwLockUpgradableReadGuard::downgrade(upgradable);
    assert!(lock.try_upgradable_read().is_some());
    assert!(lock.try_write().is_none());
    drop(reading);
    assert!(lock.try_write().is_some());
}

#[test]
fn a_downgrade_lets_waiting_readers_in_at_once() {
    let lock = RwLock::new(0);
    let entered = AtomicBool::new(false);
    scope(|s| {
        let mut writing = lock.write();
        s.spawn(|| {
            assert_eq!(*lock.read(), 1);
            entered.store(true, Ordering::Relaxed);
        });
        *writing = 1;
        let _reading = RwLockWriteGuard::downgrade(writing);
        until("the reader is inside", || entered.load(Ordering::Relaxed));
    });
}

#[test]
fn zero_timeouts_try_once_and_the_longest_mean_for_ever() {
    let lock = RwLock::new(());
    let writing = lock.write();
    assert!(lock.try_read_for(Duration::ZERO).is_none());
    assert!(lock.try_write_for(Duration::ZERO).is_none());
    assert!(lock.try_upgradable_read_for(Duration::ZERO).is_none());
    assert!(lock.try_read_until(Instant::now()).is_none());
    assert!(lock.try_write_until(Instant::now()).is_none());
    scope(|s| {
        s.spawn(|| assert!(lock.try_read_for(Duration::MAX).is_some()));
        s.spawn(|| assert!(lock.try_write_for(Duration::MAX).is_some()));
        s.spawn(|| assert!(lock.try_upgradable_read_for(Duration::MAX).is_some()));
        yield_now();
        drop(writing);
    });
    assert!(!lock.is_locked());
}

#[test]
fn a_timeout_gives_up_not_before_its_time() {
    let lock = RwLock::new(());
    let timeout = Duration::from_millis(10);
    let writing = lock.write();
    let start = Instant::now();
    assert!(lock.try_read_for(timeout).is_none());
    assert!(start.elapsed() >= timeout);
    let start = Instant::now();
    assert!(lock.try_write_for(timeout).is_none());
    assert!(start.elapsed() >= timeout);
    drop(writing);
    assert!(lock.try_write().is_some());
}

#[test]
fn an_unlock_too_many_is_reported_and_harms_nothing() {
    let lock = RwLock::new(());
    // SAFETY: unsound on purpose, here and below: nobody holds the lock in this way, and it has to notice.
    let message = panic_message(|| unsafe { lock.force_unlock_read() });
    assert!(message.contains("not locked for reading"), "{message}");
    // SAFETY: as above.
    let message = panic_message(|| unsafe { lock.force_unlock_write() });
    assert!(message.contains("not locked for writing"), "{message}");
    let reading = lock.read();
    // SAFETY: as above.
    let message = panic_message(|| unsafe { lock.force_unlock_write() });
    assert!(message.contains("not locked for writing"), "{message}");
    drop(reading);
    let writing = lock.write();
    // SAFETY: as above.
    let message = panic_message(|| unsafe { lock.force_unlock_read() });
    assert!(message.contains("not locked for reading"), "{message}");
    drop(writing);
    drop(lock.write());
    assert!(!lock.is_locked());
}

#[test]
fn it_can_be_a_static_and_is_small() {
    static GLOBAL: RwLock<u32> = RwLock::new(1);
    *GLOBAL.write() += 1;
    assert_eq!(*GLOBAL.read(), 2);
    assert!(size_of::<RwLock<()>>() <= 48);
}
