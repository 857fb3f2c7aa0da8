//! Children of fork, vfork and clone: they have no goroutines, and do nothing to those of the parent.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::common::{TempDir, alone, amount, join_all, until};

/// Waits for a child, which must end by itself with status 0.
fn assert_ends(child: i32) {
    assert!(child > 0);
    let mut status = 0;
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
}

unsafe extern "C" {
    fn vfork() -> i32;
}

#[test]
fn a_forked_child_makes_all_calls_itself() {
    if !alone("children::a_forked_child_makes_all_calls_itself") {
        return;
    }
    let _watchdog = super::enable();
    let directory = TempDir::new();
    let path = std::ffi::CString::new(directory.path().join("file").to_str().unwrap()).unwrap();
    let parent = unsafe { libc::getpid() };
    gort::run(move || {
        let stop = Arc::new(AtomicBool::new(false));
        // Goroutines that are ready to run, and must not do so in the child.
        let others = (0..4).map(|_| {
            let stop = Arc::clone(&stop);
            gort::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if unsafe { libc::getpid() } != parent {
                        unsafe { libc::_exit(77) };
                    }
                    gort::yield_now();
                }
            })
        });
        let others: Vec<_> = others.collect();
        for _ in 0..20 {
            // SAFETY: the child makes system calls only, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                unsafe {
                    (0..100).for_each(|_| _ = libc::sched_yield());
                    let file = libc::open(path.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600);
                    let written = libc::write(file, c"text".as_ptr().cast(), 4);
                    libc::fsync(file);
                    libc::close(file);
                    libc::usleep(100);
                    libc::_exit(i32::from(written != 4));
                }
            }
            assert_ends(child);
        }
        stop.store(true, Ordering::Relaxed);
        join_all(others);
    });
}

/// The child closes, and gives away, numbers that goroutines of the parent wait for.
fn child_closes(make_child: impl Fn() -> i32 + Send + 'static) {
    gort::run(move || {
        let (one, mut two) = UnixStream::pair().unwrap();
        let fd = one.into_raw_fd();
        let waiting = gort::runtime::stats().goroutines.waiting;
        let reader = gort::spawn(move || {
            let mut byte = 0u8;
            (unsafe { libc::read(fd, (&raw mut byte).cast(), 1) }, byte)
        });
        until("it waits", || gort::runtime::stats().goroutines.waiting > waiting);
        let other = two.as_raw_fd();
        let child = make_child();
        if child == 0 {
            unsafe {
                libc::dup2(other, fd);
                libc::close(fd);
                libc::_exit(0);
            }
        }
        assert_ends(child);
        assert!(!reader.is_finished());
        two.write_all(b"z").unwrap();
        assert_eq!(reader.join().unwrap(), (1, b'z'));
        unsafe { libc::close(fd) };
    });
}

#[test]
fn a_child_by_clone_leaves_the_parents_waits_alone() {
    if !alone("children::a_child_by_clone_leaves_the_parents_waits_alone") {
        return;
    }
    let _watchdog = super::enable();
    // As `_Fork`: no handlers run.
    child_closes(|| unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 });
}

#[test]
fn a_child_by_vfork_leaves_the_parents_waits_alone() {
    if !alone("children::a_child_by_vfork_leaves_the_parents_waits_alone") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, mut two) = UnixStream::pair().unwrap();
        let (fd, other) = (one.into_raw_fd(), two.as_raw_fd());
        let waiting = gort::runtime::stats().goroutines.waiting;
        let reader = gort::spawn(move || {
            let mut byte = 0u8;
            (unsafe { libc::read(fd, (&raw mut byte).cast(), 1) }, byte)
        });
        until("it waits", || gort::runtime::stats().goroutines.waiting > waiting);
        // SAFETY: the child makes system calls only, and ends; the frame that called vfork does not end in
        // it.
        let child = unsafe {
            let child = vfork();
            if child == 0 {
                libc::dup2(other, fd);
                libc::close(fd);
                libc::_exit(0);
            }
            child
        };
        assert_ends(child);
        assert!(!reader.is_finished());
        two.write_all(b"z").unwrap();
        assert_eq!(reader.join().unwrap(), (1, b'z'));
        unsafe { libc::close(fd) };
        // The hooks work again.
        std::thread::sleep(std::time::Duration::from_millis(1));
    });
}

/// Makes a child by vfork that lives for this time (µs), and waits for it. `lives` counts such children.
fn vfork_and_wait(micros: u32, lives: &AtomicUsize) {
    // SAFETY: the child makes system calls only, and ends.
    let child = unsafe {
        let child = vfork();
        if child == 0 {
            lives.fetch_add(1, Ordering::SeqCst);
            libc::usleep(micros);
            libc::_exit(0);
        }
        child
    };
    assert_ends(child);
}

#[test]
fn a_thread_wakes_goroutines_while_another_has_a_child_by_vfork() {
    if !alone("children::a_thread_wakes_goroutines_while_another_has_a_child_by_vfork") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        static LIVES: AtomicUsize = AtomicUsize::new(0);
        let mutex = Arc::new(Mutex::new(()));
        let locked = mutex.lock().unwrap();
        let waiting = gort::runtime::stats().goroutines.waiting;
        let other = Arc::clone(&mutex);
        let waits = gort::spawn(move || drop(other.lock().unwrap()));
        until("it waits", || gort::runtime::stats().goroutines.waiting > waiting);
        let parent = thread::spawn(|| vfork_and_wait(200_000, &LIVES));
        until("the child lives", || LIVES.load(Ordering::SeqCst) == 1);
        drop(locked);
        until("it was woken", || waits.is_finished());
        parent.join().unwrap();
    });
}

#[test]
fn locks_and_sockets_work_beside_children_by_vfork() {
    if !alone("children::locks_and_sockets_work_beside_children_by_vfork") {
        return;
    }
    let _watchdog = super::enable();
    let rounds = amount(300, 10_000);
    gort::run(move || {
        static LIVES: AtomicUsize = AtomicUsize::new(0);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let forks = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                vfork_and_wait(100, &LIVES);
            }
        });
        let counter = Arc::new(Mutex::new(0));
        let add = {
            let counter = Arc::clone(&counter);
            move || {
                for _ in 0..rounds {
                    *counter.lock().unwrap() += 1;
                    thread::yield_now();
                }
            }
        };
        let exchange = move || {
            for round in 0..rounds {
                let (mut one, mut two) = UnixStream::pair().unwrap();
                let echo = gort::spawn(move || {
                    let mut byte = [0];
                    two.read_exact(&mut byte).unwrap();
                    two.write_all(&byte).unwrap();
                });
                one.write_all(&[round as u8]).unwrap();
                let mut byte = [0];
                one.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [round as u8]);
                echo.join().unwrap();
            }
        };
        let goroutines: Vec<_> = (0..3).map(|_| gort::spawn(add.clone())).collect();
        let foreign: Vec<_> = (0..2).map(|_| thread::spawn(add.clone())).collect();
        join_all((0..3).map(|_| gort::spawn(exchange)).collect::<Vec<_>>());
        join_all(goroutines);
        foreign.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*counter.lock().unwrap(), 5 * rounds);
        stop.store(true, Ordering::Relaxed);
        forks.join().unwrap();
    });
}
