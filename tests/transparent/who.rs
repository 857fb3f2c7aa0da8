//! Only goroutines in user code are parked; everything else gets libc's functions.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::common::{alone, amount, join_all, until};

#[test]
fn enabling_twice_is_fine() {
    let _watchdog = super::enable();
    gort::transparent::enable().unwrap();
    assert!(gort::transparent::is_enabled());
}

#[test]
fn a_foreign_thread_waits_as_ever() {
    let _watchdog = super::enable();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let begin = Instant::now();
    thread::sleep(Duration::from_millis(5));
    assert!(begin.elapsed() >= Duration::from_millis(5));
    let reading = thread::spawn(move || reader.read(&mut [0; 4]).unwrap());
    writer.write_all(b"four").unwrap();
    assert_eq!(reading.join().unwrap(), 4);
}

#[test]
fn a_forked_child_uses_libc() {
    if !alone("who::a_forked_child_uses_libc") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        // SAFETY: the child makes calls that are safe after a fork, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            use std::os::fd::AsRawFd;
            unsafe {
                libc::usleep(1000);
                libc::poll(std::ptr::null_mut(), 0, 1);
                let written = libc::write(writer.as_raw_fd(), c"child".as_ptr().cast(), 5);
                libc::close(writer.as_raw_fd());
                libc::_exit(if written == 5 { 7 } else { 1 });
            }
        }
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "child");
        let mut status = 0;
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7);
    });
}

static PIPE: AtomicI32 = AtomicI32::new(-1);
static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// Sleeps, and writes into a pipe that may be full.
extern "C" fn waits_in_the_handler(_: i32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
    unsafe {
        libc::nanosleep(&raw const time, std::ptr::null_mut());
        libc::write(PIPE.load(Ordering::Relaxed), c"h".as_ptr().cast(), 1);
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Installs a handler, with or without an alternate stack.
fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn handlers_may_block_on_either_stack() {
    if !alone("who::handlers_may_block_on_either_stack") {
        return;
    }
    let _watchdog = super::enable();
    let (mut reader, writer) = std::io::pipe().unwrap();
    use std::os::fd::IntoRawFd;
    PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
    let rounds = amount(100, 5_000);
    for flags in [0, libc::SA_ONSTACK] {
        handle(libc::SIGUSR1, waits_in_the_handler, flags);
        let handled = HANDLED.load(Ordering::Relaxed);
        gort::run(move || {
            let stop = Arc::new(AtomicBool::new(false));
            let others = (0..4).map(|_| {
                let stop = Arc::clone(&stop);
                gort::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_micros(50));
                    }
                })
            });
            let others: Vec<_> = others.collect();
            for _ in 0..rounds {
                // To the thread that runs this goroutine: the handler interrupts user code.
                unsafe { libc::raise(libc::SIGUSR1) };
            }
            stop.store(true, Ordering::Relaxed);
            join_all(others);
        });
        assert_eq!(HANDLED.load(Ordering::Relaxed), handled + rounds);
        let mut all = vec![0; rounds];
        reader.read_exact(&mut all).unwrap();
    }
}

static PARKED: OnceLock<Thread> = OnceLock::new();

extern "C" fn unparks(_: i32) {
    if let Some(thread) = PARKED.get() {
        thread.unpark();
    }
}

/// The handler wakes a futex, wherever it interrupts a thread: inside the table, inside the scheduler.
#[test]
fn handlers_may_wake_goroutines() {
    if !alone("who::handlers_may_wake_goroutines") {
        return;
    }
    let _watchdog = super::enable();
    handle(libc::SIGUSR1, unparks, 0);
    let rounds = amount(2_000, 100_000);
    gort::run(move || {
        let woken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&woken);
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let parked = gort::spawn(move || {
            PARKED.set(thread::current()).unwrap();
            while !ends.load(Ordering::Relaxed) {
                thread::park();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("it parks", || PARKED.get().is_some());
        // Others keep the scheduler and the table busy, on goroutines and threads.
        let mutex = Arc::new(Mutex::new(0));
        let work = {
            let (mutex, stop) = (Arc::clone(&mutex), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    *mutex.lock().unwrap() += 1;
                    thread::yield_now();
                }
            }
        };
        let goroutines: Vec<_> = (0..4).map(|_| gort::spawn(work.clone())).collect();
        let foreign: Vec<_> = (0..2).map(|_| thread::spawn(work.clone())).collect();
        let pid = std::process::id() as i32;
        for _ in 0..rounds {
            let before = woken.load(Ordering::Relaxed);
            unsafe { libc::kill(pid, libc::SIGUSR1) };
            until("the handler woke it", || woken.load(Ordering::Relaxed) > before);
        }
        stop.store(true, Ordering::Relaxed);
        unsafe { libc::kill(pid, libc::SIGUSR1) };
        parked.join().unwrap();
        join_all(goroutines);
        foreign.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn bound_goroutines_and_marked_calls_wait_too() {
    let _watchdog = super::enable();
    gort::run(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let bound = gort::spawn(move || {
            gort::runtime::lock_os_thread();
            thread::sleep(Duration::from_millis(1));
            receiver.recv().unwrap()
        });
        let marked = gort::spawn(|| {
            gort::blocking(|| {
                thread::sleep(Duration::from_millis(1));
                let (sender, receiver) = std::sync::mpsc::channel();
                let other = gort::spawn(move || sender.send(2).unwrap());
                let got = receiver.recv().unwrap();
                other.join().unwrap();
                got
            })
        });
        sender.send(1).unwrap();
        assert_eq!(bound.join().unwrap() + marked.join().unwrap(), 3);
    });
}
