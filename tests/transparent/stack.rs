//! What a hook needs of its caller's stack: goroutines may have small ones, and each page that a wait touches
//! is one of each goroutine that waits.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::ptr::null_mut;
use std::time::Duration;

use super::common::alone;

const PATTERN: u64 = 0x5ca1_ab1e_0ddb_a11d;
/// How far down is looked, in words.
const DEPTH: usize = 2048;

fn stack_pointer() -> *mut u64 {
    let pointer: usize;
    unsafe { std::arch::asm!("mov {}, rsp", out(reg) pointer) };
    std::ptr::with_exposed_provenance_mut(pointer)
}

/// Paints the stack below a pointer. The first words are those of this function's own frame.
#[inline(never)]
fn paint(top: *mut u64) {
    for at in 64..DEPTH {
        unsafe { top.sub(at).write_volatile(PATTERN) };
    }
}

#[inline(never)]
fn used(top: *mut u64) -> usize {
    let untouched = (64..DEPTH).rev().take_while(|&at| unsafe { top.sub(at).read_volatile() } == PATTERN);
    (DEPTH - untouched.count()) * 8
}

/// How many bytes below its caller's frame `f` needs, as far as that is more than 512.
#[inline(never)]
fn stack_of(f: &dyn Fn()) -> usize {
    let top = stack_pointer();
    paint(top);
    f();
    used(top)
}

#[test]
fn a_wait_needs_little_stack() {
    // The frames of a debug build are larger.
    if cfg!(debug_assertions) || !alone("stack::a_wait_needs_little_stack") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let two = listener.accept().unwrap().0;
        let fd = one.as_raw_fd();
        // Makes `fd` ready while the call waits.
        let with_data = |f: &dyn Fn()| {
            let number = two.as_raw_fd();
            let sends = gort::spawn(move || {
                gort::sleep(Duration::from_millis(5));
                let mut two = unsafe { TcpStream::from_raw_fd(number) };
                two.write_all(b"x").unwrap();
                _ = two.into_raw_fd();
            });
            let stack = stack_of(f);
            sends.join().unwrap();
            stack
        };
        let read = || assert_eq!(unsafe { libc::read(fd, [0u8; 8].as_mut_ptr().cast(), 8) }, 1);
        let poll = || {
            let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            assert_eq!(unsafe { libc::poll(&raw mut entry, 1, -1) }, 1);
        };
        let poll_two = || {
            let mut entries = [fd, -1].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            assert_eq!(unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) }, 1);
        };
        let select = || unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(fd, &raw mut set);
            assert_eq!(libc::select(fd + 1, &raw mut set, null_mut(), null_mut(), null_mut()), 1);
        };
        // The first wait for a number makes its poll words, and the first of 256 numbers their records.
        let high = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 1000) };
        assert!(high >= 1000);
        let first = with_data(&|| {
            assert_eq!(unsafe { libc::read(high, [0u8; 8].as_mut_ptr().cast(), 8) }, 1);
        });
        println!("the first read: {first} bytes");
        let mut most = 0;
        for (name, call) in [("read", &read as &dyn Fn()), ("poll", &poll), ("poll of two", &poll_two)] {
            let stack = with_data(call);
            println!("{name}: {stack} bytes");
            most = most.max(stack);
            if name != "read" {
                read();
            }
        }
        let selecting = with_data(&select);
        println!("select: {selecting} bytes");
        let mutex = std::sync::Arc::new(std::sync::Mutex::new(()));
        let held = std::sync::Arc::clone(&mutex);
        let holds = gort::spawn(move || {
            let _guard = held.lock().unwrap();
            gort::sleep(Duration::from_millis(10));
        });
        gort::yield_now();
        let lock = stack_of(&|| drop(mutex.lock().unwrap()));
        holds.join().unwrap();
        let sleep = stack_of(&|| std::thread::sleep(Duration::from_millis(1)));
        println!("a mutex: {lock} bytes, sleep: {sleep} bytes");
        assert!(most.max(lock).max(sleep) <= 1024, "{most} {lock} {sleep}");
        assert!(first.max(selecting) <= 1400, "{first} {selecting}");
    });
}
