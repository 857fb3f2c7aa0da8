//! Files, child processes, names: calls that hold their thread, but not their P.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::net::ToSocketAddrs;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::common::{Procs, TempDir, alone, amount, join_all, threads, until};

#[test]
fn files_are_read_written_and_synced() {
    let _watchdog = super::enable();
    let dir = TempDir::new();
    let path = dir.path().join("file");
    gort::run(move || {
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"some text").unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "some text");
        assert_eq!(fs::read(&path).unwrap(), b"some text");
        fs::copy(&path, path.with_extension("copy")).unwrap();
        assert_eq!(fs::read(path.with_extension("copy")).unwrap(), b"some text");
        assert_eq!(File::open(path.join("missing")).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
    });
}

#[test]
fn a_lock_of_a_file_and_a_fifo_hold_no_p() {
    let _watchdog = super::enable();
    let _procs = Procs::set(1);
    let dir = TempDir::new();
    let path = dir.path().join("file");
    let fifo = dir.path().join("fifo");
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    gort::run(move || {
        let first = File::create(&path).unwrap();
        assert_eq!(unsafe { libc::flock(first.as_raw_fd(), libc::LOCK_EX) }, 0);
        let second = File::open(&path).unwrap();
        let locks = gort::spawn(move || unsafe { libc::flock(second.as_raw_fd(), libc::LOCK_EX) });
        let own = fifo.clone();
        let opens = gort::spawn(move || {
            let mut text = String::new();
            File::open(own).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        // With one P, this goes on only if neither holds it.
        until("both block", || gort::runtime::stats().goroutines.syscall >= 2);
        drop(first);
        assert_eq!(locks.join().unwrap(), 0);
        OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"through a fifo").unwrap();
        assert_eq!(opens.join().unwrap(), "through a fifo");
    });
}

#[test]
fn children_are_waited_for_without_threads() {
    if !alone("files::children_are_waited_for_without_threads") {
        return;
    }
    let _watchdog = super::enable();
    let before = threads().len();
    gort::run(move || {
        let count = amount(30, 300);
        let mut waits = Vec::new();
        for n in 0..count {
            let command = format!("read line; exit {}", n % 100);
            let mut child = Command::new("sh").args(["-c", &command]).stdin(Stdio::piped()).spawn().unwrap();
            let (stdin, pid) = (child.stdin.take().unwrap(), child.id() as i32);
            let wait = gort::spawn(move || {
                let mut status = 0;
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                libc::WEXITSTATUS(status)
            });
            waits.push((stdin, wait));
        }
        until("all wait", || gort::runtime::stats().goroutines.waiting >= count);
        super::until_few_threads(before);
        for (n, (stdin, wait)) in waits.into_iter().enumerate() {
            drop(stdin);
            assert_eq!(wait.join().unwrap(), n as i32 % 100);
        }
        assert_eq!(unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) }, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ECHILD));
        let output = Command::new("sh").args(["-c", "cat; exit 3"]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
    });
}

#[test]
fn names_are_resolved_and_threads_joined() {
    let _watchdog = super::enable();
    let _procs = Procs::set(1);
    gort::run(|| {
        // Not where libc finds no names, as in the roots of `.ci/newer-glibc`.
        if fs::exists("/etc/hosts").unwrap() {
            assert!(("localhost", 80).to_socket_addrs().unwrap().all(|address| address.ip().is_loopback()));
        }
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receiver.recv());
        let joins = gort::spawn(move || thread.join().unwrap());
        gort::sleep(Duration::from_millis(1));
        sender.send(()).unwrap();
        joins.join().unwrap().unwrap();
        join_all((0..10).map(|_| gort::spawn(|| fs::metadata("/").unwrap())).collect::<Vec<_>>());
    });
}
