//! Foreign threads: threads that gort did not start, and that wait for a goroutine, a channel or a lock of
//! gort's.
//!
//! Each has a record with its Note. When the thread ends the record goes to a pool, not back to the
//! allocator: a waker may still be about to use the Note's address for a futex wake. All records are in a
//! list that only grows, so that the deadlock detector (`diag/deadlock.rs`) can tell threads that only gort
//! can wake from threads that may wake up by themselves.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::base::note::Note;
use crate::sched::word::future_word::FutureWord;
use crate::sys::thread;

/// Aligned for the tags of `Waiter`; the Note comes first, so that its address is the record's.
#[repr(C, align(64))]
pub(crate) struct Foreign {
    pub(crate) note: Note,
    /// The word through which the futures that it polls wake it.
    pub(crate) future: FutureWord,
    /// The kernel's id of the thread, 0 in the pool.
    tid: AtomicU32,
    /// It waits without a deadline, or is about to.
    waiting: AtomicBool,
    older: Cell<Option<&'static Foreign>>,
}

// SAFETY: `older` is set before publication and never changes.
unsafe impl Sync for Foreign {}

static MADE: AtomicPtr<Foreign> = AtomicPtr::new(ptr::null_mut());
static POOL: Mutex<Vec<&'static Foreign>> = Mutex::new(Vec::new());

/// How many waits of foreign threads have begun so far.
static WAITS: AtomicU64 = AtomicU64::new(0);

fn make() -> &'static Foreign {
    let made: &'static Foreign = Box::leak(Box::new(Foreign {
        note: Note::new(),
        future: FutureWord::new(),
        tid: AtomicU32::new(0),
        waiting: AtomicBool::new(false),
        older: Cell::new(None),
    }));
    let mut newest = MADE.load(Ordering::Relaxed);
    loop {
        // SAFETY: records are leaked.
        made.older.set(unsafe { newest.as_ref() });
        // Release: readers of the list see a complete record.
        let pointer = ptr::from_ref(made).cast_mut();
        match MADE.compare_exchange_weak(newest, pointer, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return made,
            Err(now) => newest = now,
        }
    }
}

fn all() -> impl Iterator<Item = &'static Foreign> {
    // SAFETY: records are leaked. Acquire pairs with the release in `make`.
    let first: Option<&'static Foreign> = unsafe { MADE.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |record| record.older.get())
}

/// The record of the calling thread, which is not a goroutine.
pub(crate) fn own() -> &'static Foreign {
    struct Own(&'static Foreign);
    impl Drop for Own {
        fn drop(&mut self) {
            // Code that runs later on this thread must not use the record.
            KEPT.set(None);
            self.0.tid.store(0, Ordering::Relaxed);
            POOL.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
        }
    }
    fn get() -> &'static Foreign {
        let pooled = POOL.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let record = pooled.unwrap_or_else(make);
        record.tid.store(thread::tid(), Ordering::Relaxed);
        record
    }
    thread_local! {
        static KEPT: Cell<Option<&'static Foreign>> = const { Cell::new(None) };
        static OWN: Own = Own(get());
    }
    if let Some(record) = KEPT.get() {
        return record;
    }
    // In a thread-local destructor `OWN` may be gone already: then this thread keeps a record for good.
    let record = OWN.try_with(|own| own.0).unwrap_or_else(|_| get());
    KEPT.set(Some(record));
    record
}

/// Blocks the calling thread until its Note is set. Calls `when_counted` as soon as reports can see the wait.
pub(crate) fn wait(when_counted: impl FnOnce()) {
    let own = own();
    own.waiting.store(true, Ordering::Relaxed);
    WAITS.fetch_add(1, Ordering::SeqCst);
    when_counted();
    own.note.wait();
    own.waiting.store(false, Ordering::Relaxed);
}

/// How many waits have begun so far.
pub(crate) fn waits() -> u64 {
    WAITS.load(Ordering::SeqCst)
}

/// The ids of the threads that sleep until gort wakes them, and that nobody has woken yet.
pub(crate) fn sleepers() -> impl Iterator<Item = u32> {
    all()
        .filter(|record| record.waiting.load(Ordering::Relaxed) && record.note.is_awaited())
        .map(|record| record.tid.load(Ordering::Relaxed))
        .filter(|&tid| tid != 0)
}
