//! No goroutine starves behind hogs, nor behind blocking calls, marked or unmarked.

#[path = "../common/mod.rs"]
mod common;

use std::io::{Read, Write, pipe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use common::{Hogs, Procs, join_all, set_soft_limit, spin_until, until};

fn with_procs<T: Send>(n: usize, f: impl FnOnce() -> T + Send) -> T {
    let _procs = Procs::set(n);
    gort::run(f)
}

#[test]
fn an_endless_loop_does_not_keep_others_from_running() {
    with_procs(1, || {
        let _hogs = Hogs::start(3);
        for _ in 0..20 {
            gort::spawn(|| ()).join().unwrap();
        }
    });
}

#[test]
fn a_sleeper_wakes_up_despite_hogs() {
    with_procs(2, || {
        let _hogs = Hogs::start(8);
        for _ in 0..50 {
            gort::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn an_unmarked_read_of_a_pipe_holds_nobody_up() {
    with_procs(1, || {
        let (mut reader, mut writer) = pipe().unwrap();
        let blocked = gort::spawn(move || {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            byte[0]
        });
        // With one P this goroutine runs again only if the blocked one loses its P.
        for _ in 0..100 {
            gort::yield_now();
        }
        writer.write_all(&[7]).unwrap();
        assert_eq!(blocked.join().unwrap(), 7);
    });
}

#[test]
fn many_unmarked_blocking_calls_overlap() {
    const ALL: usize = 100;
    with_procs(2, || {
        // A barrier of std blocks the threads, and opens only when all goroutines are inside at once.
        let barrier = Arc::new(Barrier::new(ALL));
        let leaders = Arc::new(AtomicUsize::new(0));
        join_all(
            (0..ALL)
                .map(|_| {
                    let (barrier, leaders) = (barrier.clone(), leaders.clone());
                    gort::spawn(move || {
                        leaders.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::Relaxed)
                    })
                })
                .collect::<Vec<_>>(),
        );
        assert_eq!(leaders.load(Ordering::Relaxed), 1);
    });
}

/// A goroutine that wants the lock blocks its thread. The holder needs a P to go on, and the scheduler must
/// not run all the others first.
#[test]
fn the_holder_of_a_lock_does_not_wait_behind_those_that_want_it() {
    const ALL: usize = 2_000;
    with_procs(1, || {
        let lock = Arc::new(Mutex::new(0));
        let (held, want) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let holder = gort::spawn({
            let (lock, held, want) = (lock.clone(), held.clone(), want.clone());
            move || {
                let mut count = lock.lock().unwrap();
                held.store(true, Ordering::Relaxed);
                let before = gort::blocking(|| {
                    spin_until("some want the lock", || want.load(Ordering::Relaxed) > 10);
                    want.load(Ordering::Relaxed)
                });
                *count += 1;
                want.load(Ordering::Relaxed) - before
            }
        });
        until("the lock is held", || held.load(Ordering::Relaxed));
        let others: Vec<_> = (0..ALL)
            .map(|_| {
                let (lock, want) = (lock.clone(), want.clone());
                gort::spawn(move || {
                    want.fetch_add(1, Ordering::Relaxed);
                    *lock.lock().unwrap() += 1;
                })
            })
            .collect();
        let came_before = holder.join().unwrap();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(*lock.lock().unwrap(), ALL + 1);
        assert!(
            came_before < ALL / 4,
            "{came_before} goroutines ran before the holder, and wait for its lock"
        );
    });
}

#[test]
fn marked_blocking_gives_the_processor_away() {
    with_procs(1, || {
        let (mut reader, mut writer) = pipe().unwrap();
        let blocked = gort::spawn(move || {
            gort::blocking(|| {
                let mut byte = [0];
                reader.read_exact(&mut byte).unwrap();
                byte[0]
            })
        });
        for _ in 0..100 {
            gort::yield_now();
        }
        writer.write_all(&[9]).unwrap();
        assert_eq!(blocked.join().unwrap(), 9);
        assert_eq!(gort::blocking(|| gort::blocking(|| 3)), 3);
        let panicked = gort::spawn(|| gort::blocking(|| panic!("inside"))).join();
        assert!(panicked.is_err());
    });
}

#[test]
fn the_runtime_can_be_used_inside_a_blocking_call() {
    with_procs(1, || {
        let sum: usize = gort::blocking(|| (0..100).map(|n| gort::spawn(move || n).join().unwrap()).sum());
        assert_eq!(sum, 4950);
    });
}

/// Two goroutines that wake each other quickly have no use for a second P. When one of them computes for long
/// after the wake-up, the other must run on the second P.
#[test]
fn a_goroutine_runs_although_its_waker_computes_for_long() {
    with_procs(2, || {
        let (ask, asked) = gort::chan::bounded::<u32>(0);
        let (answer, answered) = gort::chan::bounded(0);
        let seen = Arc::new(AtomicUsize::new(0));
        let seen_by_other = seen.clone();
        let other = gort::spawn(move || {
            for n in asked {
                seen_by_other.store(n as usize, Ordering::Relaxed);
                answer.send(n).unwrap();
            }
        });
        let preempted = || gort::runtime::stats().preempted;
        // A preemption of the waker also lets the other goroutine run, but later. A round without one is the
        // proof.
        let mut round = 0;
        until("the other goroutine ran without a preemption of its waker", || {
            for _ in 0..10_000 {
                ask.send(0).unwrap();
                answered.recv().unwrap();
            }
            round += 1;
            let before = preempted();
            ask.send(round).unwrap();
            spin_until("the other goroutine runs", || seen.load(Ordering::Relaxed) == round as usize);
            let ran_elsewhere = preempted() == before;
            answered.recv().unwrap();
            ran_elsewhere
        });
        drop(ask);
        other.join().unwrap();
    });
}

/// The runtime asks through /proc whether a thread computes or sleeps, which takes a descriptor. Without an
/// answer it interrupts the thread, or takes it for one that blocks.
#[test]
fn a_loop_starves_nobody_when_there_are_no_descriptors() {
    if !common::alone("a_loop_starves_nobody_when_there_are_no_descriptors") {
        return;
    }
    gort::runtime::set_max_procs(1);
    gort::run(|| ());
    set_soft_limit(libc::RLIMIT_NOFILE, 32);
    let _all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    static RUNS: AtomicBool = AtomicBool::new(false);
    gort::spawn(|| {
        loop {
            RUNS.store(true, Ordering::Relaxed);
        }
    });
    until("the loop runs", || RUNS.load(Ordering::Relaxed));
    for _ in 0..3 {
        gort::spawn(|| ()).join().unwrap();
    }
}
