//! OnceLock. By behaviour from Go's oncefunc_test.go: TestOnceValue, TestOnceXGC (what the value holds is
//! let go).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gort::sync::OnceLock;

use super::{scope, test};

#[test]
fn it_is_set_once() {
    let mut cell = OnceLock::new();
    assert_eq!(cell.get(), None);
    assert_eq!(cell.get_mut(), None);
    assert_eq!(cell.set(1), Ok(()));
    assert_eq!(cell.set(2), Err(2));
    assert_eq!(cell.get_or_init(|| 3), &1);
    *cell.get_mut().unwrap() = 4;
    assert_eq!(cell.take(), Some(4));
    assert_eq!(cell.take(), None);
    assert_eq!(cell.get_or_init(|| 5), &5);
    assert_eq!(cell.into_inner(), Some(5));
    assert_eq!(OnceLock::<i32>::new().into_inner(), None);
}

#[test]
fn many_at_once_make_one_value() {
    for _ in 0..200 {
        let (cell, made) = (OnceLock::new(), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..8 {
                let (cell, made) = (&cell, &made);
                s.spawn(move || {
                    let value: &String = cell.get_or_init(|| {
                        made.fetch_add(1, Ordering::Relaxed);
                        n.to_string()
                    });
                    assert_eq!(cell.get(), Some(value));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}

#[test]
fn a_panicking_or_failing_initialiser_leaves_it_empty() {
    let cell = OnceLock::new();
    assert!(catch_unwind(AssertUnwindSafe(|| cell.get_or_init(|| panic!("no")))).is_err());
    assert_eq!(cell.get(), None);
    assert_eq!(cell.get_or_try_init(|| Err("no")), Err("no"));
    assert_eq!(cell.get(), None);
    assert_eq!(cell.get_or_try_init(|| Ok::<i32, ()>(1)), Ok(&1));
    assert_eq!(cell.get_or_try_init(|| Err("too late")), Ok(&1));
}

#[test]
fn failing_initialisers_let_others_try() {
    for _ in 0..100 {
        let (cell, tries) = (OnceLock::new(), AtomicUsize::new(0));
        let mut failed = 0;
        scope(|s| {
            let all: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| {
                        cell.get_or_try_init(|| match tries.fetch_add(1, Ordering::Relaxed) {
                            n @ 0..2 => Err(n),
                            n => Ok(n),
                        })
                        .is_err()
                    })
                })
                .collect();
            failed = all.into_iter().map(|t| usize::from(t.join().unwrap())).sum();
        });
        assert_eq!(failed, 2);
        assert_eq!(cell.into_inner(), Some(2));
    }
}

#[test]
fn waiters_get_the_value_that_another_sets() {
    let cell = OnceLock::new();
    scope(|s| {
        let waiters: Vec<_> = (0..3).map(|_| s.spawn(|| *cell.wait())).collect();
        cell.set(7).unwrap();
        assert!(waiters.into_iter().all(|w| w.join().unwrap() == 7));
    });
}

#[test]
fn the_value_is_dropped_with_the_cell_and_not_before() {
    let value = Arc::new(());
    let cell = OnceLock::from(value.clone());
    assert_eq!(Arc::strong_count(&value), 2);
    let copy = cell.clone();
    assert_eq!(copy, cell);
    assert_eq!(Arc::strong_count(&value), 3);
    drop(cell);
    drop(copy);
    assert_eq!(Arc::strong_count(&value), 1);
    drop(OnceLock::<Arc<()>>::new());
}

#[test]
fn it_says_what_it_is() {
    let cell = OnceLock::new();
    assert_eq!(format!("{cell:?}"), "OnceLock(<uninit>)");
    cell.set(1).unwrap();
    assert_eq!(format!("{cell:?}"), "OnceLock(1)");
}
