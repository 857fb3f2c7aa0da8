//! [`Machine`] as the scheduler's [`Platform`]: the kernel's clock and threads, epoll, the CPU's cache.

use std::sync::atomic::Ordering;

use super::runtime_section;
use super::steal::REACH;
use crate::base::prefetch;
use crate::sched::idle::fork_helpers::Reach;
use crate::sched::idle::{due_timers, poll_wait, start_m, stop_m, wake_sysmon};
use crate::sched::machine::Machine;
use crate::sched::platform::Platform;
use crate::sched::schedt::Sched;
use crate::sched::types::current::current_in;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::types::waiter::Waiter;
use crate::stack::cache::Local;
use crate::sys::clock::nanotime;
use crate::sys::thread;
use crate::tls;

/// The most cache lines of a stack that are prefetched.
const DEEPEST: isize = 12;

impl Platform for Machine {
    #[inline]
    fn now(&self) -> u64 {
        nanotime()
    }

    fn cpu(&self) -> usize {
        thread::cpu()
    }

    fn busy_wait(&self, nanos: u64) {
        let start = nanotime();
        while nanotime() - start < nanos {
            std::hint::spin_loop();
        }
    }

    fn wake_m(&self, m: &'static M) {
        m.note.set();
    }

    fn start_spinning_m(&self) {
        start_m::start_spinning_m();
    }

    fn start_spare_m(&self) {
        start_m::start_spare_m();
    }

    fn in_burst(&self) -> bool {
        self.sysmon.in_burst.load(Ordering::Relaxed)
    }

    #[inline]
    fn all_ps_busy(&self) {
        wake_sysmon::look_soon();
    }

    #[inline]
    fn p_became_busy(&self) {
        wake_sysmon::wake_if_asleep();
    }

    /// Of `next`, whose first line was prefetched before: the rest of its G, the top of its stack, and of its
    /// thread-locals `CURRENT` and, if it last ran on another M, malloc's words. (Its other thread-locals are
    /// needed at its end, if at all, and would only displace useful lines.) Of `after`: the first line.
    #[inline(always)]
    fn prefetch(&self, m: &'static M, next: *const G, after: *const G) {
        let line = |offset: isize| prefetch::line((next as usize).wrapping_add_signed(offset));
        line(64);
        // SAFETY: Gs are never unmapped. If another M has taken it meanwhile, the prefetch is useless but
        // harmless.
        let (tp, context, last_m) = unsafe { ((*next).tp.get(), (*next).context.get(), (*next).peek_m()) };
        if tp != 0 {
            prefetch::line(current_in(tp));
            if !last_m.is_some_and(|last| std::ptr::eq(last, m)) {
                prefetch::line(tls::malloc_cache::address_in(tp));
            }
        }
        let depth = (next as isize - context as isize).clamp(64, 64 * DEEPEST);
        for number in 0..DEEPEST {
            let offset = depth - 64 * number;
            if offset < 0 {
                break;
            }
            line(-offset);
        }
        prefetch::line(after as usize);
    }

    fn is_near(&self, thief: usize, victim: usize, round: usize) -> bool {
        let topology = self.topology.get().and_then(Option::as_ref);
        topology.is_none_or(|topology| topology.distance(thief, victim) <= REACH[round])
    }

    fn is_uneven(&self) -> bool {
        self.topology.get().is_some_and(Option::is_some)
    }

    fn stop_m(_: &Sched<Machine>, m: &'static M) -> bool {
        stop_m::stop_m(m)
    }

    fn run_timers(_: &Sched<Machine>, own: &'static P, of: &'static P) {
        due_timers::run_due_of(own, of);
    }

    fn waits_for_time_or_io(_: &Sched<Machine>) -> bool {
        poll_wait::may_make_work()
    }

    fn poll_if_due(_: &Sched<Machine>, p: &'static P) -> bool {
        poll_wait::poll_if_due(p)
    }

    fn forks_wait(&self) -> bool {
        self.forks.forks_wait()
    }

    fn take_fork_helper(&self, all: bool) -> Option<&'static G> {
        self.forks.take(if all { Reach::All } else { Reach::OfWaiting })
    }

    fn poll_wait(_: &Sched<Machine>, m: &'static M) {
        poll_wait::wait(m);
    }

    fn ensure_poller(_: &Sched<Machine>) {
        poll_wait::ensure();
    }

    fn give_up_unused(&self, p: &'static P) {
        // SAFETY: the calling M owns the P.
        unsafe { p.with_slots(Local::give_up_unused) };
    }

    fn measure_cpu_time_if_late(&self, p: &'static P) {
        if let Some(m) = p.m()
            && m.current().is_some()
        {
            runtime_section::measure_own_if_late(m);
        }
    }

    fn p_retired(sched: &Sched<Machine>, p: &'static P) {
        retired(sched, p);
    }
}

/// Moves the slots and timers of a retired P elsewhere. The last retired P ends the change of GOMAXPROCS
/// (`gomaxprocs.rs`).
fn retired(sched: &Sched<Machine>, p: &'static P) {
    // No M runs on it any more, so sysmon must not preempt one because of it.
    p.m.store(std::ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: the P has no owner but us.
    unsafe { p.with_slots(|slots| slots.flush()) };
    due_timers::move_to_first_p(p);
    let change = &sched.platform.gomaxprocs;
    let mut leaving = change.leaving.lock_inside();
    leaving.count -= 1;
    change.still_leaving.store(leaving.count, Ordering::SeqCst);
    let all_gone = leaving.count == 0;
    let waiter = if all_gone { leaving.waiter.take() } else { None };
    drop(leaving);
    match waiter {
        Some(waiter) => Waiter::ready_without_p(waiter),
        None if all_gone => change.changing.store(false, Ordering::Release),
        None => {}
    }
    sched.wake_p();
}
