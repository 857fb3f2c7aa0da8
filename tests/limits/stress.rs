//! All kinds of work at once, with few and with many Ps, and checksums over all of it.

#[path = "../common/mod.rs"]
mod common;

use std::cell::{Cell, RefCell, UnsafeCell};
use std::mem::zeroed;
use std::panic::{panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Procs, amount, full, until};

const PROCS: [usize; 5] = [1, 2, 3, 8, 64];

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
    static TRAIL: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The next number of the calling goroutine's own sequence. The state is in a thread-local, so the number is
/// right only if the thread-local is the goroutine's own.
fn next() -> u64 {
    let mut x = SEED.get();
    assert_ne!(x, 0, "the seed of this goroutine is gone");
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    SEED.set(x);
    x
}

/// The same number, computed without thread-locals.
fn after(seed: u64, steps: usize) -> u64 {
    (0..steps).fold(seed, |mut x, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    })
}

/// A tree of goroutines: each spawns `width` children, yields, and joins them. Returns the number of leaves.
fn tree(depth: usize, width: usize, path: u64) -> usize {
    if depth == 0 {
        return 1;
    }
    let handles: Vec<_> = (0..width)
        .map(|n| {
            let path = path * width as u64 + n as u64 + 1;
            gort::spawn(move || {
                SEED.set(path);
                let leaves = tree(depth - 1, width, path);
                assert_eq!(next(), after(path, 1));
                leaves
            })
        })
        .collect();
    gort::yield_now();
    handles.into_iter().rev().map(|handle| handle.join().unwrap()).sum()
}

#[test]
fn trees_of_goroutines_add_up() {
    for procs in PROCS {
        let _procs = Procs::set(procs);
        for _ in 0..amount(2, 20) {
            assert_eq!(gort::run(|| tree(6, 4, 0)), 4096);
            assert_eq!(tree(3, 10, 0), 1000);
        }
    }
}

/// Holds a mutex of C that knows its owner, twice, while it waits.
fn c_lock_across_a_wait() {
    struct Mutex(UnsafeCell<libc::pthread_mutex_t>);
    // SAFETY: only libc uses what is inside, and it synchronises.
    unsafe impl Sync for Mutex {}
    static LOCK: Mutex = Mutex(UnsafeCell::new(libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP));
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: an initialised mutex.
    unsafe {
        assert_eq!(libc::pthread_mutex_lock(LOCK.0.get()), 0);
        assert_eq!(libc::pthread_mutex_lock(LOCK.0.get()), 0);
        assert_eq!(INSIDE.fetch_add(1, Ordering::Relaxed), 0, "two goroutines hold the mutex");
        gort::yield_now();
        INSIDE.fetch_sub(1, Ordering::Relaxed);
        assert_eq!(libc::pthread_mutex_unlock(LOCK.0.get()), 0);
        assert_eq!(libc::pthread_mutex_unlock(LOCK.0.get()), 0);
    }
}

/// Needs some 700 kB of stack, more than a packed one has.
fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 128]);
    if depth == 0 { 0 } else { deeper(depth - 1) + frame[127] - depth + 1 }
}

/// Blocks a signal while it waits. The mask must be its own.
fn mask_across_a_wait() {
    // SAFETY: all sets are valid.
    unsafe {
        let (mut set, mut before, mut now) = (zeroed(), zeroed(), zeroed());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, &raw mut before);
        assert_eq!(libc::sigismember(&before, libc::SIGUSR2), 0, "the mask of another goroutine");
        gort::yield_now();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, &raw mut now);
        assert_eq!(libc::sigismember(&now, libc::SIGUSR2), 1, "the mask is gone");
    }
}

/// Computes for longer than a slice lasts while others wait, without a call.
fn compute(n: u64) {
    let sum = |n: u64| (0..300_000u64).fold(n, |sum, i| (sum ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    assert_eq!(sum(std::hint::black_box(n)), sum(std::hint::black_box(n)));
}

fn load_and_call_a_library() {
    // SAFETY: libm has this function.
    unsafe {
        let library = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        let square_root = libc::dlsym(library, c"sqrt".as_ptr());
        let square_root = std::mem::transmute::<*mut libc::c_void, extern "C" fn(f64) -> f64>(square_root);
        gort::yield_now();
        assert_eq!(square_root(std::hint::black_box(81.0)), 9.0);
        assert_eq!(libc::dlclose(library), 0);
    }
}

/// One of the kinds of work in the mixed load. Returns what it adds to the checksum.
fn something(what: u64, n: u64) -> u64 {
    match what % 15 {
        0 => gort::yield_now(),
        1 => return gort::spawn(move || n).join().unwrap(),
        2 => {
            let failed = gort::spawn(move || {
                TRAIL.with_borrow_mut(|trail| trail.push(n));
                resume_unwind(Box::new(n));
            });
            return *failed.join().map(|()| 0u64).unwrap_err().downcast::<u64>().unwrap();
        }
        3 => {
            let parts = [n / 3, n / 3, n - 2 * (n / 3)];
            return gort::scope(|s| {
                let [a, b, c] = parts.each_ref().map(|part| {
                    s.spawn(move || {
                        gort::yield_now();
                        *part
                    })
                });
                c.join().unwrap() + b.join().unwrap() + a.join().unwrap()
            });
        }
        4 => {
            // The result comes by way of a thread.
            let handle = gort::spawn(move || n);
            return std::thread::spawn(move || gort::run(|| handle.join().unwrap())).join().unwrap();
        }
        5 => {
            let _bound = gort::runtime::os_thread_guard();
            gort::yield_now();
            return gort::spawn(move || n).join().unwrap();
        }
        6 => gort::sleep(Duration::from_nanos(n % 100_000)),
        7 => {
            // Deep enough for more than one page of stack.
            fn deep(depth: u64) -> u64 {
                let frame = std::hint::black_box([depth; 64]);
                if depth == 0 { 0 } else { deep(depth - 1) + frame[63] - depth + 1 }
            }
            assert_eq!(deep(100), 100);
        }
        8 => {
            let text: String = (0..n % 50).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
            gort::yield_now();
            assert_eq!(text.len() as u64, n % 50);
        }
        9 => c_lock_across_a_wait(),
        10 => assert_eq!(deeper(700), 700),
        11 => mask_across_a_wait(),
        12 => compute(n),
        13 => load_and_call_a_library(),
        _ => {
            // A detached goroutine has to add its result itself.
            let sum = Arc::new(AtomicU64::new(0));
            let adds = sum.clone();
            drop(gort::spawn(move || adds.fetch_add(n, Ordering::Release)));
            until("the detached one has added", || sum.load(Ordering::Acquire) == n);
            return sum.load(Ordering::Relaxed);
        }
    }
    n
}

#[test]
fn a_mixed_load_adds_up() {
    let goroutines = amount(60, 300) as u64;
    let rounds = amount(100, 300);
    // A full run goes on for half an hour.
    let end = Instant::now() + if full() { Duration::from_secs(1800) } else { Duration::ZERO };
    for procs in PROCS.into_iter().cycle() {
        let _procs = Procs::set(procs);
        let total = Arc::new(AtomicU64::new(0));
        let handles: Vec<_> = (1..=goroutines)
            .map(|id| {
                let total = total.clone();
                gort::spawn(move || {
                    SEED.set(id);
                    let mut sum = 0;
                    for round in 0..rounds {
                        let n = next();
                        assert_eq!(n, after(id, round + 1), "the seed is not this goroutine's");
                        TRAIL.with_borrow_mut(|trail| trail.push(n));
                        sum += something(n >> 32, n % 1_000_000);
                    }
                    TRAIL.with_borrow(|trail| assert_eq!(trail.len(), rounds));
                    total.fetch_add(sum, Ordering::Relaxed);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        let expected: u64 = (1..=goroutines)
            .flat_map(|id| (0..rounds).map(move |round| after(id, round + 1) % 1_000_000))
            .sum();
        assert_eq!(total.load(Ordering::Relaxed), expected, "with {procs} Ps");
        if Some(&procs) == PROCS.last() && Instant::now() >= end {
            break;
        }
    }
}

#[test]
fn joins_from_everywhere_return_the_result() {
    for procs in PROCS {
        let _procs = Procs::set(procs);
        let n = amount(500, 20_000);
        let counted = Arc::new(AtomicUsize::new(0));
        let spawn_counted = |delay: usize| {
            let counted = counted.clone();
            gort::spawn(move || {
                for _ in 0..delay % 4 {
                    gort::yield_now();
                }
                counted.fetch_add(1, Ordering::Relaxed);
                delay
            })
        };
        // A thread spawns and a goroutine joins, and the other way round.
        let outside: Vec<_> = (0..n).map(spawn_counted).collect();
        let inside = gort::run(|| (0..n).map(spawn_counted).collect::<Vec<_>>());
        let check = |handles: Vec<gort::JoinHandle<usize>>| {
            for (i, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().unwrap(), i);
            }
        };
        std::thread::scope(|s| {
            s.spawn(|| gort::run(|| check(outside)));
            s.spawn(|| check(inside));
        });
        assert_eq!(counted.load(Ordering::Relaxed), 2 * n);
    }
}

#[test]
fn spawning_from_many_threads_while_goroutines_do_the_same() {
    for procs in PROCS {
        let _procs = Procs::set(procs);
        let ended = Arc::new(AtomicUsize::new(0));
        let n = amount(300, 10_000);
        let spawn_some = |ended: &Arc<AtomicUsize>| {
            for _ in 0..n {
                let ended = ended.clone();
                drop(gort::spawn(move || {
                    gort::yield_now();
                    ended.fetch_add(1, Ordering::Relaxed);
                }));
            }
        };
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| spawn_some(&ended));
                s.spawn(|| gort::run(|| spawn_some(&ended)));
            }
        });
        until("all have ended", || ended.load(Ordering::Relaxed) == 8 * n);
    }
}

#[test]
fn a_barrage_of_panics_and_results() {
    if !common::alone_quietly("a_barrage_of_panics_and_results") {
        return;
    }
    for procs in PROCS {
        let _procs = Procs::set(procs);
        let sum: u64 = gort::scope(|s| {
            let handles: Vec<_> = (0..amount(400, 20_000) as u64)
                .map(|n| {
                    s.spawn(move || {
                        if n % 2 == 0 {
                            gort::yield_now();
                        }
                        if n % 3 == 0 { panic_any(n) } else { n }
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap_or_else(|payload| *payload.downcast::<u64>().unwrap()))
                .sum()
        });
        let n = amount(400, 20_000) as u64;
        assert_eq!(sum, n * (n - 1) / 2);
    }
}

#[test]
fn max_procs_changes_while_the_load_is_mixed() {
    let _procs = Procs::set(4);
    let stop = Arc::new(AtomicBool::new(false));
    let handles: Vec<_> = (1..=20u64)
        .map(|id| {
            let stop = stop.clone();
            gort::spawn(move || {
                SEED.set(id);
                let mut steps = 0;
                while !stop.load(Ordering::Relaxed) || steps < 20 {
                    let n = next();
                    steps += 1;
                    assert_eq!(n, after(id, steps));
                    assert_eq!(something(n >> 32, n % 1_000_000), n % 1_000_000);
                }
            })
        })
        .collect();
    for n in 0..amount(100, 5_000) {
        gort::runtime::set_max_procs(PROCS[n % PROCS.len()]);
    }
    stop.store(true, Ordering::Relaxed);
    for handle in handles {
        handle.join().unwrap();
    }
}
