//! Only goroutines in user code are parked; everything else gets libc's functions.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use super::common::alone;

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
