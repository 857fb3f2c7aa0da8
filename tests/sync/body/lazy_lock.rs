//! LazyLock. By behaviour from Go's oncefunc_test.go: TestOnceFunc, TestOnceValue, TestOnceFuncPanic,
//! TestOnceValuePanic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gort::sync::LazyLock;

use super::{scope, test};
use crate::common::panic_message;

#[test]
fn it_is_made_once_on_first_use() {
    let made = AtomicUsize::new(0);
    let lazy = LazyLock::new(|| made.fetch_add(1, Ordering::Relaxed) + 41);
    assert_eq!(LazyLock::get(&lazy), None);
    assert_eq!(made.load(Ordering::Relaxed), 0);
    scope(|s| {
        for _ in 0..8 {
            s.spawn(|| assert_eq!(*lazy, 41));
        }
    });
    assert_eq!(LazyLock::force(&lazy), &41);
    assert_eq!(LazyLock::get(&lazy), Some(&41));
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[test]
fn a_panicking_initialiser_runs_once_and_strands_nobody() {
    for _ in 0..100 {
        let runs = AtomicUsize::new(0);
        let lazy: LazyLock<(), _> = LazyLock::new(|| {
            runs.fetch_add(1, Ordering::Relaxed);
            panic!("no value")
        });
        let mut panics = 0;
        scope(|s| {
            let all: Vec<_> = (0..4)
                .map(|_| s.spawn(|| catch_unwind(AssertUnwindSafe(|| LazyLock::force(&lazy))).is_err()))
                .collect();
            panics = all.into_iter().map(|t| usize::from(t.join().unwrap())).sum();
        });
        assert_eq!((panics, runs.load(Ordering::Relaxed)), (4, 1));
        let message = panic_message(|| _ = LazyLock::force(&lazy));
        assert!(message.contains("has panicked"), "{message}");
        assert_eq!(LazyLock::get(&lazy), None);
    }
}

#[test]
fn value_and_initialiser_are_dropped() {
    let token = Arc::new(());
    let lazy = LazyLock::new({
        let token = token.clone();
        move || token
    });
    assert_eq!(Arc::strong_count(&token), 2);
    assert!(Arc::ptr_eq(&lazy, &token));
    drop(lazy);
    assert_eq!(Arc::strong_count(&token), 1);
    let unused = LazyLock::new({
        let token = token.clone();
        move || token
    });
    drop(unused);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn statics_and_defaults() {
    static TEXT: LazyLock<String> = LazyLock::new(|| "made".to_owned());
    assert_eq!(format!("{TEXT:?}"), "LazyLock(<uninit>)");
    assert_eq!(&*TEXT, "made");
    assert_eq!(format!("{TEXT:?}"), "LazyLock(\"made\")");
    assert_eq!(*LazyLock::<u32>::default(), 0);
}
