//! A sanitizer finds true errors in goroutines, also after their stacks were used before. These tests run
//! where `tests/sanitizers/run` has built them with a sanitizer; elsewhere they do nothing.

#[path = "../common/mod.rs"]
mod common;

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether this binary was built with that sanitizer.
fn under(sanitizer: &str) -> bool {
    std::env::var("GORT_SANITIZER").is_ok_and(|value| value == sanitizer)
}

/// Runs `body` in a goroutine on a stack that others had before it: some returned, some panicked.
fn on_used_stacks(body: fn()) {
    std::panic::set_hook(Box::new(|_| ()));
    gort::run(move || {
        for round in 0..200 {
            let used = gort::spawn(move || {
                let values = black_box([round; 100]);
                gort::yield_now();
                assert_eq!(values[round / 2] % 2, 0);
            });
            assert_eq!(used.join().is_err(), round % 2 == 1);
        }
        gort::spawn(body).join().unwrap();
    });
}

/// Plays the part of the child, or runs it and expects `report` and the name of the function that is wrong.
#[track_caller]
fn expect(test: &str, sanitizer: &str, report: &str, function: &str, body: fn()) {
    if common::is_child("wrong") {
        on_used_stacks(body);
    } else if under(sanitizer) {
        let printed = common::run(common::child(test, "wrong"));
        let text = &printed.stderr;
        assert!(!printed.status.success() && text.contains(report) && text.contains(function), "{text}");
    }
}

#[inline(never)]
fn reads_beyond_an_array() -> u8 {
    let array = [1u8; 16];
    let first = black_box(array.as_ptr());
    // SAFETY: wrong on purpose.
    unsafe { *first.add(black_box(20)) }
}

#[test]
fn a_read_beyond_an_array_on_the_stack_is_found() {
    const NAME: &str = "a_read_beyond_an_array_on_the_stack_is_found";
    expect(NAME, "address", "stack-buffer-overflow", "reads_beyond_an_array", || {
        gort::yield_now();
        black_box(reads_beyond_an_array());
    });
}

#[inline(never)]
fn returns_its_local() -> *const u32 {
    let local = 7;
    black_box(&raw const local)
}

#[test]
fn a_use_of_a_local_after_its_function_returned_is_found() {
    const NAME: &str = "a_use_of_a_local_after_its_function_returned_is_found";
    expect(NAME, "address", "stack-use-after-return", "returns_its_local", || {
        let local = returns_its_local();
        gort::yield_now();
        // SAFETY: wrong on purpose.
        black_box(unsafe { *local });
    });
}

struct Racy(UnsafeCell<u64>);

// SAFETY: wrong on purpose.
unsafe impl Sync for Racy {}

static RACY: Racy = Racy(UnsafeCell::new(0));

/// Counts when another goroutine does so on another thread: one after the other on one thread are in order.
#[inline(never)]
fn counts_without_a_lock() {
    static HERE: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: this must not order them.
    HERE.fetch_add(1, Ordering::Relaxed);
    while HERE.load(Ordering::Relaxed) < 2 {
        std::hint::spin_loop();
    }
    for _ in 0..1_000 {
        // SAFETY: wrong on purpose.
        unsafe { *RACY.0.get() += 1 };
    }
}

#[test]
fn a_race_of_two_goroutines_is_found() {
    expect("a_race_of_two_goroutines_is_found", "thread", "data race", "counts_without_a_lock", || {
        gort::runtime::set_max_procs(2);
        gort::scope(|scope| {
            scope.spawn(counts_without_a_lock);
            scope.spawn(counts_without_a_lock);
        });
    });
}
