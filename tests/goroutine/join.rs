//! `gort::join`: fork-join without a goroutine for each fork. The semantics are those of `rayon::join`, and
//! either half may block.

#[path = "../common/mod.rs"]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{Hogs, Procs, amount, join_all, message_of, spin_until, until};
use gort::join;

/// Runs `f` in a goroutine, with one P, with two, and with more than there are cores.
fn with_procs(f: impl Fn() + Sync) {
    for procs in [1, 2, 8] {
        let _procs = Procs::set(procs);
        gort::run(&f);
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (left, right) = join(|| fib(n - 1), || fib(n - 2));
    left + right
}

/// Numbers without an order, the same in every run.
fn numbers(count: usize) -> Vec<u32> {
    let mut state = 12345u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    (0..count).map(|_| next()).collect()
}

fn quicksort(slice: &mut [u32]) {
    if slice.len() <= 64 {
        return slice.sort_unstable();
    }
    let pivot = slice[slice.len() / 2];
    let (mut left, mut middle, mut right) = (0, 0, slice.len());
    while middle < right {
        match slice[middle].cmp(&pivot) {
            std::cmp::Ordering::Less => {
                slice.swap(left, middle);
                (left, middle) = (left + 1, middle + 1);
            }
            std::cmp::Ordering::Equal => middle += 1,
            std::cmp::Ordering::Greater => {
                right -= 1;
                slice.swap(middle, right);
            }
        }
    }
    let (low, rest) = slice.split_at_mut(left);
    let high = &mut rest[right - left..];
    join(|| quicksort(low), || quicksort(high));
}

#[test]
fn both_results_come_back_in_order() {
    with_procs(|| {
        assert_eq!(join(|| 1, || "two"), (1, "two"));
        assert_eq!(join(|| (), || ()), ((), ()));
        assert_eq!(join(|| [1u8; 100], || Box::new([2u64; 100])), ([1; 100], Box::new([2; 100])));
    });
}

#[test]
fn halves_borrow_shared_and_exclusive() {
    with_procs(|| {
        let text = String::from("shared");
        let (mut left, mut right) = (vec![1], vec![2]);
        join(|| left.push(text.len()), || right.push(text.len()));
        assert_eq!((left, right), (vec![1, 6], vec![2, 6]));
    });
}

#[test]
fn recursion_gives_the_right_result() {
    with_procs(|| assert_eq!(fib(amount(20, 30) as u64), if common::full() { 832_040 } else { 6765 }));
}

#[test]
fn a_quicksort_of_a_million_numbers_sorts() {
    with_procs(|| {
        let mut sorted = numbers(amount(200_000, 1_000_000));
        let mut expected = sorted.clone();
        expected.sort_unstable();
        quicksort(&mut sorted);
        assert!(sorted == expected);
    });
}

#[test]
fn a_foreign_thread_may_call_it() {
    let _procs = Procs::set(2);
    assert_eq!(fib(15), 610);
    let (on_goroutine, _) = join(|| std::thread::current().id(), || ());
    assert_ne!(on_goroutine, std::thread::current().id());
    let panic = catch_unwind(|| join(|| 1, || -> i32 { panic!("b") })).unwrap_err();
    assert_eq!(message_of(panic), "b");
}

/// Calls `join` such that the second half runs in a helper: the first half ends when it has begun.
fn stolen<RA: Send, RB: Send>(a: impl FnOnce() -> RA + Send, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
    let began = AtomicBool::new(false);
    let first = || {
        until("the second half begins", || began.load(Ordering::Acquire));
        a()
    };
    let second = || {
        began.store(true, Ordering::Release);
        b()
    };
    join(first, second)
}

#[test]
fn panics_come_back_after_both_halves_have_ended() {
    with_procs(|| {
        let ended = AtomicUsize::new(0);
        let end = || {
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let fails = |text: &'static str| -> () {
            end();
            panic!("{text}")
        };
        let message = |f: &dyn Fn()| message_of(catch_unwind(AssertUnwindSafe(f)).unwrap_err());
        let cases: [(&dyn Fn(), &str); 6] = [
            (&|| assert_eq!(join(|| fails("a"), end), ((), ())), "a"),
            (&|| assert_eq!(join(end, || fails("b")), ((), ())), "b"),
            (&|| assert_eq!(join(|| fails("a"), || fails("b")), ((), ())), "a"),
            (&|| assert_eq!(stolen(|| fails("a"), end), ((), ())), "a"),
            (&|| assert_eq!(stolen(end, || fails("b")), ((), ())), "b"),
            (&|| assert_eq!(stolen(|| fails("a"), || fails("b")), ((), ())), "a"),
        ];
        for (case, expected) in cases {
            ended.store(0, Ordering::Relaxed);
            assert_eq!(message(case), expected);
            assert_eq!(ended.load(Ordering::Relaxed), 2);
        }
        // The goroutine can go on forking.
        assert_eq!(fib(10), 55);
    });
}

#[test]
fn a_panic_waits_for_the_other_half_which_borrows() {
    with_procs(|| {
        let mut borrowed = 0;
        let panic = catch_unwind(AssertUnwindSafe(|| {
            stolen(
                || panic!("a"),
                || {
                    gort::sleep(Duration::from_millis(20));
                    borrowed = 7;
                },
            )
        }));
        assert_eq!((message_of(panic.unwrap_err()), borrowed), ("a".into(), 7));
    });
}

#[test]
fn the_first_half_may_wait_for_the_second_and_the_second_for_the_first() {
    with_procs(|| {
        let (sender, receiver) = gort::chan::bounded(0);
        assert_eq!(join(|| receiver.recv(), || sender.send(1)), (Ok(1), Ok(())));
        assert_eq!(join(|| sender.send(2), || receiver.recv()), (Ok(()), Ok(2)));
    });
}

#[test]
fn nested_halves_may_wait_for_each_other() {
    fn meet(depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let (sender, receiver) = gort::chan::bounded(0);
        let first = || {
            let below = meet(depth - 1);
            receiver.recv().unwrap() + below
        };
        let second = || {
            let below = meet(depth - 1);
            sender.send(below).unwrap();
            below
        };
        join(first, second).0
    }
    with_procs(|| assert_eq!(meet(6), 64));
}

#[test]
fn halves_may_lock() {
    with_procs(|| {
        let count = gort::sync::Mutex::new(0);
        fn add(count: &gort::sync::Mutex<usize>, depth: usize) {
            match depth {
                0 => *count.lock() += 1,
                _ => drop(join(|| add(count, depth - 1), || add(count, depth - 1))),
            }
        }
        add(&count, 10);
        assert_eq!(*count.lock(), 1024);
    });
}

#[test]
fn the_first_half_may_block_its_thread() {
    with_procs(|| {
        let (sender, receiver) = mpsc::channel();
        let receiver = std::sync::Mutex::new(receiver);
        let receive = || receiver.lock().unwrap().recv().unwrap();
        assert_eq!(join(receive, || sender.send(1).unwrap()).0, 1);
        assert_eq!(join(|| gort::blocking(receive), || sender.send(2).unwrap()).0, 2);
    });
}

#[test]
fn the_second_half_may_block_in_any_way() {
    with_procs(|| {
        let (sender, receiver) = mpsc::channel();
        let receiver = std::sync::Mutex::new(receiver);
        let first = || {
            gort::sleep(Duration::from_millis(1));
            sender.send(3).unwrap();
        };
        assert_eq!(stolen(first, || receiver.lock().unwrap().recv().unwrap()).1, 3);
        assert_eq!(stolen(|| (), || gort::sleep(Duration::from_millis(1))), ((), ()));
    });
}

#[test]
fn the_first_half_may_wait_in_an_endless_loop() {
    with_procs(|| {
        let done = AtomicBool::new(false);
        let first = || spin_until("the second half has run", || done.load(Ordering::Relaxed));
        join(first, || done.store(true, Ordering::Relaxed));
    });
}

#[test]
fn a_loop_that_forks_may_wait_for_an_outer_fork() {
    with_procs(|| {
        let done = AtomicBool::new(false);
        let first = || {
            until("the second half has run", || {
                join(|| (), || ());
                done.load(Ordering::Relaxed)
            });
        };
        join(first, || done.store(true, Ordering::Relaxed));
    });
}

#[test]
fn a_waiting_goroutines_fork_runs_although_others_compute_or_yield_without_an_end() {
    for procs in [1, 2] {
        let procs_set = Procs::set(procs);
        let hogs = Hogs::start(2 * procs);
        let stop = Arc::new(AtomicBool::new(false));
        let yielders: Vec<_> = (0..2 * procs)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        gort::yield_now();
                    }
                })
            })
            .collect();
        gort::run(|| {
            let (sender, receiver) = gort::chan::bounded(0);
            for round in 0..3 {
                assert_eq!(join(|| receiver.recv(), || sender.send(round)), (Ok(round), Ok(())));
            }
        });
        stop.store(true, Ordering::Relaxed);
        join_all(yielders);
        drop((hogs, procs_set));
    }
}

#[test]
fn more_forks_than_a_deque_holds_may_wait_for_each_other() {
    /// Every first half waits for its second half, when all are pending.
    fn deep(depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let (sender, receiver) = gort::chan::bounded(0);
        let first = || {
            let below = deep(depth - 1);
            receiver.recv().unwrap();
            below
        };
        join(first, || sender.send(()).unwrap()).0 + 1
    }
    with_procs(|| assert_eq!(deep(amount(200, 1000)), amount(200, 1000)));
}

#[test]
fn deep_recursion_in_the_second_half_needs_no_deque() {
    fn list(length: usize) -> usize {
        if length == 0 { 0 } else { join(|| 1, || list(length - 1)).1 + 1 }
    }
    with_procs(|| assert_eq!(list(1000), 1000));
}

#[test]
fn many_goroutines_join_at_once() {
    with_procs(|| {
        let all: Vec<_> = (0..amount(300, 10_000))
            .map(|number| {
                gort::spawn(move || {
                    let (sender, receiver) = gort::chan::bounded(0);
                    let (received, _) = join(|| receiver.recv().unwrap(), || sender.send(number).unwrap());
                    assert_eq!((received, fib(8)), (number, 21));
                })
            })
            .collect();
        all.into_iter().for_each(|goroutine| goroutine.join().unwrap());
    });
}

#[test]
fn it_works_within_a_scope_and_a_scope_within_it() {
    with_procs(|| {
        let total = AtomicUsize::new(0);
        gort::scope(|s| {
            for n in 0..10 {
                let total = &total;
                s.spawn(move || {
                    let in_scope = |n: u64| gort::scope(|s| s.spawn(|| fib(n)).join().unwrap());
                    let (left, right) = join(|| in_scope(n), || in_scope(n + 1));
                    total.fetch_add((left + right) as usize, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(total.into_inner(), (2..12).map(fib).sum::<u64>() as usize);
    });
}

#[test]
fn what_the_halves_own_is_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    with_procs(|| {
        let drops = AtomicUsize::new(0);
        let counted = || Counted(&drops);
        let dropped = |f: &dyn Fn()| {
            drops.store(0, Ordering::Relaxed);
            let _panic = catch_unwind(AssertUnwindSafe(f));
            drops.load(Ordering::Relaxed)
        };
        // Two captured values and two results.
        let halves = || {
            let (first, second) = (counted(), counted());
            let first = move || {
                let _first = &first;
                counted()
            };
            let second = move || {
                let _second = &second;
                counted()
            };
            (first, second)
        };
        assert_eq!(
            dropped(&|| {
                let (a, b) = halves();
                drop(join(a, b));
            }),
            4
        );
        assert_eq!(
            dropped(&|| {
                let (a, b) = halves();
                drop(stolen(a, b));
            }),
            4
        );
        let panics = |value: Counted<'_>| -> Counted<'_> {
            let _value = value;
            panic!("on purpose")
        };
        assert_eq!(
            dropped(&|| {
                let (a, b) = halves();
                drop(join(|| panics(a()), b));
            }),
            4
        );
        assert_eq!(
            dropped(&|| {
                let (a, b) = halves();
                drop(stolen(a, || panics(b())));
            }),
            4
        );
    });
}

#[test]
fn labels_and_limits_reach_the_second_half() {
    with_procs(|| {
        let labels = || gort::Labels::current().get("request").map(str::to_owned);
        let both = (Some("17".to_owned()), Some("17".to_owned()));
        gort::with_labels([("request", "17")], || {
            assert_eq!(join(labels, labels), both);
            let changed = || gort::with_labels([("request", "18")], labels);
            assert_eq!(stolen(changed, labels), (Some("18".into()), both.1.clone()));
        });
        assert_eq!(stolen(labels, labels), (None, None));
        let (context, cancel) = gort::context::Context::background().with_cancel();
        context.limit(|| {
            let (_sender, receiver) = gort::chan::bounded::<()>(0);
            stolen(|| cancel.cancel(), || assert!(receiver.recv_timeout(Duration::from_secs(1000)).is_err()));
        });
    });
}

#[test]
fn a_half_that_leaves_its_goroutine_bound_leaves_a_helper() {
    with_procs(|| {
        for _ in 0..3 {
            stolen(|| (), gort::runtime::lock_os_thread);
            assert_eq!(fib(10), 55);
        }
    });
}

#[test]
fn a_bubble_decides_the_order() {
    let order = |seed| {
        gort::testing::Bubble::new().seed(seed).run(|| {
            let order = gort::sync::Mutex::new(Vec::new());
            let part = |name: char| {
                for round in 0..3 {
                    gort::sleep(Duration::from_secs(1));
                    order.lock().push((name, round));
                }
            };
            join(|| part('a'), || join(|| part('b'), || part('c')));
            order.into_inner()
        })
    };
    let _procs = Procs::set(2);
    assert_eq!(order(7), order(7));
    assert_eq!(order(7).len(), 9);
}

#[test]
fn preemption_at_any_instruction_does_no_harm() {
    let _procs = Procs::set(4);
    // Endless loops, so that every slice ends by a signal.
    let hogs = Hogs::start(4);
    gort::run(|| {
        let workers: Vec<_> = (0..4).map(|_| gort::spawn(|| fib(amount(20, 27) as u64))).collect();
        for worker in workers {
            assert_eq!(worker.join().unwrap(), if common::full() { 196_418 } else { 6765 });
        }
    });
    drop(hogs);
}

#[test]
fn idle_helpers_are_not_counted() {
    with_procs(|| {
        let before = gort::runtime::num_goroutines();
        stolen(|| (), || ());
        until("the helpers are idle", || gort::runtime::num_goroutines() <= before);
    });
}
