//! What the kernel keeps for each thread does not leak from one goroutine to another: signal masks,
//! scheduling policy, niceness, affinity; nor does the state of cancellation.

#[path = "../common/mod.rs"]
mod common;

use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Hogs, Procs, join_all, tid, until};

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
    fn pthread_setcanceltype(kind: i32, before: *mut i32) -> i32;
}

fn all_signals() -> libc::sigset_t {
    // SAFETY: fills the set.
    unsafe {
        let mut set = zeroed();
        libc::sigfillset(&raw mut set);
        set
    }
}

/// Blocks all signals that a program can block. Returns the mask before.
fn block_all() -> libc::sigset_t {
    // SAFETY: both sets are valid.
    unsafe {
        let mut before = zeroed();
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &all_signals(), &raw mut before), 0);
        before
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the set is valid.
    assert_eq!(unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, null_mut()) }, 0);
}

fn is_blocked(signal: i32) -> bool {
    // SAFETY: the set is written before it is read.
    unsafe {
        let mut now = zeroed();
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now), 0);
        libc::sigismember(&now, signal) == 1
    }
}

#[test]
fn a_mask_ends_with_its_goroutine() {
    let _procs = Procs::set(2);
    gort::run(|| {
        for _ in 0..50 {
            gort::spawn(|| {
                block_all();
                assert!(is_blocked(libc::SIGUSR1));
            })
            .join()
            .unwrap();
            gort::spawn(|| assert!(!is_blocked(libc::SIGUSR1))).join().unwrap();
        }
    });
}

#[test]
fn a_mask_stays_with_a_goroutine_that_waits() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let (go, wait) = gort::chan::bounded::<()>(0);
        let (ready, all_ready) = gort::chan::bounded::<()>(0);
        let masked: Vec<_> = (0..20)
            .map(|_| {
                let (wait, ready) = (wait.clone(), ready.clone());
                gort::spawn(move || {
                    let before = block_all();
                    ready.send(()).unwrap();
                    wait.recv().unwrap_err();
                    gort::sleep(Duration::from_millis(1));
                    assert!(is_blocked(libc::SIGUSR1));
                    set_mask(&before);
                    gort::yield_now();
                    assert!(!is_blocked(libc::SIGUSR1));
                })
            })
            .collect();
        (0..20).for_each(|_| all_ready.recv().unwrap());
        join_all((0..100).map(|_| gort::spawn(|| assert!(!is_blocked(libc::SIGUSR1)))));
        drop(go);
        join_all(masked);
    });
}

#[test]
fn with_its_old_mask_a_goroutine_is_free_to_move_again() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let thread = tid();
        let before = block_all();
        for _ in 0..100 {
            gort::yield_now();
            gort::sleep(Duration::from_micros(10));
            assert_eq!(tid(), thread, "a goroutine with a mask of its own stays on its thread");
        }
        set_mask(&before);
        common::migrate();
    });
}

#[test]
fn a_loop_with_all_signals_blocked_starves_nobody() {
    let _procs = Procs::set(1);
    let stop = Arc::new(AtomicBool::new(false));
    let until_stopped = stop.clone();
    let hog = gort::spawn(move || {
        block_all();
        while !until_stopped.load(Ordering::Relaxed) {}
    });
    for _ in 0..20 {
        gort::spawn(|| gort::sleep(Duration::from_millis(1))).join().unwrap();
    }
    // Others that run where it ran are interrupted, too.
    let hogs = Hogs::start(3);
    gort::spawn(|| gort::sleep(Duration::from_millis(1))).join().unwrap();
    drop(hogs);
    stop.store(true, Ordering::Relaxed);
    hog.join().unwrap();
}

#[test]
fn a_loop_that_blocks_signals_behind_libcs_back_starves_nobody() {
    let _procs = Procs::set(1);
    let stop = Arc::new(AtomicBool::new(false));
    let until_stopped = stop.clone();
    let hog = gort::spawn(move || {
        let all = !0u64;
        let how = libc::SIG_SETMASK;
        // SAFETY: the kernel reads 8 bytes.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const all, 0, 8) };
        while !until_stopped.load(Ordering::Relaxed) {}
        let none = 0u64;
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const none, 0, 8) };
    });
    until("others run", || gort::spawn(|| true).join().unwrap());
    gort::spawn(|| gort::sleep(Duration::from_millis(1))).join().unwrap();
    stop.store(true, Ordering::Relaxed);
    hog.join().unwrap();
}

/// The niceness of the calling thread.
fn niceness() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[test]
fn niceness_policy_and_affinity_end_with_their_goroutine() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let (nice, cpus) = (niceness(), cpus());
        // SAFETY: no memory is passed.
        let policy = unsafe { libc::sched_getscheduler(0) };
        for _ in 0..20 {
            // SAFETY: the parameters are valid.
            gort::spawn(move || unsafe {
                assert_eq!(libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as u32, 19), 0);
                let none: libc::sched_param = zeroed();
                assert_eq!(libc::sched_setscheduler(0, libc::SCHED_BATCH, &none), 0);
                let mut one: libc::cpu_set_t = zeroed();
                libc::CPU_SET((0..1024).find(|&cpu| libc::CPU_ISSET(cpu, &cpus)).unwrap(), &mut one);
                assert_eq!(libc::pthread_setaffinity_np(libc::pthread_self(), size_of_val(&one), &one), 0);
                gort::sleep(Duration::from_micros(100));
                assert_eq!((niceness(), libc::sched_getscheduler(0)), (19, libc::SCHED_BATCH));
            })
            .join()
            .unwrap();
            gort::spawn(move || {
                assert_eq!(niceness(), nice);
                // SAFETY: no memory is passed.
                assert_eq!(unsafe { libc::sched_getscheduler(0) }, policy);
                // SAFETY: compares two sets.
                let same = unsafe { libc::CPU_EQUAL(&self::cpus(), &cpus) };
                assert!(same, "the affinity of another goroutine");
            })
            .join()
            .unwrap();
        }
    });
}

fn cpus() -> libc::cpu_set_t {
    // SAFETY: the kernel fills the set.
    unsafe {
        let mut set = zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        set
    }
}

#[test]
fn the_state_of_cancellation_ends_with_its_goroutine() {
    let _procs = Procs::set(1);
    gort::run(|| {
        for _ in 0..20 {
            gort::spawn(|| {
                let mut before = [9, 9];
                // SAFETY: the old values are written; nobody cancels this thread.
                unsafe {
                    pthread_setcancelstate(1, &raw mut before[0]);
                    pthread_setcanceltype(1, &raw mut before[1]);
                }
                assert_eq!(before, [0, 0], "what a new thread has");
            })
            .join()
            .unwrap();
        }
    });
}
