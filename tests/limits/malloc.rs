//! malloc's caches belong to threads: goroutines that have allocated keep no memory for that.

#[path = "../common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Procs, amount, migrate, status_bytes, until};

/// Resident memory and page tables.
fn memory() -> usize {
    status_bytes("VmRSS") + status_bytes("VmPTE")
}

/// Uses and frees a map of 100 strings.
fn use_a_map(number: usize) {
    let map: HashMap<usize, String> = (0..100).map(|n| (n, format!("{number} and {n}"))).collect();
    assert_eq!(std::hint::black_box(&map).len(), 100);
}

/// Uses more stack than [`use_a_map`] does. Otherwise the difference between the two would also be that of
/// their stacks: a page, depending on the build and on the version of libc.
fn use_stack(_: usize) {
    std::hint::black_box(&mut [1u8; 3 * 4096]);
}

/// The memory (bytes) of each of `n` goroutines that ran `f` and wait, and what is left of it when they have
/// ended.
fn memory_of(n: usize, f: fn(usize)) -> (usize, usize) {
    let before = memory();
    let (open, gate) = gort::chan::bounded::<()>(0);
    let here = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..n)
        .map(|number| {
            let (gate, here) = (gate.clone(), here.clone());
            gort::spawn(move || {
                f(number);
                here.fetch_add(1, Ordering::Relaxed);
                assert!(gate.recv().is_err());
            })
        })
        .collect();
    until("all are there", || here.load(Ordering::Relaxed) == n);
    // SAFETY: no preconditions.
    unsafe { libc::malloc_trim(0) };
    let parked = memory().saturating_sub(before) / n;
    drop(open);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    // SAFETY: as above.
    unsafe { libc::malloc_trim(0) };
    (parked, memory().saturating_sub(before))
}

#[test]
fn goroutines_that_have_allocated_cost_no_more_than_others() {
    if !common::alone("goroutines_that_have_allocated_cost_no_more_than_others") {
        return;
    }
    let _procs = Procs::set(4);
    let n = amount(10_000, 10_000);
    // The stacks, which are used again.
    memory_of(n, use_stack);
    let (idle, _) = memory_of(n, use_stack);
    let (used, left) = memory_of(n, use_a_map);
    println!(
        "{n} goroutines: {idle} bytes each; with a map that was freed: {used}; \
         left when all have ended: {left}"
    );
    assert!(used <= idle + 1_000, "{used} bytes each, {idle} without the map");
    assert!(left <= 8 << 20, "{left} bytes are left");
}

#[test]
fn requests_that_cannot_be_met_are_refused_in_every_goroutine() {
    const NAME: &str = "requests_that_cannot_be_met_are_refused_in_every_goroutine";
    // Few arenas: several threads share the first one, and when that fails another one is asked.
    if !common::alone_with(NAME, &[("MALLOC_ARENA_MAX", "2")]) {
        return;
    }
    let _procs = Procs::set(4);
    let handles: Vec<_> = (0..200)
        .map(|number| {
            gort::spawn(move || {
                let mut large: Vec<u8> = Vec::new();
                assert!(large.try_reserve(1 << 46).is_err());
                if number % 2 == 0 {
                    migrate();
                }
                assert!(large.try_reserve(1 << 46).is_err());
                use_a_map(number);
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

#[test]
fn memory_is_freed_by_goroutines_on_other_threads() {
    let _procs = Procs::set(4);
    let (sender, receiver) = gort::chan::bounded::<Vec<String>>(16);
    let senders: Vec<_> = (0..20)
        .map(|number| {
            let sender = sender.clone();
            gort::spawn(move || {
                for round in 0..amount(50, 2_000) {
                    let mut values = vec![format!("{number}, {round}"); 1 + round % 40];
                    if round % 8 == 0 {
                        migrate();
                    }
                    values.push("x".repeat(round % 3_000));
                    sender.send(values).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let receivers: Vec<_> = (0..20)
        .map(|_| {
            let receiver = receiver.clone();
            gort::spawn(move || {
                let mut length = 0;
                for values in receiver {
                    length += values.len();
                    if length.is_multiple_of(64) {
                        // Threads come and go: their caches with them.
                        std::thread::sleep(std::time::Duration::from_micros(300));
                    }
                    drop(values);
                }
                length
            })
        })
        .collect();
    drop(receiver);
    senders.into_iter().for_each(|handle| handle.join().unwrap());
    assert!(receivers.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>() > 10_000);
}

#[test]
fn allocation_survives_preemption_and_the_end_of_threads() {
    let _procs = Procs::set(4);
    let handles: Vec<_> = (0..16usize)
        .map(|number| {
            gort::spawn(move || {
                if number % 4 == 0 {
                    // The thread ends with the goroutine, and so does its cache.
                    gort::runtime::lock_os_thread();
                }
                let mut kept: Vec<Vec<u8>> = Vec::new();
                let mut sum = 0;
                for _ in 0..amount(500, 20_000) {
                    for size in [16, 40, 100, 1_000, 5_000, 200_000] {
                        kept.push(vec![number as u8; size]);
                        if kept.len() > 50 {
                            let old = kept.swap_remove(number % kept.len());
                            assert!(old.iter().all(|&byte| byte == number as u8));
                            sum += old.len();
                        }
                    }
                }
                sum
            })
        })
        .collect();
    assert!(handles.into_iter().all(|handle| handle.join().unwrap() > 0));
}
