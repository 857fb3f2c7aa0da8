//! Marked blocking calls: `gort::blocking`.
//!
//! On entry the goroutine leaves its P behind in state `in_syscall`, where any thread may take it: sysmon
//! does when there is work for it, or after a while. On return the goroutine takes its P back with one
//! compare-and-swap if no thread took it; otherwise it takes any idle P, or waits in the global queue. A P in
//! `in_syscall` belongs to the first thread that swaps the flag, no matter which M left it.

use std::sync::atomic::compiler_fence;

use crate::arch::{self, Registers};
use crate::base::atomic::Ordering;
use crate::sched::event;
use crate::sched::idle::wake_sysmon;
use crate::sched::run::runtime_section::{self, Section};
use crate::sched::run::schedule;
use crate::sched::types::current::current;
use crate::sched::types::g::{G, Switch};
use crate::sched::word::pinned_readers::{self, Reading};
use crate::sched::word::status::Status;

/// Runs `f`, which may block its thread.
pub(crate) fn blocking<T>(f: impl FnOnce() -> T) -> T {
    let Some(g) = current() else { return f() };
    if g.blocking.get() {
        return f(); // nested: the P is given up already
    }
    // From these registers a report unwinds the caller's stack, which does not change until we return.
    let registers = arch::own_registers();
    enter(g, &registers);
    let _exit = Exit(g);
    f()
}

/// A tag in `G::wait_object` while it points to the registers of a blocking call. No goroutine waits for an
/// odd address.
const REGISTERS: usize = 1;

/// The registers of the caller of a marked blocking call. While `reading` lives the call does not return.
pub(crate) fn registers_of<'a>(g: &'static G, _reading: &'a Reading) -> Option<&'a Registers> {
    // Acquire pairs with the release in `enter`.
    let object = g.wait_object.load(Ordering::Acquire);
    let registers = (object & REGISTERS != 0).then_some((object & !REGISTERS) as *const Registers)?;
    // SAFETY: `Exit` takes the pointer away before the call's frame goes, and waits for readers.
    Some(unsafe { &*registers })
}

fn enter(g: &'static G, registers: &Registers) {
    let section = runtime_section::enter_as(g);
    let (m, p) = (section.m(), section.p());
    p.stats.syscalls.add(1);
    g.blocking.set(true);
    // Release: the registers are complete.
    g.wait_object.store(std::ptr::from_ref(registers) as usize | REGISTERS, Ordering::Release);
    g.set_status(Status::Syscall);
    m.syscall_p.set(Some(p));
    if event::is_on() {
        schedule::log_call(m, g);
    }
    m.leave_p();
    p.syscall_tick.store(p.syscall_tick.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    // Release: the next owner sees everything that we did with the P.
    p.in_syscall.store(true, Ordering::Release);
    wake_sysmon::look_if_watching();
    section.keep();
    // A signal handler that sees `in_runtime` = 0 sees everything before it.
    compiler_fence(Ordering::SeqCst);
    g.in_runtime.set(0);
}

/// Ends the blocking call, also when it unwinds.
struct Exit(&'static G);

impl Drop for Exit {
    fn drop(&mut self) {
        let g = self.0;
        g.wait_object.store(0, Ordering::Relaxed);
        pinned_readers::let_them_finish();
        g.in_runtime.set(1);
        // A signal handler sees `in_runtime` = 1 before anything that follows.
        compiler_fence(Ordering::SeqCst);
        let m = g.m();
        let section = Section::resume(g);
        // Code inside the call may have used the runtime, and got a P for that.
        if !m.has_p() && !m.take_p_back() {
            runtime_section::measure_own(m);
            section.switch(Switch::NeedP);
        }
        g.m().syscall_p.set(None);
        g.blocking.set(false);
        g.set_status(Status::Running);
    }
}
