//! Scopes: goroutines that borrow. The semantics are those of `std::thread::scope`.

#[path = "../common/mod.rs"]
mod common;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Watchdog, amount, panic_message, until};

/// Runs `f` on a thread and in a goroutine.
fn everywhere(f: impl Fn() + Sync) {
    let _watchdog = Watchdog::start();
    f();
    gort::run(&f);
}

#[test]
fn goroutines_borrow_shared_and_exclusive() {
    everywhere(|| {
        let text = String::from("shared");
        let mut numbers = [0usize; 100];
        let count = gort::scope(|s| {
            for (i, chunk) in numbers.chunks_mut(10).enumerate() {
                let text = &text;
                s.spawn(move || {
                    gort::yield_now();
                    chunk.fill(i + text.len());
                });
            }
            numbers_of(s, &text)
        });
        assert_eq!(count, 6);
        for (i, number) in numbers.into_iter().enumerate() {
            assert_eq!(number, i / 10 + 6);
        }
    });
    fn numbers_of<'scope>(s: &'scope gort::Scope<'scope, '_>, text: &'scope str) -> usize {
        s.spawn(|| text.len()).join().unwrap()
    }
}

#[test]
fn a_scope_waits_for_goroutines_that_nobody_joined() {
    everywhere(|| {
        let ended = AtomicUsize::new(0);
        let rounds = amount(200, 20_000);
        for round in 0..rounds {
            gort::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        for _ in 0..round % 5 {
                            gort::yield_now();
                        }
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(ended.load(Ordering::Relaxed), 3 * (round + 1));
        }
    });
}

#[test]
fn handles_can_be_joined_inside_and_know_their_goroutine() {
    everywhere(|| {
        gort::scope(|s| {
            let handle = gort::Builder::new().name("inner".into()).spawn_scoped(s, gort::current).unwrap();
            assert_eq!(handle.goroutine().name(), Some("inner"));
            let goroutine = handle.goroutine();
            until("it has ended", || handle.is_finished());
            assert_eq!(handle.join().unwrap(), goroutine);
        });
    });
}

#[test]
fn scopes_nest_and_goroutines_spawn_into_their_own_scope() {
    everywhere(|| {
        let count = AtomicUsize::new(0);
        gort::scope(|outer| {
            for _ in 0..10 {
                outer.spawn(|| {
                    gort::scope(|inner| {
                        for _ in 0..10 {
                            inner.spawn(|| count.fetch_add(1, Ordering::Relaxed));
                        }
                        inner.spawn(|| inner.spawn(|| inner.spawn(|| count.fetch_add(1, Ordering::Relaxed))));
                    });
                    outer.spawn(|| count.fetch_add(1, Ordering::Relaxed));
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 10 * (10 + 1 + 1));
    });
}

#[test]
fn a_panic_that_nobody_joined_comes_out_of_the_scope() {
    everywhere(|| {
        let others = AtomicUsize::new(0);
        let text = panic_message(|| {
            gort::scope(|s| {
                s.spawn(|| resume_unwind(Box::new("unseen")));
                for _ in 0..10 {
                    s.spawn(|| {
                        gort::yield_now();
                        others.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        });
        assert_eq!(text, "a scoped goroutine panicked");
        assert_eq!(others.load(Ordering::Relaxed), 10);
    });
}

#[test]
fn a_panic_that_was_joined_does_not() {
    everywhere(|| {
        let text = gort::scope(|s| {
            let failed = s.spawn(|| resume_unwind(Box::new("seen"))).join();
            *failed.unwrap_err().downcast::<&str>().unwrap()
        });
        assert_eq!(text, "seen");
    });
}

#[test]
fn the_panic_of_the_scope_itself_wins_and_still_waits() {
    everywhere(|| {
        let ended = AtomicBool::new(false);
        let text = panic_message(|| {
            gort::scope(|s| {
                s.spawn(|| {
                    for _ in 0..100 {
                        gort::yield_now();
                    }
                    ended.store(true, Ordering::Relaxed);
                    resume_unwind(Box::new("the goroutine's"));
                });
                resume_unwind(Box::new("the scope's"));
            });
        });
        assert_eq!(text, "the scope's");
        assert!(ended.load(Ordering::Relaxed));
    });
}

#[test]
fn a_panic_passes_through_nested_scopes() {
    everywhere(|| {
        let text = panic_message(|| {
            gort::scope(|outer| {
                let inner = outer.spawn(|| {
                    gort::scope(|inner| {
                        inner.spawn(|| resume_unwind(Box::new("deep")));
                    });
                });
                resume_unwind(inner.join().unwrap_err());
            });
        });
        assert_eq!(text, "a scoped goroutine panicked");
    });
}

#[test]
fn results_that_borrow_are_dropped_before_the_scope_ends() {
    struct Borrows<'a>(&'a AtomicUsize);
    impl Drop for Borrows<'_> {
        fn drop(&mut self) {
            for _ in 0..3 {
                gort::yield_now();
            }
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    everywhere(|| {
        for _ in 0..amount(100, 10_000) {
            let drops = AtomicUsize::new(0);
            gort::scope(|s| {
                s.spawn(|| Borrows(&drops));
                drop(s.spawn(|| Borrows(&drops)));
                let joined = s.spawn(|| Borrows(&drops));
                drop(joined.join().unwrap());
                assert!(drops.load(Ordering::Relaxed) >= 1);
            });
            assert_eq!(drops.load(Ordering::Relaxed), 3);
        }
    });
}

#[test]
fn a_handle_may_be_joined_by_another_goroutine_of_the_scope() {
    everywhere(|| {
        let total = gort::scope(|s| {
            let mut handle = s.spawn(|| 0);
            for n in 1..=100 {
                handle = s.spawn(move || handle.join().unwrap() + n);
            }
            handle.join().unwrap()
        });
        assert_eq!(total, 5050);
    });
}

#[test]
fn a_scope_may_be_opened_while_unwinding() {
    struct OpensAScope<'a>(&'a AtomicUsize);
    impl Drop for OpensAScope<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            gort::scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        assert!(!std::thread::panicking());
                        self.0.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            assert!(std::thread::panicking());
        }
    }
    everywhere(|| {
        let count = AtomicUsize::new(0);
        panic_message(|| {
            let _opens = OpensAScope(&count);
            resume_unwind(Box::new("unwinding"));
        });
        assert_eq!(count.load(Ordering::Relaxed), 10);
    });
}
