//! Pool. By behaviour from Go's pool_test.go: TestPool, TestPoolNew, TestPoolStress; in place of
//! TestPoolRelease: nothing is kept beyond the bound, and nothing is lost or doubled.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gort::sync::{Mutex, Pool};

use super::{scope, test};

#[test]
fn values_that_were_put_come_back() {
    let pool: Pool<&str> = Pool::new(|| "new");
    assert_eq!(pool.take(), None);
    assert_eq!(pool.get(), "new");
    pool.put("a");
    pool.put("b");
    let mut both = [pool.get(), pool.get()];
    both.sort_unstable();
    assert_eq!(both, ["a", "b"]);
    assert_eq!(pool.take(), None);
}

#[test]
fn new_values_are_made_only_when_there_is_none() {
    let made = AtomicUsize::new(0);
    let pool = Pool::new(|| made.fetch_add(1, Ordering::Relaxed));
    assert_eq!((pool.get(), pool.get()), (0, 1));
    pool.put(42);
    assert_eq!(pool.get(), 42);
    assert_eq!(pool.get(), 2);
}

#[test]
fn no_value_is_given_out_twice() {
    let next = AtomicUsize::new(0);
    let pool = Pool::new(|| next.fetch_add(1, Ordering::Relaxed));
    let in_use = Mutex::new(HashSet::new());
    scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for i in 0..500 {
                    let value = pool.get();
                    assert!(in_use.lock().insert(value), "{value} is in use");
                    if i % 5 == 0 {
                        continue;
                    }
                    assert!(in_use.lock().remove(&value));
                    pool.put(value);
                }
            });
        }
    });
}

#[test]
fn values_that_others_put_are_found() {
    let pool: Pool<u32> = Pool::new(|| 0);
    scope(|s| {
        for n in 1..=8 {
            let pool = &pool;
            s.spawn(move || pool.put(n));
        }
    });
    let mut all: Vec<u32> = (0..8).map(|_| pool.get()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=8));
}

/// Counts the values that are alive.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn it_keeps_a_bounded_number_and_drops_all_with_itself() {
    let living = Arc::new(AtomicUsize::new(0));
    let counted = || {
        living.fetch_add(1, Ordering::Relaxed);
        Counted(living.clone())
    };
    let pool = Pool::new(counted);
    let many: Vec<Counted> = (0..10_000).map(|_| pool.get()).collect();
    many.into_iter().for_each(|value| pool.put(value));
    let kept = living.load(Ordering::Relaxed);
    assert!((1..1000).contains(&kept), "{kept}");
    pool.clear();
    assert_eq!(living.load(Ordering::Relaxed), 0);
    pool.put(pool.get());
    assert_eq!(living.load(Ordering::Relaxed), 1);
    drop(pool);
    assert_eq!(living.load(Ordering::Relaxed), 0);
}

#[test]
fn values_without_size_are_bounded_too() {
    let pool: Pool<()> = Pool::new(|| ());
    (0..10_000).for_each(|_| pool.put(()));
    let kept = std::iter::from_fn(|| pool.take()).count();
    assert!((1..1000).contains(&kept), "{kept}");
}

#[test]
fn it_can_be_a_static() {
    static POOL: Pool<Vec<u8>> = Pool::new(Vec::new);
    POOL.put(Vec::with_capacity(100));
    assert!(POOL.get().capacity() >= 100);
}
