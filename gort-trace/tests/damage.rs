//! Real traces, cut anywhere and changed anywhere: the reader gives a trace or an error. It never panics,
//! hangs or takes much more memory than the file has bytes. `GORT_FULL=1` tries ten times as many changes.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::writer::{File, at, ev::*, status::*};
use common::{GO, GORT, check, random, watchdog::Watchdog};
use gort_trace::Trace;

/// Memory that a file of one byte may take: tables that are not empty, messages.
const LEAST: usize = 256 << 10;
/// Memory that each byte of a file may take: a span has 56 bytes, and two bytes of a file can end one.
const PER_BYTE: usize = 128;

thread_local! {
    /// What this thread has allocated, and the most since it was last set.
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything on to the system's allocator; the counters are plain thread-locals without
// destructors, so they allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.get().wrapping_add(layout.size());
        NOW.set(now);
        MOST.set(MOST.get().max(now));
        // SAFETY: the caller's promises are those that `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.set(NOW.get().saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads a file that may be wrong, and checks what can be checked of any.
fn survive(file: &[u8]) -> bool {
    let before = NOW.get();
    MOST.set(before);
    let is_whole = match Trace::read(file) {
        Ok(trace) => {
            check(&trace);
            trace.damage.is_none()
        }
        Err(error) => {
            assert!(error.offset <= file.len(), "{error}");
            false
        }
    };
    let took = MOST.get() - before;
    assert!(took < LEAST + PER_BYTE * file.len(), "{took} bytes of memory for {} of the file", file.len());
    is_whole
}

fn amount(quick: usize) -> usize {
    if std::env::var_os("GORT_FULL").is_some() { quick * 10 } else { quick }
}

#[test]
fn every_prefix_is_a_trace_or_an_error() {
    let watchdog = Watchdog::start("every_prefix_is_a_trace_or_an_error");
    for file in [GORT, GO] {
        let mut whole = 0;
        for length in 0..=file.len() {
            watchdog.step(length);
            whole += usize::from(survive(&file[..length]));
        }
        // At the end of each of the two generations the file is in order.
        assert_eq!(whole, 2);
    }
}

#[test]
fn every_changed_byte_gives_a_trace_or_an_error() {
    let watchdog = Watchdog::start("every_changed_byte_gives_a_trace_or_an_error");
    let mut seed = 1;
    for file in [GORT, GO] {
        assert!(file == GO || file.len() < amount(4_500), "each byte of the short file is tried");
        let mut changed = file.to_vec();
        let mut noticed = 0;
        let tries = amount(4_500);
        for number in 0..tries {
            watchdog.step(number);
            // All bytes of a short file come, and those of a long one evenly.
            let place = number * file.len() / tries;
            let kept = changed[place];
            changed[place] = match random(&mut seed) % 4 {
                0 => kept ^ 1 << (random(&mut seed) % 8),
                1 => 0xff,
                2 => kept.wrapping_add(1),
                _ => random(&mut seed) as u8,
            };
            noticed += usize::from(!survive(&changed));
            changed[place] = kept;
        }
        // Most bytes are times, addresses and names, which may have any value.
        assert!(noticed > tries / 20, "{noticed} of {tries}");
    }
}

#[test]
fn many_changed_bytes_give_a_trace_or_an_error() {
    let watchdog = Watchdog::start("many_changed_bytes_give_a_trace_or_an_error");
    let mut seed = 2;
    for number in 0..amount(1_000) {
        watchdog.step(number);
        let mut file = if number % 2 == 0 { GORT.to_vec() } else { GO.to_vec() };
        for _ in 0..1 + random(&mut seed) % 8 {
            let place = random(&mut seed) as usize % file.len();
            match random(&mut seed) % 4 {
                0 => file[place] = random(&mut seed) as u8,
                1 => drop(file.remove(place)),
                2 => file.insert(place, random(&mut seed) as u8),
                _ => {
                    let end = (place + random(&mut seed) as usize % 64).min(file.len());
                    let piece = file[place..end].to_vec();
                    let to = random(&mut seed) as usize % file.len();
                    file.splice(to..to, piece);
                }
            }
        }
        survive(&file);
    }
}

/// A name of a thousand bytes in each of many stacks must not be there as text for each.
#[test]
fn long_names_in_many_stacks_take_little_memory() {
    const STACKS: u64 = 60_000;
    let mut file = File::new();
    file.events(1, 7, &[at(1, PROC_STATUS, &[0, P_RUNNING]), at(1, GO_STATUS, &[1, 7, G_RUNNING])]);
    file.strings(1, &[&"x".repeat(1000)]);
    let frames: Vec<[[u64; 3]; 1]> = (0..STACKS).map(|line| [[1, 1, line]]).collect();
    for (first, some) in (1..).step_by(4_000).zip(frames.chunks(4_000)) {
        let stacks: Vec<&[[u64; 3]]> = some.iter().map(|frame| &frame[..]).collect();
        file.stacks(1, first, &stacks);
    }
    file.end(1);
    assert!(survive(&file.0));
}
