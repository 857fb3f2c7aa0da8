//! Runtime sections: how a goroutine enters and leaves the runtime.
//!
//! Every runtime call of a goroutine runs in a section: from `enter` to the guard's drop the goroutine has a
//! P, and no signal handler takes it away. Entering is a thread-local read, a store and a load. A runtime
//! lock (`base/lock.rs`) that code outside of the runtime takes is held in a section, too.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{Ordering, compiler_fence};

use super::schedule;
use crate::arch::Message;
use crate::base::lock::{Guard, Lock, Ranked};
use crate::sched::machine::SCHED;
use crate::sched::types::current::current;
use crate::sched::types::g::{G, Switch};
use crate::sched::types::m::{Lone, M};
use crate::sched::types::p::P;
use crate::sched::word::status::Status;
use crate::sys::clock::nanotime;
use crate::sys::thread;

/// Whether the caller may spin: other goroutines may be running meanwhile, and none waits for the caller's P.
pub(crate) fn others_run() -> bool {
    match current().and_then(|g| Some((g, g.m().p()?))) {
        // In a bubble no other goroutine runs.
        Some((g, _)) if g.bubble.get() != 0 => false,
        Some((_, p)) => SCHED.procs() > 1 && p.runq.is_empty(),
        None => true,
    }
}

/// The first step of a new goroutine, which starts inside the runtime: leaves it.
#[inline]
pub(crate) fn leave_first(message: Message) -> &'static G {
    match schedule::finish_switch(message).current() {
        Some(g) => {
            drop(Section::resume(g));
            g
        }
        None => unreachable!("an M that runs a goroutine knows it"),
    }
}

/// Runs `f` on the OS thread's own TLS, without preemption. It must not call into the runtime.
#[inline]
pub(crate) fn on_thread<T>(f: impl FnOnce() -> T) -> T {
    let Some(g) = current() else { return f() };
    if g.tp.get() == 0 {
        return f();
    }
    // If sysmon is just taking the P, nothing is lost: no P is needed here.
    on_own_m(g, |m| {
        m.use_own_tls();
        let result = f();
        m.use_tls_of(g);
        result
    })
}

/// Runs `f` for `g`, the calling goroutine, without preemption and without asking for a P: the goroutine
/// stays on its M, and does not stop. `f` must not call into the runtime.
pub(crate) fn on_own_m<T>(g: &'static G, f: impl FnOnce(&'static M) -> T) -> T {
    g.in_runtime.set(g.in_runtime.get() + 1);
    compiler_fence(Ordering::SeqCst);
    let result = f(g.m());
    compiler_fence(Ordering::SeqCst);
    g.in_runtime.set(g.in_runtime.get() - 1);
    result
}

/// Measures the CPU time of the calling thread, which is that of `m`: its goroutine comes back from a call in
/// which it had no P, and so no ticks.
#[cold]
pub(crate) fn measure_own(m: &'static M) {
    if let Some(clock) = thread::cpu_nanos(m.tid()) {
        m.cpu_time.measure(clock, nanotime());
    }
}

/// Charges `g`, the calling goroutine, with what it has used until now: it is about to change or to give up
/// its account. Outside of the runtime.
#[inline]
pub(crate) fn settle(g: &'static G) {
    // The M may be out of date (G4). Then what it says is of no use, but does no harm.
    let m = g.m();
    if m.p().is_none() || m.cpu_time.is_pending() {
        settle_now(g);
    }
}

#[cold]
#[inline(never)]
fn settle_now(g: &'static G) {
    on_own_m(g, |m| {
        if m.p().is_none() {
            measure_own(m); // without a P there are no ticks
        }
        if m.cpu_time.is_pending() {
            m.charge(g);
        }
    });
}

/// As [`measure_own`], if no thread has measured for long.
#[cold]
pub(crate) fn measure_own_if_late(m: &'static M) {
    m.cpu_time.measure_if_late(nanotime(), || thread::cpu_nanos(m.tid()));
}

/// As [`measure_own`], about once in a millisecond that goroutines run while sysmon sleeps.
pub(crate) fn measure_own_if_lone(m: &'static M) {
    if let Some(lone) = m.lone.get()
        && lone.timer
    {
        let now = nanotime();
        m.lone.set(Some(Lone { stopped: now, ..lone }));
        if m.cpu_time.is_own_tick(now - lone.stopped, now) {
            measure_own(m);
        }
    }
}

/// A goroutine inside the runtime, with a P.
pub(crate) struct Section {
    g: &'static G,
    _not_send: PhantomData<*const ()>,
}

/// Enters the runtime; `None` on a foreign thread.
#[inline]
pub(crate) fn enter() -> Option<Section> {
    Some(enter_as(current()?))
}

/// Enters the runtime as `g`, the calling goroutine.
#[inline]
pub(crate) fn enter_as(g: &'static G) -> Section {
    g.in_runtime.set(g.in_runtime.get() + 1);
    // A signal handler on this thread sees the count before anything that follows: from here on the goroutine
    // stays on its M (G4).
    compiler_fence(Ordering::SeqCst);
    let section = Section { g, _not_send: PhantomData };
    if !g.m().has_p() {
        section.wait_for_p();
    }
    section
}

/// Enters the runtime as `g`, the calling goroutine, from user code: no section is open. The depth is known
/// to be 0, so 1 is stored without a load: with an increment, each entry would depend on the store of the
/// last one.
#[inline]
pub(crate) fn enter_outermost(g: &'static G) -> Outermost {
    debug_assert_eq!(g.in_runtime.get(), 0, "a goroutine must not stop while it holds runtime locks");
    g.in_runtime.set(1);
    compiler_fence(Ordering::SeqCst);
    let outermost = Outermost(ManuallyDrop::new(Section { g, _not_send: PhantomData }));
    if !g.m().has_p() {
        outermost.0.wait_for_p();
    }
    outermost
}

/// As [`enter`], from user code: no section is open.
#[inline(always)]
pub(crate) fn enter_from_user_code() -> Option<Outermost> {
    Some(enter_outermost(current()?))
}

/// A section that is not inside another.
pub(crate) struct Outermost(ManuallyDrop<Section>);

impl Deref for Outermost {
    type Target = Section;
    #[inline]
    fn deref(&self) -> &Section {
        &self.0
    }
}

impl Outermost {
    /// Lets others run. The yield also answers a preemption request, so the flag is not checked again.
    #[inline(always)]
    pub(crate) fn yield_away(self) {
        let g = self.0.g;
        std::mem::forget(self);
        schedule::yield_away(g);
        compiler_fence(Ordering::SeqCst);
        g.in_runtime.set(0);
    }
}

impl Drop for Outermost {
    #[inline]
    fn drop(&mut self) {
        if self.0.p().preempt.load(Ordering::Relaxed) {
            self.0.preempted();
        }
        compiler_fence(Ordering::SeqCst);
        self.0.g.in_runtime.set(0);
    }
}

impl Section {
    /// Consumes the section without leaving the runtime: the caller, a marked blocking call, leaves it in its
    /// own way.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// The section of a goroutine that is inside the runtime already.
    pub(crate) fn resume(g: &'static G) -> Section {
        Section { g, _not_send: PhantomData }
    }

    #[inline]
    pub(crate) fn g(&self) -> &'static G {
        self.g
    }

    /// The M we are on. Ask again after a switch.
    #[inline]
    pub(crate) fn m(&self) -> &'static M {
        self.g.m()
    }

    /// The P we have. Ask again after a switch.
    #[inline]
    pub(crate) fn p(&self) -> &'static P {
        match self.g.m().p() {
            Some(p) => p,
            None => unreachable!("inside a section a goroutine has a P"),
        }
    }

    /// Stops the goroutine.
    #[inline]
    pub(crate) fn switch(&self, why: Switch) {
        debug_assert_eq!(
            self.g.in_runtime.get(),
            1,
            "a goroutine must not stop while it holds runtime locks"
        );
        schedule::switch_away(self.g, why);
    }

    #[cold]
    fn wait_for_p(&self) {
        self.m().call.end();
        if !self.m().take_p_back() {
            measure_own(self.m());
            self.switch(Switch::NeedP);
        }
        self.g.set_status(Status::Running);
    }

    #[cold]
    fn preempted(&self) {
        self.switch(Switch::Preempt);
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        let depth = self.g.in_runtime.get();
        if depth == 1 && self.p().preempt.load(Ordering::Relaxed) {
            self.preempted();
        }
        // A signal handler that sees the new depth sees everything before it.
        compiler_fence(Ordering::SeqCst);
        self.g.in_runtime.set(depth - 1);
    }
}

/// Kept with a [`Guard`]: the section that was entered for it; `None` on a foreign thread.
pub(crate) type Entered = Option<Section>;

impl<T: Ranked> Lock<T> {
    /// Takes the lock, for code that may run anywhere.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T, Entered> {
        self.lock_with(enter())
    }

    /// As [`lock`](Lock::lock), for user code: no section is open.
    #[inline(always)]
    pub(crate) fn lock_from_user_code(&self) -> Guard<'_, T, Option<Outermost>> {
        self.lock_with(enter_from_user_code())
    }
}
