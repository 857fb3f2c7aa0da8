//! std's locks, channels and parking.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{alone, amount, join_all, until};

#[test]
fn locks_work_between_goroutines_and_threads() {
    let _watchdog = super::enable();
    let rounds = amount(2_000, 200_000);
    let mutex = Arc::new(Mutex::new(0usize));
    let lock = Arc::new(RwLock::new(0usize));
    let add = {
        let (mutex, lock) = (Arc::clone(&mutex), Arc::clone(&lock));
        move || {
            for _ in 0..rounds {
                *mutex.lock().unwrap() += 1;
                *lock.write().unwrap() += 1;
                assert!(*lock.read().unwrap() > 0);
            }
        }
    };
    let others: Vec<_> = (0..4).map(|_| thread::spawn(add.clone())).collect();
    gort::run(|| join_all((0..8).map(|_| gort::spawn(add.clone())).collect::<Vec<_>>()));
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(*mutex.lock().unwrap(), 12 * rounds);
    assert_eq!(*lock.read().unwrap(), 12 * rounds);
}

#[test]
fn messages_pass_between_goroutines_and_threads() {
    let _watchdog = super::enable();
    let rounds = amount(2_000, 200_000);
    let (to_thread, from_goroutine) = mpsc::sync_channel(0);
    let (to_goroutine, from_thread) = mpsc::channel();
    let echo =
        thread::spawn(move || from_goroutine.iter().for_each(|n: usize| to_goroutine.send(n).unwrap()));
    gort::run(move || {
        for n in 0..rounds {
            to_thread.send(n).unwrap();
            assert_eq!(from_thread.recv().unwrap(), n);
        }
    });
    echo.join().unwrap();
}

#[test]
fn waits_with_a_timeout_end() {
    let _watchdog = super::enable();
    gort::run(|| {
        let (lock, condition) = (Mutex::new(()), Condvar::new());
        let begin = Instant::now();
        let time = Duration::from_millis(20);
        let (_guard, result) = condition.wait_timeout(lock.lock().unwrap(), time).unwrap();
        assert!(result.timed_out() && begin.elapsed() >= time);
        let (_sender, receiver) = mpsc::channel::<()>();
        assert_eq!(receiver.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout));
        let begin = Instant::now();
        thread::park_timeout(time);
        assert!(begin.elapsed() >= time);
    });
}

#[test]
fn park_and_unpark_meet() {
    if !alone("futexes::park_and_unpark_meet") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (sender, receiver) = mpsc::channel();
        let parked = gort::spawn(move || {
            sender.send(thread::current()).unwrap();
            thread::park();
        });
        let thread = receiver.recv().unwrap();
        until("they wait", || gort::runtime::stats().goroutines.waiting >= 1);
        thread.unpark();
        parked.join().unwrap();
    });
}

#[test]
fn barriers_and_once_cells_work() {
    let _watchdog = super::enable();
    gort::run(|| {
        let barrier = Arc::new(Barrier::new(10));
        static CELL: OnceLock<usize> = OnceLock::new();
        let all = (0..10).map(|n| {
            let barrier = Arc::clone(&barrier);
            gort::spawn(move || {
                barrier.wait();
                let value = *CELL.get_or_init(|| {
                    thread::sleep(Duration::from_millis(5));
                    n
                });
                barrier.wait();
                value
            })
        });
        let values: Vec<_> = all.collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap()).collect();
        assert!(values.iter().all(|&value| value == values[0]));
    });
}

/// Calls the system call as std does.
fn futex(word: &std::sync::atomic::AtomicU32, operation: i32, value: u32, bitset: u32) -> i64 {
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            bitset,
        )
    }
}

#[test]
fn wake_ups_come_in_the_order_of_arrival_and_by_bitset() {
    if !alone("futexes::wake_ups_come_in_the_order_of_arrival_and_by_bitset") {
        return;
    }
    let _watchdog = super::enable();
    static WORD: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(7);
    gort::run(|| {
        let order = Arc::new(Mutex::new(VecDeque::new()));
        let mut goroutines = Vec::new();
        let mut foreign = Vec::new();
        for n in 0..6usize {
            let order = Arc::clone(&order);
            let tid = Arc::new(AtomicUsize::new(0));
            let own = Arc::clone(&tid);
            let wait = move || {
                own.store(super::common::tid() as usize, Ordering::SeqCst);
                assert_eq!(futex(&WORD, libc::FUTEX_WAIT_BITSET, 7, 1 << (n % 2)), 0);
                order.lock().unwrap().push_back(n);
            };
            let before = gort::runtime::stats().goroutines.waiting;
            if n < 3 {
                goroutines.push(gort::spawn(wait));
                until("they wait", || gort::runtime::stats().goroutines.waiting > before);
            } else {
                foreign.push(thread::spawn(wait));
                until("the thread waits", || {
                    let path = format!("/proc/self/task/{}/syscall", tid.load(Ordering::SeqCst));
                    std::fs::read_to_string(path).is_ok_and(|call| call.starts_with("202 "))
                });
            }
        }
        // Those of bit 0 are 0, 2 and 4; those of bit 1 are 1, 3 and 5.
        for expected in [0, 2, 4, 1, 3, 5] {
            assert_eq!(futex(&WORD, libc::FUTEX_WAKE_BITSET, 1, 1 << (expected % 2)), 1);
            until("one is woken", || !order.lock().unwrap().is_empty());
            assert_eq!(order.lock().unwrap().pop_front(), Some(expected));
        }
        assert_eq!(futex(&WORD, libc::FUTEX_WAKE, 1, 0), 0);
        assert_eq!(futex(&WORD, libc::FUTEX_WAIT, 8, 0), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
        join_all(goroutines);
        foreign.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A call of futex on a private word.
fn private_futex(word: &AtomicU32, operation: i32, value: u32, time: Option<&libc::timespec>) -> (i64, i32) {
    let time = time.map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let none = std::ptr::null::<u32>();
    let returned =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time, none, u32::MAX) };
    let error = std::io::Error::last_os_error().raw_os_error().unwrap();
    (returned, if returned < 0 { error } else { 0 })
}

/// What a clock shows, and this time later.
fn clock(id: libc::clockid_t, later: Duration) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(unsafe { libc::clock_gettime(id, &raw mut time) }, 0);
    let nanos = time.tv_nsec + i64::from(later.subsec_nanos());
    time.tv_sec += later.as_secs() as i64 + nanos / 1_000_000_000;
    time.tv_nsec = nanos % 1_000_000_000;
    time
}

#[test]
fn timeouts_are_relative_or_moments_of_either_clock() {
    let _watchdog = super::enable();
    gort::run(|| {
        let word = AtomicU32::new(7);
        let wait = Duration::from_millis(30);
        let relative = libc::timespec { tv_sec: 0, tv_nsec: 30_000_000 };
        let real = libc::FUTEX_CLOCK_REALTIME;
        let begin = Instant::now();
        assert_eq!(private_futex(&word, libc::FUTEX_WAIT, 7, Some(&relative)), (-1, libc::ETIMEDOUT));
        assert!(begin.elapsed() >= wait);
        for (flag, id) in [(0, libc::CLOCK_MONOTONIC), (real, libc::CLOCK_REALTIME)] {
            let (begin, moment) = (Instant::now(), clock(id, wait));
            let result = private_futex(&word, libc::FUTEX_WAIT_BITSET | flag, 7, Some(&moment));
            assert_eq!(result, (-1, libc::ETIMEDOUT));
            assert!(begin.elapsed() >= wait - Duration::from_millis(1));
        }
        // A moment that is past, another value, and a time that is none.
        let past = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        let bitset = libc::FUTEX_WAIT_BITSET;
        assert_eq!(private_futex(&word, bitset, 7, Some(&past)), (-1, libc::ETIMEDOUT));
        assert_eq!(private_futex(&word, bitset, 8, Some(&past)), (-1, libc::EAGAIN));
        let bad = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        assert_eq!(private_futex(&word, libc::FUTEX_WAIT, 7, Some(&bad)), (-1, libc::EINVAL));
        // The clock may be set until a moment that is far away: the wait ends for no reason after a second.
        let (begin, far) = (Instant::now(), clock(libc::CLOCK_REALTIME, Duration::from_secs(3600)));
        assert_eq!(private_futex(&word, bitset | real, 7, Some(&far)), (0, 0));
        assert!(begin.elapsed() >= Duration::from_millis(900));
    });
}

/// A goroutine that waits for a word which is 0, by the function `syscall`.
fn waits_for(word: &'static AtomicU32) -> gort::JoinHandle<(i64, i32)> {
    let waiting = || gort::runtime::stats().goroutines.waiting;
    let before = waiting();
    let waits = gort::spawn(move || private_futex(word, libc::FUTEX_WAIT, 0, None));
    until("it waits", || waiting() > before);
    waits
}

#[test]
fn wake_op_and_the_newer_calls_wake_goroutines() {
    if !alone("futexes::wake_op_and_the_newer_calls_wake_goroutines") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        static ONE: AtomicU32 = AtomicU32::new(0);
        static TWO: AtomicU32 = AtomicU32::new(0);
        let (one, two) = (waits_for(&ONE), waits_for(&TWO));
        // TWO = 5; wakes 1 at ONE and, because TWO was 0, 1 at TWO.
        let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
        let change = libc::FUTEX_OP(libc::FUTEX_OP_SET, 5, libc::FUTEX_OP_CMP_EQ, 0);
        let (first, second) = (ONE.as_ptr(), TWO.as_ptr());
        let woken =
            unsafe { libc::syscall(libc::SYS_futex, first, operation, 1usize, 1usize, second, change) };
        assert_eq!((woken, TWO.load(Ordering::Relaxed)), (2, 5));
        assert_eq!((one.join().unwrap(), two.join().unwrap()), ((0, 0), (0, 0)));
        // futex_wake of Linux 6.7: FUTEX2_SIZE_U32 | FUTEX2_PRIVATE.
        let waits = waits_for(&ONE);
        let woken = unsafe { libc::syscall(454, first, u32::MAX as usize, 1usize, 0x82usize) };
        if woken < 0 {
            private_futex(&ONE, libc::FUTEX_WAKE, 1, None);
        }
        assert_eq!(waits.join().unwrap(), (0, 0));
    });
}

#[test]
fn futexes_of_processes_and_those_with_inheritance_are_the_kernels() {
    if !alone("futexes::futexes_of_processes_and_those_with_inheritance_are_the_kernels") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        static SHARED: AtomicU32 = AtomicU32::new(0);
        let call = |operation: i32, value: usize| unsafe {
            libc::syscall(libc::SYS_futex, SHARED.as_ptr(), operation, value, 0usize, 0usize, 0usize)
        };
        let waits = gort::spawn(move || call(libc::FUTEX_WAIT, 0));
        // The kernel knows the waiter.
        until("it was woken", || call(libc::FUTEX_WAKE, 1) == 1);
        assert_eq!(waits.join().unwrap(), 0);
        let inherit = |operation: i32| call(operation | libc::FUTEX_PRIVATE_FLAG, 0);
        gort::blocking(|| {
            assert_eq!(inherit(libc::FUTEX_LOCK_PI), 0);
            assert_eq!(inherit(libc::FUTEX_UNLOCK_PI), 0);
        });
    });
}
