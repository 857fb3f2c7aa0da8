//! A panic ends one goroutine and nothing else.

#[path = "../common/mod.rs"]
mod common;

use std::panic::{catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::panicking;

use common::{Watchdog, alone_quietly, amount, migrate, until};

#[test]
fn join_returns_the_payload() {
    if !alone_quietly("join_returns_the_payload") {
        return;
    }
    let text = gort::spawn(|| panic!("plain")).join().unwrap_err();
    assert_eq!(*text.downcast::<&str>().unwrap(), "plain");
    let formatted = gort::spawn(|| panic!("{} and {}", std::hint::black_box(1), 2)).join().unwrap_err();
    assert_eq!(*formatted.downcast::<String>().unwrap(), "1 and 2");
    let any = gort::spawn(|| panic_any(vec![1, 2, 3])).join().unwrap_err();
    assert_eq!(*any.downcast::<Vec<i32>>().unwrap(), [1, 2, 3]);
    let resumed = gort::spawn(|| resume_unwind(Box::new(7u8))).join().unwrap_err();
    assert_eq!(*resumed.downcast::<u8>().unwrap(), 7);
    let from_goroutine = gort::run(|| gort::spawn(|| panic!("inner")).join().unwrap_err());
    assert_eq!(*from_goroutine.downcast::<&str>().unwrap(), "inner");
}

#[test]
fn run_panics_with_the_payload_of_its_goroutine() {
    if !alone_quietly("run_panics_with_the_payload_of_its_goroutine") {
        return;
    }
    let payload = catch_unwind(|| gort::run(|| panic_any(42u64))).unwrap_err();
    assert_eq!(*payload.downcast::<u64>().unwrap(), 42);
    assert_eq!(gort::run(|| 1), 1);
}

#[test]
fn a_detached_panic_is_reported_with_id_name_and_spawn_site() {
    const NAME: &str = "a_detached_panic_is_reported_with_id_name_and_spawn_site";
    if common::is_child("main") {
        let named = gort::Builder::new().name("payments".into());
        let handle = named.spawn(|| panic!("out of money")).unwrap();
        println!("line={}", line!() - 1);
        println!("id={}", handle.id());
        until("it has panicked", || handle.is_finished());
        drop(handle);
        let unnamed = gort::spawn(|| std::hint::black_box(None::<()>).unwrap());
        println!("unnamed line={}", line!() - 1);
        println!("unnamed id={}", unnamed.id());
        until("it has panicked", || unnamed.is_finished());
        return;
    }
    let printed = common::run_ok(common::child(NAME, "main"));
    let named = format!(
        "goroutine {} 'payments' (spawned at tests/goroutine/panics.rs:{}:",
        printed.value("id"),
        printed.value("line")
    );
    let unnamed = format!(
        "goroutine {} (spawned at tests/goroutine/panics.rs:{}:",
        printed.value("unnamed id"),
        printed.value("unnamed line")
    );
    let std = "thread 'payments' (";
    for expected in [&named, &unnamed, std, "out of money", "called `Option::unwrap()` on a `None` value"] {
        assert!(printed.stderr.contains(expected), "no {expected:?} in\n{}", printed.stderr);
    }
}

#[test]
fn a_hook_of_the_program_can_ask_which_goroutine_it_was() {
    const NAME: &str = "a_hook_of_the_program_can_ask_which_goroutine_it_was";
    if common::is_child("main") {
        assert_eq!(gort::run(|| 1), 1); // The runtime has installed its own hook.
        std::panic::set_hook(Box::new(|_| println!("seen={}", gort::current().name().unwrap())));
        let handle = gort::Builder::new().name("asks".into()).spawn(|| panic!()).unwrap();
        assert!(handle.join().is_err());
        return;
    }
    let printed = common::run_ok(common::child(NAME, "main"));
    assert_eq!(printed.value("seen"), "asks");
    assert!(!printed.stderr.contains("spawned at"), "{}", printed.stderr);
}

#[test]
fn a_result_whose_drop_panics_aborts_with_a_message() {
    const NAME: &str = "a_result_whose_drop_panics_aborts_with_a_message";
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("boom");
        }
    }
    if common::is_child("main") {
        drop(gort::spawn(|| Bomb));
        until("the process has ended", || false);
    }
    let printed = common::run(common::child(NAME, "main"));
    assert!(!printed.status.success());
    assert!(
        printed.stderr.contains("gort: goroutine: the drop of a goroutine's result panicked"),
        "{}",
        printed.stderr
    );
}

#[test]
fn many_panics_among_others_stay_alone() {
    if !alone_quietly("many_panics_among_others_stay_alone") {
        return;
    }
    let unwound = Arc::new(AtomicUsize::new(0));
    struct Unwinds(Arc<AtomicUsize>);
    impl Drop for Unwinds {
        fn drop(&mut self) {
            assert!(panicking());
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let n = amount(2_000, 100_000);
    let sum: usize = gort::run(|| {
        let handles: Vec<_> = (0..2 * n)
            .map(|i| {
                let unwound = unwound.clone();
                gort::spawn(move || {
                    gort::yield_now();
                    assert!(!panicking());
                    if i % 2 == 1 {
                        let _unwinds = Unwinds(unwound);
                        panic_any(i);
                    }
                    gort::yield_now();
                    assert!(!panicking());
                    i
                })
            })
            .collect();
        handles
            .into_iter()
            .enumerate()
            .map(|(i, handle)| match handle.join() {
                Ok(value) => value,
                Err(payload) => {
                    assert_eq!(*payload.downcast::<usize>().unwrap(), i);
                    assert_eq!(i % 2, 1);
                    0
                }
            })
            .sum()
    });
    assert_eq!(unwound.load(Ordering::Relaxed), n);
    assert_eq!(sum, (0..2 * n).step_by(2).sum());
}

/// Blocks in its drop in every possible way, and moves to another thread meanwhile.
struct Blocks(Arc<AtomicUsize>);

impl Drop for Blocks {
    fn drop(&mut self) {
        assert!(panicking());
        migrate();
        assert!(panicking());
        // A second panic, which is caught inside, must leave the first alone.
        let inner = gort::spawn(|| {
            assert!(!panicking());
            let caught = catch_unwind(|| resume_unwind(Box::new("caught")));
            assert!(caught.is_err() && !panicking());
            gort::yield_now();
        });
        inner.join().unwrap();
        assert!(panicking());
        gort::scope(|s| {
            s.spawn(|| assert!(!panicking()));
        });
        gort::run(|| assert!(!panicking()));
        assert!(panicking());
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn panicking_belongs_to_the_goroutine_even_while_it_blocks_and_migrates() {
    if !alone_quietly("panicking_belongs_to_the_goroutine_even_while_it_blocks_and_migrates") {
        return;
    }
    gort::runtime::set_max_procs(4);
    let dropped = Arc::new(AtomicUsize::new(0));
    let n = amount(100, 10_000);
    gort::run(|| {
        let handles: Vec<_> = (0..n)
            .map(|_| {
                let dropped = dropped.clone();
                gort::spawn(move || {
                    let _first = Blocks(dropped.clone());
                    let _second = Blocks(dropped);
                    panic!("unwinds through both");
                })
            })
            .collect();
        for handle in handles {
            assert!(!panicking());
            assert!(handle.join().is_err());
        }
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 2 * n);
}

#[test]
fn a_panic_after_migration_unwinds_all_frames() {
    if !alone_quietly("a_panic_after_migration_unwinds_all_frames") {
        return;
    }
    gort::runtime::set_max_procs(4);
    fn deep(depth: usize, unwound: &AtomicUsize) {
        struct Count<'a>(&'a AtomicUsize);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let _count = Count(unwound);
        if depth == 0 {
            migrate();
            panic!("at the bottom");
        }
        deep(depth - 1, unwound);
    }
    let unwound = Arc::new(AtomicUsize::new(0));
    let seen = unwound.clone();
    let n = amount(50, 5_000);
    gort::run(|| {
        let handles: Vec<_> = (0..n)
            .map(|_| {
                let seen = seen.clone();
                gort::spawn(move || deep(99, &seen))
            })
            .collect();
        for handle in handles {
            assert!(handle.join().is_err());
        }
    });
    assert_eq!(unwound.load(Ordering::Relaxed), 100 * n);
}

#[test]
fn a_panic_with_backtrace_shows_the_goroutines_frames() {
    const NAME: &str = "a_panic_with_backtrace_shows_the_goroutines_frames";
    if common::is_child("main") {
        #[inline(never)]
        fn the_function_that_panics() {
            panic!("with backtrace");
        }
        assert!(gort::spawn(the_function_that_panics).join().is_err());
        return;
    }
    let mut child = common::child(NAME, "main");
    child.env("RUST_BACKTRACE", "1");
    let printed = common::run_ok(child);
    assert!(printed.stderr.contains("the_function_that_panics"), "{}", printed.stderr);
    assert!(printed.stderr.contains("tests/goroutine/panics.rs"), "{}", printed.stderr);
}

/// A standard error stream that nothing reads is no reason to end the process.
#[test]
fn a_panic_without_a_standard_error_stream_is_a_panic() {
    use std::process::Stdio;
    if common::is_child("mute") {
        let failed = gort::spawn(|| panic!("unheard")).join();
        println!("payload={}", failed.unwrap_err().downcast::<&str>().unwrap());
        return;
    }
    let _watchdog = Watchdog::start();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = common::child("a_panic_without_a_standard_error_stream_is_a_panic", "mute");
    let output = child.stdout(Stdio::piped()).stderr(writer).spawn().unwrap().wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("payload=unheard"), "{:?} {text}", output.status);
}
