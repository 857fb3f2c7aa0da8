//! Signal handlers that block, close, write and wake, wherever they interrupt a thread: in user code, in the
//! scheduler, in the futex table.

use std::io::Read;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::common::{alone, amount, join_all, threads, tid, until};

static PIPE: AtomicI32 = AtomicI32::new(-1);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static PARKED: OnceLock<Thread> = OnceLock::new();

/// Installs a handler for SIGUSR1, with or without an alternate stack.
fn handle(handler: extern "C" fn(i32), flags: i32) {
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Signals every thread of the process but the caller's, again and again, until the drop.
struct Storm {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Storm {
    fn start() -> Storm {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let send = move || {
            let own = tid();
            while !stopped.load(Ordering::Relaxed) {
                for other in threads().into_iter().filter(|&other| other != own) {
                    // SAFETY: the thread may be gone, which the call reports.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), other, libc::SIGUSR1) };
                }
                thread::sleep(Duration::from_micros(100));
            }
        };
        Storm { stop, thread: Some(thread::spawn(send)) }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Keeps the scheduler and the table busy, on goroutines and threads, while `f` runs.
fn with_work(f: impl FnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    let mutex = Arc::new(Mutex::new(0));
    let work = {
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                *mutex.lock().unwrap() += 1;
                gort::spawn(thread::yield_now).join().unwrap();
                thread::sleep(Duration::from_micros(10));
            }
        }
    };
    let goroutines: Vec<_> = (0..4).map(|_| gort::spawn(work.clone())).collect();
    let foreign: Vec<_> = (0..2).map(|_| thread::spawn(work.clone())).collect();
    f();
    stop.store(true, Ordering::Relaxed);
    join_all(goroutines);
    foreign.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The masks of blocked signals of the threads of the process. gort's own threads block nearly all.
fn blocked() -> Vec<u64> {
    let status = |tid: i32| std::fs::read_to_string(format!("/proc/self/task/{tid}/status"));
    let statuses = threads().into_iter().filter_map(|tid| status(tid).ok());
    let mask = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    statuses.filter_map(mask).collect()
}

/// Runs `handler` some time, many times, on all threads and both kinds of stacks.
fn survives(test: &str, handler: extern "C" fn(i32)) {
    if !alone(test) {
        return;
    }
    let _watchdog = super::enable();
    let usr1 = 1u64 << (libc::SIGUSR1 - 1);
    for flags in [0, libc::SA_ONSTACK] {
        handle(handler, flags);
        let wanted = HANDLED.load(Ordering::Relaxed) + amount(2_000, 100_000);
        gort::run(move || {
            with_work(|| {
                let _storm = Storm::start();
                until("enough signals were handled", || HANDLED.load(Ordering::Relaxed) >= wanted);
            });
        });
        // No thread goes on with the mask of a handler, once the last handlers have returned.
        until("the signal is unblocked everywhere", || {
            blocked().into_iter().all(|mask| mask & usr1 == 0 || mask.count_ones() > 32)
        });
    }
}

/// Sleeps, and writes into a pipe that may be full.
extern "C" fn waits(_: i32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 10_000 };
    unsafe {
        libc::nanosleep(&raw const time, std::ptr::null_mut());
        libc::sched_yield();
        libc::write(PIPE.load(Ordering::Relaxed), c"h".as_ptr().cast(), 1);
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn handlers_may_block_on_either_stack() {
    if super::common::is_child("alone") {
        let (mut reader, writer) = std::io::pipe().unwrap();
        PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
        thread::spawn(move || while reader.read(&mut [0; 256]).is_ok_and(|length| length > 0) {});
    }
    survives("handlers::handlers_may_block_on_either_stack", waits);
}

/// Opens, writes and closes a file, and duplicates and closes descriptors.
extern "C" fn uses_files(_: i32) {
    unsafe {
        let file = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
        libc::write(file, c"text".as_ptr().cast(), 4);
        let copy = libc::dup(file);
        libc::dup2(copy, file);
        libc::close(copy);
        libc::close(file);
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn handlers_may_open_write_and_close() {
    survives("handlers::handlers_may_open_write_and_close", uses_files);
}

extern "C" fn unparks(_: i32) {
    if let Some(thread) = PARKED.get() {
        thread.unpark();
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn handlers_may_wake_goroutines() {
    if super::common::is_child("alone") {
        thread::spawn(|| {
            gort::run(|| {
                PARKED.set(thread::current()).unwrap();
                loop {
                    thread::park();
                }
            });
        });
    }
    survives("handlers::handlers_may_wake_goroutines", unparks);
}

/// A thread that blocks all signals, as those of libraries do, is in no handler.
#[test]
fn a_thread_that_blocks_signals_waits_wakes_and_closes_like_others() {
    if !alone("handlers::a_thread_that_blocks_signals_waits_wakes_and_closes_like_others") {
        return;
    }
    let _watchdog = super::enable();
    extern "C" fn nothing(_: i32) {}
    handle(nothing, 0);
    let waiting = || gort::runtime::stats().goroutines.waiting;
    gort::run(move || {
        static WORD: AtomicU32 = AtomicU32::new(0);
        let futex = |operation: i32, value: usize| unsafe {
            let operation = operation | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, WORD.as_ptr(), operation, value, 0usize, 0usize, 0usize)
        };
        let (one, mut two) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = one.into_raw_fd();
        let before = waiting();
        let reader = gort::spawn(move || {
            let mut byte = 0u8;
            (unsafe { libc::read(fd, (&raw mut byte).cast(), 1) }, byte)
        });
        until("it waits", || waiting() > before);
        let id = Arc::new(AtomicI32::new(0));
        let own = Arc::clone(&id);
        let blocks = thread::spawn(move || unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()), 0);
            own.store(tid(), Ordering::Relaxed);
            assert_eq!(futex(libc::FUTEX_WAIT, 0), 0);
            // Its closes are not those of a handler either.
            assert_eq!(libc::close(fd), 0);
        });
        // It sleeps in the kernel, on a Note.
        until("the thread waits", || {
            let path = format!("/proc/self/task/{}/syscall", id.load(Ordering::Relaxed));
            let call = std::fs::read_to_string(path).unwrap_or_default();
            call.starts_with(&format!("{} ", libc::SYS_futex))
        });
        let before = waiting();
        let second = gort::spawn(move || futex(libc::FUTEX_WAIT, 0));
        until("it waits", || waiting() > before);
        // The first that came is the first to be woken.
        assert_eq!(futex(libc::FUTEX_WAKE, 1), 1);
        blocks.join().unwrap();
        assert!(!second.is_finished());
        assert_eq!(futex(libc::FUTEX_WAKE, 1), 1);
        assert_eq!(second.join().unwrap(), 0);
        std::io::Write::write_all(&mut two, b"r").unwrap();
        assert_eq!(reader.join().unwrap(), (1, b'r'));
    });
}

/// Every wake-up of a handler arrives, also one that the housekeeper has to make.
#[test]
fn no_wake_up_of_a_handler_is_lost() {
    if !alone("handlers::no_wake_up_of_a_handler_is_lost") {
        return;
    }
    let _watchdog = super::enable();
    handle(unparks, 0);
    let rounds = amount(500, 20_000);
    gort::run(move || {
        let woken = Arc::new(AtomicUsize::new(0));
        let (counted, stop) = (Arc::clone(&woken), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&stop);
        let parked = gort::spawn(move || {
            PARKED.set(thread::current()).unwrap();
            while !ends.load(Ordering::Relaxed) {
                thread::park();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("it parks", || PARKED.get().is_some());
        with_work(|| {
            let mut all: Vec<_> = threads().into_iter().collect();
            all.sort_unstable();
            for round in 0..rounds {
                let before = woken.load(Ordering::Relaxed);
                let handled = HANDLED.load(Ordering::Relaxed);
                let begin = Instant::now();
                // A thread that is gone, or asleep with the signal blocked, does not count.
                let target = all[round % all.len()];
                let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), target, libc::SIGUSR1) };
                let taken = || HANDLED.load(Ordering::Relaxed) > handled;
                while sent == 0 && !taken() && begin.elapsed() < Duration::from_millis(20) {
                    gort::yield_now();
                }
                if taken() {
                    until("the handler woke it", || woken.load(Ordering::Relaxed) > before);
                }
            }
        });
        stop.store(true, Ordering::Relaxed);
        PARKED.get().unwrap().unpark();
        parked.join().unwrap();
    });
    assert!(HANDLED.load(Ordering::Relaxed) > 0);
}
