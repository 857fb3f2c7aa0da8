//! Starting and ending a goroutine.
//!
//! `launch` takes a slot, writes the closure onto its stack and queues it: it allocates nothing if the slot
//! of an ended goroutine is available. `end` runs after the closure returned and the stack is no longer in
//! use.

use std::cell::Cell;
use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::Ordering;

use super::child_first;
use super::runtime_section::{self, Section};
use super::schedule::{self, After};
use crate::arch;
use crate::sched::event::{self, New};
use crate::sched::machine::{SCHED, hooks};
use crate::sched::types::current::mark_block;
use crate::sched::types::g::{G, Info, Switch};
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::pinned_readers;
use crate::sched::word::status::Status;
use crate::stack::cache::{self, Local};
use crate::stack::size::Need;
use crate::stack::slab;
use crate::stack::slot::Slot;
use crate::tls;

/// The properties of a new goroutine.
pub(crate) struct Spec {
    pub(crate) stack: Need,
    pub(crate) private_tls: bool,
    pub(crate) site: &'static Location<'static>,
    /// The bubble it belongs to; `None`: that of its parent.
    pub(crate) bubble: Option<u8>,
}

/// What a goroutine does. Both parts must not unwind.
pub(crate) trait Body {
    /// The type of the user's function, for traces.
    const FUNCTION: fn() -> &'static str;
    /// The user's code.
    fn run(&mut self);
    /// Called after the destructors of its thread-locals: readies the joiner. True: user code ran meanwhile
    /// and may have used thread-locals again.
    fn finish(self) -> bool;
}

/// The largest body that fits onto a new stack; `goroutine/join.rs` boxes larger closures.
pub(crate) const INLINE_BODY: usize = 512;
/// The alignment of a new stack's top.
pub(crate) const INLINE_ALIGN: usize = 16;

/// Starts a goroutine and returns its id. The runtime must have started. `info` must stay valid until
/// `Body::finish` is called.
///
/// # Safety
/// With `private_tls` unset the caller vouches that the body holds no reference to a thread-local across a
/// scheduling point. What the body borrows must outlive the goroutine.
pub(crate) unsafe fn launch<B: Body>(spec: &Spec, info: *const Info, body: B) -> io::Result<u64> {
    if spec.private_tls {
        private_tls_available()?;
    }
    debug_assert!(size_of::<B>() <= INLINE_BODY && align_of::<B>() <= INLINE_ALIGN);
    let Some(mut section) = runtime_section::enter() else {
        let g = match cache::take_shared(spec.stack) {
            Some(slot) => G::of_slot(slot),
            None => make(spec.stack)?,
        };
        prepare(g, spec)?;
        let id = next_global_id();
        fill(g, id, 0, spec, info, body);
        SCHED.platform.created_outside.fetch_add(1, Ordering::Relaxed);
        g.bubble.set(spec.bubble.unwrap_or(0));
        g.test.set(0);
        if event::is_on() {
            log_new::<B>(g, spec, info, None);
        }
        if g.bubble.get() != 0 {
            (hooks().bubble.started)(g, None);
            return Ok(id);
        }
        SCHED.ready_global(g);
        return Ok(id);
    };
    // SAFETY: the section has the P.
    let cached = unsafe { section.p().with_slots(|slots| slots.take(spec.stack)) };
    let g = match cached.map(G::of_slot) {
        Some(g) if !needs_tls_work(g, spec) => g,
        found => {
            // What follows may allocate, which is not allowed inside the runtime.
            drop(section);
            let g = match found {
                Some(g) => g,
                None => make(spec.stack)?,
            };
            prepare(g, spec)?;
            section = enter_again();
            g
        }
    };
    let p = section.p();
    let id = next_id(p);
    fill(g, id, section.g().id(), spec, info, body);
    p.stats.created.add(1);
    g.bubble.set(spec.bubble.unwrap_or(section.g().bubble.get()));
    g.test.set(section.g().test.get());
    if event::is_on() {
        log_new::<B>(g, spec, info, Some(section.m()));
    }
    if g.bubble.get() != 0 {
        (hooks().bubble.started)(g, Some(p));
        return Ok(id);
    }
    if child_first::goes_first(&section, p, g) {
        schedule::run_child_first(section.g(), g);
        return Ok(id);
    }
    SCHED.ready_on(p, g);
    Ok(id)
}

/// Writes down that `g` was made, on `m` or on a thread that is no M. Its `info` is valid for as long as the
/// caller owns it.
#[cold]
#[inline(never)]
fn log_new<B: Body>(g: &'static G, spec: &Spec, info: *const Info, m: Option<&'static M>) {
    // SAFETY: the promise of `launch`; the goroutine has not begun to run.
    let name = unsafe { info.as_ref() }.and_then(|info| info.name.as_deref());
    let new = New { id: g.id(), site: spec.site, function: B::FUNCTION(), name };
    g.became_runnable(match m {
        Some(m) => m.log.created(&new),
        None => new.made_outside(),
    });
}

fn enter_again() -> Section {
    match runtime_section::enter() {
        Some(section) => section,
        None => unreachable!("a goroutine stays one"),
    }
}

fn needs_tls_work(g: &G, spec: &Spec) -> bool {
    spec.private_tls && (!g.block_made.get() || g.block_stale.get())
}

/// Makes a G in a new slot. Allocates. If the kernel refuses memory, idle Ps may still have slots.
fn make(need: Need) -> io::Result<&'static G> {
    let error = match slab::new_slot(need) {
        Ok(slot) => return Ok(G::make(&slot)),
        Err(error) => error,
    };
    let _section = runtime_section::enter();
    while let Some(slot) = take_from_idle_p() {
        cache::put_shared(slot);
    }
    cache::take_shared(need).map(G::of_slot).ok_or(error)
}

/// A slot that an idle P keeps for itself.
fn take_from_idle_p() -> Option<&'static Slot> {
    let locked = SCHED.lock();
    // SAFETY: an idle P belongs to the holder of the lock.
    locked.idle_ps().find_map(|p| unsafe { p.with_slots(Local::pop) })
}

/// Prepares what `spec` asks for; if that fails, the slot goes back to the cache.
fn prepare(g: &'static G, spec: &Spec) -> io::Result<()> {
    if spec.private_tls
        && let Err(error) = prepare_tls(g)
    {
        let _section = runtime_section::enter();
        cache::put_shared(&g.slot);
        return Err(error);
    }
    Ok(())
}

/// Makes sure that the slot has a fresh private TLS block. Allocates the first time.
fn prepare_tls(g: &'static G) -> io::Result<()> {
    if !g.block_made.get() {
        // As with threads, the guard is not part of the stack that code sees.
        let stack = g.slot.stack();
        // SAFETY: the slot's memory for the block was reserved by the slab, is zeroed, and the slot is ours.
        unsafe { tls::block::create(g.slot.block, stack.start, stack.len())? };
        g.block_made.set(true);
    } else if g.block_stale.get() {
        // SAFETY: the slot is ours and nobody runs on its block.
        unsafe { tls::block::rebuild(g.slot.block)? };
    } else {
        return Ok(());
    }
    g.block_stale.set(false);
    mark_block(g);
    Ok(())
}

/// Whether goroutines can have thread-local storage of their own; the error says what is missing.
#[inline]
fn private_tls_available() -> io::Result<()> {
    match SCHED.platform.boot.private_tls.get() {
        Some(Err(missing)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("goroutines cannot have private thread-local storage here: {missing}"),
        )),
        _ => Ok(()),
    }
}

#[inline]
fn fill<B: Body>(g: &'static G, id: u64, parent: u64, spec: &Spec, info: *const Info, body: B) {
    g.id.store(id, Ordering::Relaxed);
    g.parent.set(parent);
    g.firsts.store(0, Ordering::Relaxed);
    g.forget_wait();
    g.site.set(Some(spec.site));
    // Release: a reader of the info sees it complete.
    g.info.store(info.cast_mut(), Ordering::Release);
    g.tp.set(if spec.private_tls { g.slot.block } else { 0 });
    let stack_top = ptr::from_ref(g) as usize;
    let place = (stack_top - size_of::<B>()) & !(INLINE_ALIGN - 1);
    // SAFETY: the slot is ours, and the body fits below its G. What the body borrows outlives the goroutine
    // (the caller of `launch` vouches for it).
    unsafe {
        (place as *mut B).write(body);
        g.context.set(arch::prepare(place, main::<B>, place));
    }
}

/// The first function on a goroutine's stack. It starts and ends inside the runtime.
unsafe extern "C" fn main<B: Body>(body: usize, first: usize, second: usize) -> ! {
    let body = body as *mut B;
    let g = runtime_section::leave_first([first, second]);
    // SAFETY: `fill` wrote it there for us.
    unsafe { (*body).run() };
    leave_tls(g);
    runtime_section::settle(g); // while it has an account
    g.info.store(ptr::null_mut(), Ordering::Relaxed);
    pinned_readers::let_them_finish();
    // SAFETY: taken once.
    let user_code_ran = unsafe { body.read() }.finish();
    if user_code_ran {
        leave_tls(g);
    }
    let section = runtime_section::enter_as(g);
    let done = end_in_place(g, section.p());
    section.switch(if done { Switch::Gone } else { Switch::End });
    unreachable!("an ended goroutine was resumed")
}

/// [`end`] for most goroutines, called while they still run on their stack. That is safe because only the P's
/// owner takes slots from the P's cache, and the owner's next step is to switch away. Work that is done here
/// need not be done on the next goroutine's stack, where it would often be the first to touch a page. False:
/// `end` has to do it.
#[inline]
fn end_in_place(g: &'static G, p: &'static P) -> bool {
    if g.block_used.get() || g.lock_count.get() != 0 || g.bubble.get() != 0 || !cache::is_kept_by_p(&g.slot) {
        return false;
    }
    g.set_status(Status::Dead);
    p.stats.ended.add(1);
    // SAFETY: the section has the P.
    unsafe { p.with_slots(|slots| slots.put(&g.slot)) };
    true
}

/// Runs the destructors of the goroutine's thread-locals, if it has used any.
fn leave_tls(g: &'static G) {
    let tp = g.tp.get();
    // SAFETY: we run on our private block; what follows uses no thread-local of the user's.
    unsafe {
        if tp != 0 && (g.thread_state.get() != 0 || !tls::block::is_untouched(tp)) {
            g.block_used.set(true);
            tls::block::run_destructors();
        }
    }
}

/// Called after `main` has finished and its stack is no longer in use: puts the slot into the cache.
pub(super) fn end(m: &'static M, g: &'static G) -> After {
    g.set_status(Status::Dead);
    if g.block_used.replace(false) {
        // SAFETY: nobody runs on the block any more.
        g.block_stale.set(!unsafe { tls::block::refresh(g.slot.block) });
        if !g.block_stale.get() {
            mark_block(g);
        }
    }
    let locked = g.lock_count.get() != 0;
    g.lock_count.set(0);
    g.thread_state.set(0);
    g.locked_m.set(None);
    let p = match m.p() {
        Some(p) => p,
        None => unreachable!("a goroutine ends with a P"),
    };
    p.stats.ended.add(1);
    let (bubble, id) = (g.bubble.get(), g.id());
    g.bubble.set(0);
    // SAFETY: this M has the P.
    unsafe { p.with_slots(|slots| slots.put(&g.slot)) };
    if bubble != 0 {
        (hooks().bubble.ended)(bubble, id, p);
    }
    if !locked {
        return After::Done;
    }
    m.locked_g.set(None);
    m.use_own_tls();
    m.set_p(None);
    SCHED.hand_off_p(p);
    After::EndThread
}

/// A P takes this many ids at a time.
const ID_BATCH: u64 = 16;

fn next_global_id() -> u64 {
    SCHED.platform.next_id.fetch_add(1, Ordering::Relaxed)
}

#[inline]
fn next_id(p: &P) -> u64 {
    let ids: &Cell<(u64, u64)> = &p.ids;
    let (mut next, mut end) = ids.get();
    if next == end {
        next = SCHED.platform.next_id.fetch_add(ID_BATCH, Ordering::Relaxed);
        end = next + ID_BATCH;
    }
    ids.set((next + 1, end));
    next
}
