//! Nobody starves: hogs, blocking calls marked and unmarked.

#[path = "../common/mod.rs"]
mod common;

use common::spin_until;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// These tests set GOMAXPROCS: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_procs<T: Send>(n: usize, f: impl FnOnce() -> T + Send) -> T {
    let _alone = alone();
    let before = gort::runtime::set_max_procs(n);
    let result = gort::run(f);
    gort::runtime::set_max_procs(before);
    result
}

fn pipe() -> (std::fs::File, std::fs::File) {
    let mut fds = [0; 2];
    // SAFETY: the array has room for the two descriptors, which become ours.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (std::fs::File::from_raw_fd(fds[0]), std::fs::File::from_raw_fd(fds[1]))
    }
}

#[test]
fn an_endless_loop_does_not_keep_others_from_running() {
    with_procs(1, || {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
            })
            .collect();
        for _ in 0..20 {
            gort::spawn(|| ()).join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        for hog in hogs {
            hog.join().unwrap();
        }
    });
}

#[test]
fn a_sleeper_wakes_up_despite_hogs() {
    with_procs(2, || {
        let stop = Arc::new(AtomicBool::new(false));
        let hogs: Vec<_> = (0..8)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
            })
            .collect();
        for _ in 0..50 {
            gort::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        for hog in hogs {
            hog.join().unwrap();
        }
    });
}

#[test]
fn an_unmarked_read_of_a_pipe_holds_nobody_up() {
    with_procs(1, || {
        let (mut reader, mut writer) = pipe();
        let blocked = gort::spawn(move || {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            byte[0]
        });
        // This goroutine can only get here again because the blocked one lost its P.
        for _ in 0..100 {
            gort::yield_now();
        }
        writer.write_all(&[7]).unwrap();
        assert_eq!(blocked.join().unwrap(), 7);
    });
}

#[test]
fn many_unmarked_sleeps_overlap() {
    with_procs(2, || {
        let awake = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..100)
            .map(|_| {
                let awake = awake.clone();
                gort::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    awake.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(awake.load(Ordering::Relaxed), 100);
    });
}

/// Whoever wants the lock blocks its thread. The holder needs a processor to go on, and must not wait behind them all.
#[test]
fn the_holder_of_a_lock_does_not_wait_behind_those_who_want_it() {
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
        while !held.load(Ordering::Relaxed) {
            gort::yield_now();
        }
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
        assert!(came_before < ALL / 4, "{came_before} goroutines were run first, and wait for the lock");
    });
}

#[test]
fn marked_blocking_gives_the_processor_away() {
    with_procs(1, || {
        let (mut reader, mut writer) = pipe();
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

/// Two goroutines that wake each other quickly have no use for a second P. When one of them computes for long instead, the
/// other runs there.
#[test]
fn one_that_was_woken_before_a_long_computation_need_not_wait_for_its_end() {
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
        // Until it happened without a preemption, which also lets the other one run, if later.
        for n in 1.. {
            for _ in 0..10_000 {
                ask.send(0).unwrap();
                answered.recv().unwrap();
            }
            let before = preempted();
            ask.send(n).unwrap();
            while seen.load(Ordering::Relaxed) != n as usize {
                std::hint::spin_loop();
            }
            let others_ran = preempted() == before;
            answered.recv().unwrap();
            if others_ran {
                break;
            }
        }
        drop(ask);
        other.join().unwrap();
    });
}

/// Whether a thread computes or sleeps is asked through /proc, which takes a descriptor. (Without an answer it is interrupted, or
/// taken for one that blocks.)
#[test]
fn a_loop_starves_nobody_when_there_are_no_descriptors() {
    if !common::alone("a_loop_starves_nobody_when_there_are_no_descriptors") {
        return;
    }
    gort::runtime::set_max_procs(1);
    gort::run(|| ());
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes and reads one rlimit.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = 32;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    let _all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    static RUNS: AtomicBool = AtomicBool::new(false);
    gort::spawn(|| {
        loop {
            RUNS.store(true, Ordering::Relaxed);
        }
    });
    common::until("the loop runs", || RUNS.load(Ordering::Relaxed));
    for _ in 0..3 {
        gort::spawn(|| ()).join().unwrap();
    }
}
