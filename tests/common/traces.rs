//! What tests of traces do, and how they look at the result: by Go's own tools.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gort::sync::Mutex;

use super::{go, join_all, run_ok};

const TICK: Duration = Duration::from_millis(1);

/// All events of a trace, as Go prints them. `None`: there is no Go here.
#[track_caller]
pub(crate) fn parsed(file: &Path) -> Option<String> {
    let mut command = go(&["tool", "trace", "-d=parsed"])?;
    command.arg(file);
    let printed = run_ok(command);
    assert!(printed.stderr.is_empty(), "{}", printed.stderr);
    Some(printed.stdout)
}

/// How many transitions of goroutines, `from->to`, have this reason.
pub(crate) fn transitions(parsed: &str, states: &str, reason: &str) -> usize {
    let (states, reason) = (format!(" {states} "), format!("Reason=\"{reason}\""));
    let is_one = |line: &&str| line.contains("GoID=") && line.contains(&states) && line.contains(&reason);
    parsed.lines().filter(is_one).count()
}

#[track_caller]
pub(crate) fn assert_has(parsed: &str, states: &str, reason: &str) {
    assert!(transitions(parsed, states, reason) > 0, "no {states} because of {reason:?}");
}

pub(crate) fn compute(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// Goroutines that send, receive, sleep, compute, and meet at a lock.
pub(crate) fn mixed_work(count: usize) {
    let (sender, receiver) = gort::chan::bounded::<usize>(3);
    let lock = Arc::new(Mutex::new(0));
    let mut all = Vec::new();
    for id in 0..count {
        let (sender, lock) = (sender.clone(), Arc::clone(&lock));
        all.push(gort::spawn(move || {
            for round in 0..20 {
                sender.send(id + round).unwrap();
                *lock.lock() += 1;
                compute(1000);
                if round % 7 == 0 {
                    gort::sleep(TICK);
                }
                gort::yield_now();
            }
        }));
    }
    drop(sender);
    all.push(gort::spawn(move || assert_eq!(receiver.iter().count(), count * 20)));
    join_all(all);
}

/// More events than the memory for them holds, on two Ps: 65 MiB of 16 bytes.
pub(crate) fn overflow_the_logs() {
    let switches = Arc::new(AtomicU64::new(0));
    let busy = (0..2).map(|_| {
        let counted = Arc::clone(&switches);
        gort::spawn(move || {
            while counted.fetch_add(1, Ordering::Relaxed) < 6_000_000 {
                gort::yield_now();
            }
        })
    });
    join_all(busy.collect::<Vec<_>>());
}

#[inline(never)]
pub(crate) fn waits_for_the_network() {
    let listener = gort::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = gort::spawn(move || {
        let mut stream = gort::net::TcpStream::connect(address).unwrap();
        for _ in 0..100 {
            gort::sleep(TICK);
            stream.write_all(b"x").unwrap();
        }
    });
    let (mut stream, _) = listener.accept().unwrap();
    while stream.read(&mut [0]).unwrap() > 0 {}
    client.join().unwrap();
}

#[inline(never)]
pub(crate) fn waits_for_a_channel() {
    let (sender, receiver) = gort::chan::bounded::<u32>(0);
    let slow = gort::spawn(move || {
        for number in 0..100 {
            gort::sleep(TICK);
            sender.send(number).unwrap();
        }
    });
    assert_eq!(receiver.iter().count(), 100);
    slow.join().unwrap();
}

#[inline(never)]
pub(crate) fn blocks_in_a_call() {
    for _ in 0..50 {
        gort::blocking(|| std::thread::sleep(TICK * 2));
    }
}
