//! Starting goroutines and waiting for them: from goroutines and from threads, with all kinds of closures and
//! results. Scopes are in `scope.rs`, panics in `panics.rs`.

#[path = "../common/mod.rs"]
mod common;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use common::{Watchdog, amount, until};
use gort::go;

#[test]
fn run_returns_what_the_closure_returns() {
    assert_eq!(gort::run(|| 6 * 7), 42);
}

#[test]
fn many_goroutines_all_run() {
    let _watchdog = Watchdog::start();
    let count = Arc::new(AtomicUsize::new(0));
    let n = amount(10_000, 1_000_000);
    let total = gort::run(|| {
        let handles: Vec<_> = (0..n)
            .map(|n| {
                let count = count.clone();
                gort::spawn(move || {
                    gort::yield_now();
                    count.fetch_add(1, Ordering::Relaxed);
                    n
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).sum::<usize>()
    });
    assert_eq!(total, (n - 1) * n / 2);
    assert_eq!(count.load(Ordering::Relaxed), n);
}

#[test]
fn run_may_borrow_from_the_callers_stack() {
    let words = [String::from("plain"), String::from("blocking")];
    let mut count = 0;
    let longest = gort::run(|| {
        count += words.len();
        words.iter().max_by_key(|word| word.len()).unwrap()
    });
    assert_eq!((longest.as_str(), count), ("blocking", 2));
}

#[test]
fn run_may_be_called_many_times() {
    for n in 0..amount(2_000, 100_000) {
        assert_eq!(gort::run(|| n + 1), n + 1);
    }
}

#[test]
fn run_may_be_called_from_many_threads_at_once() {
    let _watchdog = Watchdog::start();
    std::thread::scope(|s| {
        for t in 0..16 {
            s.spawn(move || {
                for n in 0..amount(100, 5_000) {
                    let doubled = gort::run(|| {
                        let handle = gort::spawn(move || n * 2);
                        gort::yield_now();
                        handle.join().unwrap()
                    });
                    assert_eq!(doubled, n * 2, "thread {t}");
                }
            });
        }
    });
}

#[test]
fn run_nests() {
    fn nested(depth: usize) -> usize {
        if depth == 0 { 0 } else { 1 + gort::run(|| nested(depth - 1)) }
    }
    assert_eq!(nested(50), 50);
}

#[test]
fn remaining_goroutines_do_not_hold_the_process() {
    const NAME: &str = "remaining_goroutines_do_not_hold_the_process";
    if common::is_child("main") {
        gort::run(|| {
            let started = Arc::new(AtomicUsize::new(0));
            let up = started.clone();
            let forever = gort::spawn(move || {
                up.fetch_add(1, Ordering::Relaxed);
                loop {
                    gort::yield_now();
                }
            });
            let up = started.clone();
            go! {
                up.fetch_add(1, Ordering::Relaxed);
                let _ = forever.join();
            }
            let up = started.clone();
            // The next goroutine blocks its thread forever: let there be Ps for the others.
            gort::runtime::set_max_procs(8);
            go! {
                up.fetch_add(1, Ordering::Relaxed);
                std::thread::park();
            }
            let up = started.clone();
            go! {
                let _bound = gort::runtime::os_thread_guard();
                up.fetch_add(1, Ordering::Relaxed);
                loop {
                    gort::yield_now();
                }
            }
            until("all have started", || started.load(Ordering::Relaxed) == 4);
            println!("ready=yes");
        });
        return;
    }
    assert_eq!(common::run_ok(common::child(NAME, "main")).value("ready"), "yes");
}

#[test]
fn a_goroutine_may_end_the_process() {
    const NAME: &str = "a_goroutine_may_end_the_process";
    if common::is_child("main") {
        gort::run(|| {
            for _ in 0..100 {
                go! {
                    loop {
                        gort::yield_now();
                    }
                }
            }
            gort::spawn(|| std::process::exit(7)).join().unwrap();
        });
        return;
    }
    let printed = common::run(common::child(NAME, "main"));
    assert_eq!(printed.status.code(), Some(7), "{}", printed.stderr);
}

#[test]
fn go_takes_an_expression_or_statements() {
    let word = String::from("gort");
    let (sender, receiver) = gort::chan::bounded(0);
    let other = sender.clone();
    // Without a semicolon, also where the body has a value.
    go! {
        let mut sum = 0;
        for n in 1..=10 {
            sum += n;
        }
        other.send(sum)
    }
    go! {}
    let () = go!(sender.send(word.len()).unwrap());
    go!(());
    assert_eq!(receiver.iter().sum::<usize>(), 59);
}

#[test]
fn the_builder_gives_name_and_stack_size() {
    let handle = gort::Builder::new()
        .name("reader".into())
        .stack_size(4 << 20)
        .spawn(|| {
            let big = std::hint::black_box([1u8; 3 << 20]);
            (gort::current().name().map(str::to_owned), big[1_000_000])
        })
        .unwrap();
    assert_eq!(handle.goroutine().name(), Some("reader"));
    assert!(format!("{handle:?}").contains("reader"));
    assert_eq!(handle.join().unwrap(), (Some("reader".into()), 1));
}

#[test]
fn current_knows_goroutines_and_threads() {
    let handle = gort::spawn(gort::current);
    let id = handle.id();
    let seen = handle.join().unwrap();
    assert_eq!((seen.id(), seen.name()), (id, None));
    assert_ne!(id, 0);
    let thread = std::thread::Builder::new().name("outside".into());
    let outside = thread.spawn(gort::current).unwrap().join().unwrap();
    assert_eq!((outside.id(), outside.name()), (0, Some("outside")));
}

#[test]
fn ids_are_unique() {
    let _watchdog = Watchdog::start();
    let each = amount(500, 20_000);
    let ids = Mutex::new(HashSet::new());
    let keep = |new: Vec<u64>| {
        let mut ids = ids.lock().unwrap();
        for id in new {
            assert!(ids.insert(id), "{id} was given twice");
        }
    };
    let spawn_some = || {
        let handles: Vec<_> = (0..each).map(|_| gort::spawn(|| gort::current().id())).collect();
        keep(
            handles
                .into_iter()
                .map(|h| (h.id(), h.join().unwrap()))
                .inspect(|(a, b)| assert_eq!(a, b))
                .map(|(id, _)| id)
                .collect(),
        );
    };
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(spawn_some);
            s.spawn(|| gort::run(spawn_some));
        }
    });
    assert_eq!(ids.into_inner().unwrap().len(), 8 * each);
}

#[test]
fn is_finished_becomes_true_when_join_would_not_wait() {
    let go_on = Arc::new(AtomicBool::new(false));
    let seen = go_on.clone();
    let handle = gort::spawn(move || {
        until("it may end", || seen.load(Ordering::Acquire));
        5
    });
    assert!(!handle.is_finished());
    go_on.store(true, Ordering::Release);
    until("it has ended", || handle.is_finished());
    assert_eq!(handle.join().unwrap(), 5);
    let panics = gort::spawn(|| std::panic::resume_unwind(Box::new(())));
    until("it has panicked", || panics.is_finished());
    assert!(panics.join().is_err());
}

#[test]
fn threads_join_goroutines_and_goroutines_join_for_threads() {
    let _watchdog = Watchdog::start();
    for n in 0..amount(300, 20_000) {
        let handle = gort::spawn(move || {
            if n % 2 == 0 {
                gort::yield_now();
            }
            n
        });
        let from_thread = std::thread::spawn(move || handle.join().unwrap());
        assert_eq!(from_thread.join().unwrap(), n);
    }
}

#[test]
fn a_goroutine_that_nobody_joins_still_runs() {
    let (sender, receiver) = mpsc::channel();
    for n in 0..1_000 {
        let sender = sender.clone();
        drop(gort::spawn(move || sender.send(n).unwrap()));
    }
    drop(sender);
    assert_eq!(receiver.iter().sum::<i32>(), 499_500);
}

#[test]
fn captures_and_results_may_be_huge() {
    fn sum<const N: usize>(numbers: &[u8; N]) -> usize {
        numbers.iter().map(|&n| usize::from(n)).sum()
    }
    // A few copies of this would be larger than a goroutine's whole stack.
    let huge = [7u8; 100 << 10];
    assert_eq!(gort::spawn(move || sum(&huge)).join().unwrap(), 7 * huge.len());
    let from_goroutine = gort::run(|| {
        let large = [7u8; 40 << 10];
        gort::spawn(move || sum(&large)).join().unwrap()
    });
    assert_eq!(from_goroutine, 7 * (40 << 10));
    let result = gort::Builder::new().stack_size(1 << 20).spawn(move || huge).unwrap().join().unwrap();
    assert_eq!(result, huge);
}

#[test]
fn captures_and_results_may_be_over_aligned() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(64))]
    struct Line([u8; 64]);
    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    fn check<T: Copy + PartialEq + Send + std::fmt::Debug + 'static>(value: T) {
        let start = move || {
            let inside = value;
            let captured = std::hint::black_box(&value);
            assert_eq!(std::ptr::from_ref(captured).addr() % align_of::<T>(), 0);
            assert_eq!(std::ptr::from_ref(std::hint::black_box(&inside)).addr() % align_of::<T>(), 0);
            inside
        };
        let back = gort::spawn(start).join().unwrap();
        assert_eq!(std::ptr::from_ref(std::hint::black_box(&back)).addr() % align_of::<T>(), 0);
        assert_eq!(back, value);
        assert_eq!(gort::run(move || gort::spawn(start).join().unwrap()), value);
    }
    check(3u8);
    check(u128::MAX);
    check(Line([1; 64]));
    check(Page([2; 4096]));
}

#[test]
fn captures_and_results_may_be_zero_sized() {
    #[derive(Debug, PartialEq)]
    struct Nothing;
    let nothing = Nothing;
    assert_eq!(gort::spawn(move || nothing).join().unwrap(), Nothing);
    gort::spawn(|| {}).join().unwrap();
    #[repr(align(1024))]
    #[derive(Debug, PartialEq)]
    struct Aligned;
    let aligned = Aligned;
    assert_eq!(gort::spawn(move || aligned).join().unwrap(), Aligned);
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn results_and_captures_are_dropped_exactly_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counted = || Counted(drops.clone());
    let mut expected = 0;
    let mut now = |what: &str, more: usize| {
        expected += more;
        // A detached goroutine may drop its result itself, a bit later.
        until(what, || drops.load(Ordering::Relaxed) >= expected);
        assert_eq!(drops.load(Ordering::Relaxed), expected, "{what}");
    };

    let (result, capture) = (counted(), counted());
    let back = gort::spawn(move || {
        let _capture = capture;
        result
    })
    .join()
    .unwrap();
    now("the capture was dropped", 1);
    drop(back);
    now("the joined result was dropped", 1);

    let result = counted();
    let handle = gort::spawn(move || result);
    until("it has ended", || handle.is_finished());
    drop(handle);
    now("the result of an ended, detached goroutine was dropped", 1);

    let result = counted();
    let go_on = Arc::new(AtomicBool::new(false));
    let seen = go_on.clone();
    drop(gort::spawn(move || {
        until("it may end", || seen.load(Ordering::Acquire));
        result
    }));
    go_on.store(true, Ordering::Release);
    now("the result of a goroutine detached before its end was dropped", 1);

    let (capture, payload) = (counted(), counted());
    let failed = gort::spawn(move || {
        let _capture = capture;
        std::panic::resume_unwind(Box::new(payload));
    })
    .join();
    now("a panicking goroutine's capture was dropped", 1);
    drop(failed);
    now("the payload was dropped", 1);

    let (capture, payload) = (counted(), counted());
    drop(gort::spawn(move || {
        let _capture = capture;
        std::panic::resume_unwind(Box::new(payload));
    }));
    now("a detached goroutine's capture and payload were dropped", 2);
}

#[test]
fn results_are_dropped_exactly_once_however_detaching_and_ending_race() {
    let _watchdog = Watchdog::start();
    let drops = Arc::new(AtomicUsize::new(0));
    let n = amount(5_000, 500_000);
    gort::run(|| {
        for i in 0..n {
            let result = Counted(drops.clone());
            let handle = gort::spawn(move || result);
            for _ in 0..i % 4 {
                gort::yield_now();
            }
            drop(handle);
        }
        until("all results were dropped", || drops.load(Ordering::Relaxed) >= n);
    });
    assert_eq!(drops.load(Ordering::Relaxed), n);
}

#[test]
fn goroutines_can_be_spawned_by_thread_local_destructors() {
    thread_local! {
        static AT_EXIT: Spawns = const { Spawns(Cell::new(None)) };
    }
    struct Spawns(Cell<Option<mpsc::Sender<u64>>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let sender = self.0.take().unwrap();
            // Both ways to wait, on both kinds of thread.
            let joined = gort::spawn(|| gort::current().id()).join().unwrap();
            sender.send(joined).unwrap();
            sender.send(gort::run(|| gort::current().id())).unwrap();
            go!(sender.send(gort::current().id()).unwrap());
        }
    }
    let receive = |receiver: mpsc::Receiver<u64>| {
        let ids: HashSet<u64> = receiver.iter().collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || AT_EXIT.with(|at_exit| at_exit.0.set(Some(sender)))).join().unwrap();
    receive(receiver);
    let (sender, receiver) = mpsc::channel();
    gort::spawn(move || AT_EXIT.with(|at_exit| at_exit.0.set(Some(sender)))).join().unwrap();
    receive(receiver);
}

#[test]
fn a_goroutine_may_share_its_threads_locals() {
    let _watchdog = Watchdog::start();
    let handles: Vec<_> = (0..1_000)
        .map(|n| {
            // SAFETY: the closure uses no thread-local across a scheduling point.
            unsafe {
                gort::Builder::new().spawn_shared_tls(move || {
                    gort::yield_now();
                    let inner = gort::spawn(move || n + 1);
                    assert_ne!(gort::current().id(), 0);
                    inner.join().unwrap()
                })
            }
            .unwrap()
        })
        .collect();
    assert_eq!(handles.into_iter().map(|h| h.join().unwrap()).sum::<usize>(), 500_500);
}

#[test]
fn the_count_of_goroutines_follows_them() {
    if !common::alone("the_count_of_goroutines_follows_them") {
        return;
    }
    let go_on = Arc::new(AtomicBool::new(false));
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let go_on = go_on.clone();
            gort::spawn(move || until("it may end", || go_on.load(Ordering::Relaxed)))
        })
        .collect();
    assert_eq!(gort::runtime::num_goroutines(), 100);
    go_on.store(true, Ordering::Relaxed);
    for handle in handles {
        handle.join().unwrap();
    }
    until("none is left", || gort::runtime::num_goroutines() == 0);
}
