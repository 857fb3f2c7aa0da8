//! What waits for a descriptor stays with its open file, whatever happens to the number.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::thread;

use super::common::{alone, amount, join_all, until};

/// How many goroutines wait.
fn waiting() -> usize {
    gort::runtime::stats().goroutines.waiting
}

/// A goroutine that reads one byte from `fd`, which it does not own.
fn reader(fd: i32) -> gort::JoinHandle<(isize, u8)> {
    let before = waiting();
    let reader = gort::spawn(move || {
        let mut byte = 0u8;
        (unsafe { libc::read(fd, (&raw mut byte).cast(), 1) }, byte)
    });
    until("it waits", || waiting() > before);
    reader
}

#[test]
fn a_wait_outlives_the_close_of_its_number_and_the_reuse() {
    if !alone("close::a_wait_outlives_the_close_of_its_number_and_the_reuse") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, two) = UnixStream::pair().unwrap();
        let fd = one.into_raw_fd();
        let (first, second) = (reader(fd), reader(fd));
        assert_eq!(unsafe { libc::close(fd) }, 0);
        // The number is of another open file now, and a third call waits for that.
        let (other, third) = UnixStream::pair().unwrap();
        assert_eq!(other.as_raw_fd(), fd, "the smallest free number");
        let waits = reader(fd);
        (&third).write_all(b"n").unwrap();
        assert_eq!(waits.join().unwrap(), (1, b'n'));
        // The two that waited before get what their open file gets.
        (&two).write_all(b"o").unwrap();
        until("one of them is done", || first.is_finished() || second.is_finished());
        (&two).write_all(b"o").unwrap();
        assert_eq!(first.join().unwrap(), (1, b'o'));
        assert_eq!(second.join().unwrap(), (1, b'o'));
        // When the last one is done, the open file is closed.
        let mut two = two;
        assert_eq!(two.read(&mut [0; 1]).unwrap(), 0);
        // A call on a number that is not open fails.
        drop(other);
        assert_eq!(unsafe { libc::read(fd, [0u8; 1].as_mut_ptr().cast(), 1) }, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    });
}

#[test]
fn a_thread_may_close_what_a_goroutine_waits_for() {
    if !alone("close::a_thread_may_close_what_a_goroutine_waits_for") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, two) = UnixStream::pair().unwrap();
        let fd = one.into_raw_fd();
        let waits = reader(fd);
        thread::spawn(move || unsafe { libc::close(fd) }).join().unwrap();
        drop(two);
        assert_eq!(waits.join().unwrap(), (0, 0));
    });
}

#[test]
fn dup2_and_dup3_over_a_number_leave_its_waiters_alone() {
    if !alone("close::dup2_and_dup3_over_a_number_leave_its_waiters_alone") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        for flags in [None, Some(libc::O_CLOEXEC)] {
            let ((one, two), (three, four)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
            let old = reader(one.as_raw_fd());
            let (from, to) = (three.as_raw_fd(), one.as_raw_fd());
            let copied = match flags {
                None => unsafe { libc::dup2(from, to) },
                Some(flags) => unsafe { libc::dup3(from, to, flags) },
            };
            assert_eq!(copied, to);
            let new = reader(to);
            (&four).write_all(b"n").unwrap();
            assert_eq!(new.join().unwrap(), (1, b'n'));
            (&two).write_all(b"o").unwrap();
            assert_eq!(old.join().unwrap(), (1, b'o'));
        }
    });
}

/// The numbers that are open.
fn open_numbers() -> std::collections::BTreeSet<i32> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let all: Vec<i32> = all.map(|one| one.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    all.into_iter().filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0).collect()
}

#[test]
fn a_wait_outlives_the_close_of_all_numbers() {
    if !alone("close::a_wait_outlives_the_close_of_all_numbers") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, two) = UnixStream::pair().unwrap();
        let fd = one.into_raw_fd();
        let (first, second) = (reader(fd), reader(fd));
        let before = open_numbers();
        assert_eq!(unsafe { libc::close(fd) }, 0);
        // The duplicate that the waits go on with, and then its own duplicate.
        let mut known = before;
        for _ in 0..2 {
            let new = *open_numbers().difference(&known).next().expect("a duplicate");
            known.insert(new);
            unsafe extern "C" {
                fn close_range(first: u32, last: u32, flags: i32) -> i32;
            }
            assert_eq!(unsafe { close_range(new as u32, new as u32, 0) }, 0);
            known.remove(&fd);
            known.remove(&new);
        }
        (&two).write_all(b"x").unwrap();
        until("one of them is done", || first.is_finished() || second.is_finished());
        (&two).write_all(b"y").unwrap();
        let bytes = [first.join().unwrap(), second.join().unwrap()].map(|(n, byte)| (n, byte));
        assert!(bytes == [(1, b'x'), (1, b'y')] || bytes == [(1, b'y'), (1, b'x')], "{bytes:?}");
        let mut two = two;
        assert_eq!(two.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn shutdown_ends_waits() {
    if !alone("close::shutdown_ends_waits") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        let waits = reader(one.as_raw_fd());
        one.shutdown(Shutdown::Both).unwrap();
        assert_eq!(waits.join().unwrap().0, 0);
        // A listener, too: the kernel ends accept with EINVAL.
        let fd = listener.as_raw_fd();
        let before = waiting();
        let accepts = gort::spawn(move || {
            let none = std::ptr::null_mut();
            (unsafe { libc::accept(fd, none, none.cast()) }, std::io::Error::last_os_error().raw_os_error())
        });
        until("it waits", || waiting() > before);
        unsafe { libc::shutdown(fd, libc::SHUT_RD) };
        assert_eq!(accepts.join().unwrap(), (-1, Some(libc::EINVAL)));
    });
}

#[test]
fn numbers_that_are_closed_behind_our_back_are_watched_anew() {
    if !alone("close::numbers_that_are_closed_behind_our_back_are_watched_anew") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        for _ in 0..10 {
            let (one, two) = UnixStream::pair().unwrap();
            let fd = one.into_raw_fd();
            let waits = reader(fd);
            (&two).write_all(b"x").unwrap();
            assert_eq!(waits.join().unwrap(), (1, b'x'));
            // An inline system call, as rustix makes it.
            let result: isize;
            unsafe {
                std::arch::asm!("syscall", inlateout("rax") libc::SYS_close as isize => result,
                    in("rdi") fd, out("rcx") _, out("r11") _);
            }
            assert_eq!(result, 0);
        }
    });
}

#[test]
fn descriptors_are_closed_and_reused_while_others_wait() {
    if !alone("close::descriptors_are_closed_and_reused_while_others_wait") {
        return;
    }
    let _watchdog = super::enable();
    let rounds = amount(200, 20_000);
    gort::run(move || {
        // Each goroutine opens, uses and closes sockets of its own; the numbers go round among all.
        let all = (0..16).map(|n: u8| {
            gort::spawn(move || {
                for _ in 0..rounds {
                    let (one, mut two) = UnixStream::pair().unwrap();
                    let fd = one.into_raw_fd();
                    let reads = gort::spawn(move || {
                        let mut byte = 0u8;
                        let got = unsafe { libc::read(fd, (&raw mut byte).cast(), 1) };
                        (got, byte)
                    });
                    gort::yield_now();
                    two.write_all(&[n]).unwrap();
                    assert_eq!(reads.join().unwrap(), (1, n));
                    drop(unsafe { UnixStream::from_raw_fd(fd) });
                    assert_eq!(two.read(&mut [0; 1]).unwrap(), 0);
                }
            })
        });
        join_all(all.collect::<Vec<_>>());
    });
}
