//! What an M knows about the unmarked blocking call of its goroutine: since when it lasts, and where to write
//! down its end.
//!
//! sysmon begins it when it takes the P away; the goroutine ends it at its next call into the runtime. If a
//! report has looked at the call meanwhile (`diag/blocking_calls.rs`), it has left a [`Record`] here, in
//! which the end is noted.
//!
//! - U1. The report stores its record and then looks whether the call still lasts; the goroutine ends the
//!   call and then looks for a record. Both are SeqCst, so one of them sees the other.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::sys::clock::nanotime;

/// The end of a call that a report has looked at (ns); 0 while the call lasts. Records are statics.
pub(crate) struct Record(pub(crate) AtomicU64);

pub(crate) struct UnmarkedCall {
    /// When sysmon found the call (ns); 0: there is none.
    since: AtomicU64,
    record: AtomicPtr<Record>,
    /// How many there were on this M, and how long they took (ns).
    count: AtomicU64,
    nanos: AtomicU64,
}

impl UnmarkedCall {
    pub(crate) const fn new() -> UnmarkedCall {
        UnmarkedCall {
            since: AtomicU64::new(0),
            record: AtomicPtr::new(ptr::null_mut()),
            count: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        }
    }

    /// Called by sysmon before it tries to take the P.
    pub(crate) fn begin(&self, now: u64) {
        self.since.store(now, Ordering::SeqCst);
    }

    /// Called by sysmon if the M has kept its P.
    pub(crate) fn forget(&self, began: u64) {
        let _ended_already = self.since.compare_exchange(began, 0, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Called on the M's thread when its goroutine has no P: if it was in a call, that has ended.
    pub(crate) fn end(&self) {
        let since = self.since.swap(0, Ordering::SeqCst); // U1
        if since == 0 {
            return;
        }
        let now = nanotime();
        // SAFETY: records are never freed.
        if let Some(record) = unsafe { self.record.swap(ptr::null_mut(), Ordering::SeqCst).as_ref() } {
            record.0.store(now, Ordering::Release);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(now.saturating_sub(since), Ordering::Relaxed);
    }

    /// When the call that lasts began; 0: there is none.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::SeqCst)
    }

    /// Has the end of the call that began at `since` noted in `record`.
    pub(crate) fn note_end_in(&self, record: &'static Record, since: u64) {
        let record = ptr::from_ref(record).cast_mut();
        self.record.store(record, Ordering::SeqCst); // U1
        if self.since() != since
            && self
                .record
                .compare_exchange(record, ptr::null_mut(), Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        {
            // SAFETY: it is the reference from above.
            unsafe { &*record }.0.store(nanotime(), Ordering::Release);
        }
    }

    /// How many calls have ended on this M, and how long they took (ns).
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.nanos.load(Ordering::Relaxed))
    }
}
