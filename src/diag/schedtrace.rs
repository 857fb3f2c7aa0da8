//! `GODEBUG=schedtrace=1000,scheddetail=1`: the scheduler's state as text, in Go's words and with Go's
//! numbers for states.
//!
//! The values are read while they change: the numbers of one line need not belong to the same moment. Fields
//! for things that gort does not have (a garbage collector) are constant: `gcwaiting=false`. `gfreecnt` is
//! left out: only the owner of a P may look at its list of dead goroutines.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sched::idle::wake_sysmon;
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::status::Status;
use crate::sys::stderr;

/// Prints the scheduler's state at regular intervals.
pub(super) struct Trace {
    every: Duration,
    detail: bool,
    start: Instant,
    next: Instant,
}

impl Trace {
    pub(super) fn new(every: Duration, detail: bool) -> Trace {
        let start = Instant::now();
        Trace { every, detail, start, next: start + every }
    }

    /// Prints if it is due. Returns when it is due next.
    pub(super) fn print_if_due(&mut self) -> Instant {
        let now = Instant::now();
        if now >= self.next {
            // If the whole process was stopped for a while, the missed lines are left out.
            while self.next <= now {
                self.next += self.every;
            }
            stderr::write(&text((now - self.start).as_millis(), self.detail));
        }
        self.next
    }
}

/// The line for `milliseconds` after the start; with `detail`, one more for each P, M and G. The caller is a
/// service thread of the runtime.
fn text(milliseconds: u128, detail: bool) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = if detail { write_detail(&mut out, milliseconds) } else { write_brief(&mut out, milliseconds) };
    out
}

fn write_summary(out: &mut String, milliseconds: u128) -> std::fmt::Result {
    // sysmon and the housekeeper count as threads, as sysmon does in Go.
    let threads = alive().count() + 2;
    let spinning = SCHED.idle.spinning();
    // Work waits, a P is idle, and no M spins.
    let need = spinning == 0 && SCHED.idle.idle() != 0 && SCHED.global_len() + SCHED.preempted_len() != 0;
    let idle = SCHED.lock().idle_m_count();
    write!(
        out,
        "SCHED {milliseconds}ms: gomaxprocs={} idleprocs={} threads={threads} spinningthreads={spinning} \
         needspinning={} idlethreads={idle} runqueue={}",
        SCHED.procs(),
        SCHED.idle.idle(),
        u32::from(need),
        SCHED.global_len() + SCHED.preempted_len(),
    )
}

fn write_brief(out: &mut String, milliseconds: u128) -> std::fmt::Result {
    write_summary(out, milliseconds)?;
    let lengths: Vec<_> = ps().map(|p| p.runq.len().to_string()).collect();
    writeln!(out, " [{}]", lengths.join(" "))
}

fn write_detail(out: &mut String, milliseconds: u128) -> std::fmt::Result {
    write_summary(out, milliseconds)?;
    let locked = alive().filter(|m| m.locked_g.get().is_some_and(|g| g.status() == Status::Waiting)).count();
    writeln!(
        out,
        " gcwaiting=false nmidlelocked={locked} stopwait=0 sysmonwait={}",
        wake_sysmon::is_asleep()
    )?;
    for p in ps() {
        write!(
            out,
            "  P{}: status={} schedtick={} syscalltick={} m=",
            p.id,
            p_status(p),
            p.tick.load(Ordering::Relaxed),
            p.syscall_tick.load(Ordering::Relaxed),
        )?;
        write_id(out, owner(p).map(|m| m.id.into()))?;
        let timers = p.timers.len();
        writeln!(out, " runqsize={} timerslen={timers}", p.runq.len())?;
    }
    for m in alive() {
        write!(out, "  M{}: p=", m.id)?;
        write_id(out, m.p().map(|p| p.id.into()))?;
        write!(out, " curg=")?;
        write_id(out, m.current().map(|g| g.id()))?;
        let blocked = m.p().is_none() && m.current().is_none() && !m.spinning.get();
        write!(
            out,
            " mallocing=0 throwing=0 preemptoff= locks={} dying=0 spinning={} blocked={blocked} lockedg=",
            m.current().map_or(1, |g| g.in_runtime.get()),
            m.spinning.get(),
        )?;
        write_id(out, m.locked_g.get().map(|g| g.id()))?;
        writeln!(out)?;
    }
    let mut result = Ok(());
    G::for_each(|g| {
        let status = g.status();
        if status == Status::Dead || result.is_err() {
            return;
        }
        result = (|| {
            let reason = if status == Status::Waiting { g.wait_reason().name() } else { "" };
            write!(out, "  G{}: status={}({reason}) m=", g.id(), g_status(status))?;
            let running = matches!(status, Status::Running | Status::Syscall | Status::Preempted);
            write_id(out, g.peek_m().filter(|_| running).map(|m| m.id.into()))?;
            write!(out, " lockedm=")?;
            let bound = (g.lock_count.get() != 0).then(|| g.locked_m.get()).flatten();
            write_id(out, bound.map(|m| m.id.into()))?;
            writeln!(out)
        })();
    });
    result
}

fn write_id(out: &mut String, id: Option<u64>) -> std::fmt::Result {
    match id {
        Some(id) => write!(out, "{id}"),
        None => out.write_str("nil"),
    }
}

fn ps() -> impl Iterator<Item = &'static P> {
    SCHED.ps_in_use()
}

fn alive() -> impl Iterator<Item = &'static M> {
    SCHED.platform.live_ms()
}

/// The M that owns `p` now; `P::m` may be the last owner.
fn owner(p: &'static P) -> Option<&'static M> {
    p.m().filter(|m| m.p().is_some_and(|its| std::ptr::eq(its, p)))
}

/// Go's number for the state of a P.
fn p_status(p: &P) -> u32 {
    if SCHED.is_idle(p.id as usize) {
        0
    } else if p.in_syscall.load(Ordering::Relaxed) {
        2
    } else {
        1
    }
}

fn g_status(status: Status) -> u32 {
    match status {
        Status::Runnable => 1,
        Status::Running => 2,
        Status::Syscall => 3,
        Status::Waiting => 4,
        Status::Dead => 6,
        Status::Preempted => 9,
    }
}
