//! An idle runtime is idle: none of its threads wakes up when there is nothing to do, and threads that are no
//! longer needed end.
//!
//! These tests take some seconds. An idle thread waits for 5 s before it asks whether it is needed, and the
//! trimmer gives stacks back a second or two after the last goroutine ran.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::until;

/// The threads of the runtime: the name of each, and how often it was switched to.
fn runtime_threads() -> BTreeMap<u32, (String, u64)> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // The thread may have ended.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        let count = |name| field(name).unwrap().parse::<u64>().unwrap();
        let name = field("Name:").unwrap();
        if name.starts_with("gort-") {
            let id = entry.file_name().to_str().unwrap().parse().unwrap();
            let switches = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
            threads.insert(id, (name, switches));
        }
    }
    threads
}

fn ms() -> usize {
    runtime_threads().values().filter(|(name, _)| name.starts_with("gort-m")).count()
}

/// Waits until no thread of the runtime has woken up for three seconds.
fn becomes_idle() {
    let window = Duration::from_secs(1);
    let start = Instant::now();
    let mut before = runtime_threads();
    let mut quiet = 0;
    while quiet < 3 {
        std::thread::sleep(window);
        let now = runtime_threads();
        quiet = if now == before { quiet + 1 } else { 0 };
        assert!(start.elapsed() < Duration::from_secs(60), "still awake: {before:#?} became {now:#?}");
        before = now;
    }
}

#[test]
fn a_runtime_whose_goroutines_have_ended_sleeps() {
    if !common::alone("a_runtime_whose_goroutines_have_ended_sleeps") {
        return;
    }
    gort::runtime::set_max_procs(4);
    for _ in 0..1_000 {
        let handles: Vec<_> = (0..10).map(|n| gort::spawn(move || n)).collect();
        for handle in handles {
            handle.join().unwrap();
        }
    }
    becomes_idle();
    assert_eq!(gort::run(|| gort::spawn(|| 5).join().unwrap()), 5);
}

#[test]
fn a_runtime_whose_goroutines_wait_sleeps() {
    if !common::alone("a_runtime_whose_goroutines_wait_sleeps") {
        return;
    }
    gort::runtime::set_max_procs(4);
    let waiting = Arc::new(AtomicUsize::new(0));
    for n in 0..100 {
        let waiting = waiting.clone();
        gort::spawn(move || {
            let sleeper = gort::spawn(|| gort::sleep(Duration::from_secs(10_000)));
            let _bound = (n == 50).then(gort::runtime::os_thread_guard);
            waiting.fetch_add(1, Ordering::Relaxed);
            sleeper.join().unwrap();
        });
    }
    until("all wait", || waiting.load(Ordering::Relaxed) == 100);
    becomes_idle();
    assert_eq!(gort::run(|| gort::spawn(|| 5).join().unwrap()), 5);
    until("only those that wait are left", || gort::runtime::num_goroutines() == 200);
}

#[test]
fn a_runtime_with_listeners_and_a_far_timer_sleeps() {
    if !common::alone("a_runtime_with_listeners_and_a_far_timer_sleeps") {
        return;
    }
    gort::runtime::set_max_procs(2);
    let mut clients = Vec::new();
    for _ in 0..3 {
        let listener = gort::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        gort::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                gort::spawn(move || stream.read(&mut [0]));
            }
        });
        clients.push(std::net::TcpStream::connect(address).unwrap());
    }
    gort::spawn(|| gort::sleep(Duration::from_secs(10_000)));
    until("all connections are waited for", || gort::runtime::num_goroutines() == 7);
    becomes_idle();
    // And each byte wakes a goroutine.
    clients.iter_mut().for_each(|client| client.write_all(b"x").unwrap());
    until("all were read", || gort::runtime::num_goroutines() == 4);
}

#[test]
fn a_goroutine_that_blocks_its_thread_wakes_nobody_up() {
    if !common::alone("a_goroutine_that_blocks_its_thread_wakes_nobody_up") {
        return;
    }
    gort::runtime::set_max_procs(2);
    let blocked = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let blocked = blocked.clone();
        gort::spawn(move || {
            blocked.fetch_add(1, Ordering::Relaxed);
            loop {
                std::thread::park();
            }
        });
    }
    until("all block", || blocked.load(Ordering::Relaxed) == 4);
    becomes_idle();
    assert_eq!(gort::run(|| gort::spawn(|| 5).join().unwrap()), 5);
}

#[test]
fn threads_that_a_burst_of_blocking_calls_needed_end() {
    if !common::alone("threads_that_a_burst_of_blocking_calls_needed_end") {
        return;
    }
    gort::runtime::set_max_procs(2);
    let blocked = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(0);
    let receiver = Arc::new(std::sync::Mutex::new(receiver));
    let handles: Vec<_> = (0..40)
        .map(|_| {
            let (blocked, receiver) = (blocked.clone(), receiver.clone());
            gort::spawn(move || {
                blocked.fetch_add(1, Ordering::Relaxed);
                // One goroutine waits for the message, the others for the lock.
                assert!(receiver.lock().unwrap().recv().is_err());
            })
        })
        .collect();
    until("all block", || blocked.load(Ordering::Relaxed) == 40);
    assert!(ms() >= 40, "{}", ms());
    drop(sender);
    for handle in handles {
        handle.join().unwrap();
    }
    // GOMAXPROCS + 1 idle threads stay.
    until("the others have ended", || ms() <= 3);
    assert_eq!(gort::run(|| gort::spawn(|| 5).join().unwrap()), 5);
    becomes_idle();
    assert!((1..=3).contains(&ms()));
}

#[test]
fn a_runtime_that_awaits_signals_sleeps() {
    if !common::alone("a_runtime_that_awaits_signals_sleeps") {
        return;
    }
    let signals = gort::signal::notify(&[gort::signal::SIGUSR1]).unwrap();
    becomes_idle();
    // SAFETY: no preconditions.
    unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
    assert_eq!(signals.recv(), Ok(gort::signal::SIGUSR1));
}
