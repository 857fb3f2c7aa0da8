//! Switching the thread pointer together with the goroutine. It decides whose thread-locals the running code
//! sees (`tls/`).

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::g::G;
use super::m::M;
use crate::arch;
use crate::tls;

impl M {
    /// Called by the M's thread when it starts.
    pub(crate) fn adopt_thread(&self, tid: u32, current_slot: *const Cell<*const G>) {
        self.own_tp.set(arch::thread_pointer());
        self.tp.set(arch::thread_pointer());
        self.tid.store(tid, Ordering::Relaxed);
        static THREADS: AtomicU32 = AtomicU32::new(1);
        self.number.set(THREADS.fetch_add(1, Ordering::Relaxed));
        self.cpu_time.thread_begins();
        tls::malloc_cache::make();
        self.fiber.adopt_thread();
        self.current_slot.set(current_slot);
        // A signal may have been sent to this M's previous thread after that had ended.
        self.signalled.store(false, Ordering::Relaxed);
    }

    /// Puts the thread pointer where `g` needs it.
    #[inline]
    pub(crate) fn use_tls_of(&self, g: &'static G) {
        let block = g.tp.get();
        let tp = if block == 0 { self.own_tp.get() } else { block };
        if block == 0 {
            // SAFETY: the slot lies in this thread's own TLS, which lives as long as the thread.
            unsafe { (*self.current_slot.get()).set(g) };
        } else if g.m_number.get() != self.number.get() {
            g.m_number.set(self.number.get());
            // SAFETY: we own g, so nobody else runs on its block; `adopt_thread` made the cache.
            unsafe {
                tls::malloc_cache::share(self.own_tp.get(), block);
                tls::block::moved(block, self.tid());
            }
        }
        if tp != self.tp.get() {
            self.tp.set(tp);
            // SAFETY: our own thread pointer, or the block of a G that we own. g0 holds no TLS reference.
            unsafe { arch::set_thread_pointer(tp) };
        }
    }

    /// Puts the thread pointer back to the thread's own: before anything on g0 that may touch TLS.
    #[inline]
    pub(crate) fn use_own_tls(&self) {
        // A shared-TLS goroutine may have been here: on g0 there is no current goroutine.
        // SAFETY: as in `use_tls_of`.
        unsafe { (*self.current_slot.get()).set(ptr::null()) };
        if self.tp.get() != self.own_tp.get() {
            self.tp.set(self.own_tp.get());
            // SAFETY: this thread's own thread pointer.
            unsafe { arch::set_thread_pointer(self.own_tp.get()) };
        }
    }
}
