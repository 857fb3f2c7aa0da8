//! A global allocator with a lock of its own. A goroutine that a signal stops while it holds the lock has
//! no thread; whatever the runtime needs to run it again must not need the lock.

#[path = "../common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::{Procs, amount, join_all};

/// Serves one request at a time, and some of them slowly, so that holders are often interrupted. Those that
/// wait block their threads.
struct OneAtATime {
    taken: AtomicU32,
    slow: AtomicBool,
}

#[global_allocator]
static ALLOCATOR: OneAtATime = OneAtATime { taken: AtomicU32::new(0), slow: AtomicBool::new(false) };

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: the word lives; there is no timeout.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, 0usize) };
}

impl OneAtATime {
    fn one_at_a_time<T>(&self, f: impl FnOnce() -> T) -> T {
        while self.taken.swap(1, Ordering::Acquire) != 0 {
            futex(&self.taken, libc::FUTEX_WAIT, 1);
        }
        if self.slow.load(Ordering::Relaxed) {
            (0..100_000u32).for_each(|n| _ = std::hint::black_box(n));
        }
        let result = f();
        self.taken.store(0, Ordering::Release);
        futex(&self.taken, libc::FUTEX_WAKE, 1);
        result
    }
}

// SAFETY: passes all requests on.
unsafe impl GlobalAlloc for OneAtATime {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.one_at_a_time(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        self.one_at_a_time(|| unsafe { System.dealloc(pointer, layout) });
    }
}

#[test]
fn holders_of_an_allocators_lock_are_resumed_although_everybody_waits_for_it() {
    let _procs = Procs::set(2);
    let stop = Arc::new(AtomicBool::new(false));
    ALLOCATOR.slow.store(true, Ordering::Relaxed);
    // Each waits for the lock most of the time, and needs a thread for that.
    let rounds = amount(40, 400);
    let hog = |_| {
        let stop = stop.clone();
        gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
    };
    let hogs: Vec<_> = (0..4).map(hog).collect();
    let allocate = move || {
        for n in 0..rounds {
            assert_eq!(std::hint::black_box(vec![n; 10]).len(), 10);
        }
    };
    join_all((0..30).map(|_| gort::spawn(allocate)).collect::<Vec<_>>());
    ALLOCATOR.slow.store(false, Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    join_all(hogs);
}
