//! The first and the last moments of a goroutine.
//!
//! `launch` takes a slot, writes the closure onto its stack and queues it: nothing is allocated when a dead
//! goroutine's slot is at hand. `end` runs on g0 after the closure returned.

use std::cell::Cell;
use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::g::{Context, G, Info, SlotStack};
use super::m::M;
use super::p::P;
use super::schedule::Outcome;
use super::section::{self, Section};
use super::status::Status;
use super::{boot, global, wake};
use crate::stack::cache;
use crate::stack::size::SizeClass;
use crate::tls;

/// How a goroutine is to be made.
pub(crate) struct Spec {
    pub(crate) class: SizeClass,
    pub(crate) private_tls: bool,
    pub(crate) site: &'static Location<'static>,
}

/// What a goroutine does. Both parts must not unwind.
pub(crate) trait Body {
    /// The user's code.
    fn run(&mut self);
    /// After the destructors of its thread-locals: tells whoever waits for the goroutine.
    fn finish(self);
}

/// The largest body that fits onto a new stack; `goroutine/join.rs` boxes larger closures.
pub(crate) const INLINE_BODY: usize = 512;
/// The alignment of a new stack's top.
pub(crate) const INLINE_ALIGN: usize = 16;

/// Starts a goroutine. `info` must stay valid until `Body::finish` is called. Returns its id.
///
/// # Safety
/// With `private_tls` unset the caller vouches that the body holds no reference to a thread-local across a
/// scheduling point. What the body borrows must outlive the goroutine.
pub(crate) unsafe fn launch<B: Body>(spec: &Spec, info: *const Info, body: B) -> io::Result<u64> {
    boot::ensure();
    if spec.private_tls {
        boot::private_tls_available()?;
    }
    debug_assert!(size_of::<B>() <= INLINE_BODY && align_of::<B>() <= INLINE_ALIGN);
    let Some(mut section) = section::enter() else {
        let g = match cache::take_shared(spec.class) {
            Some(g) => g,
            None => cache::make(spec.class)?,
        };
        prepare(g, spec)?;
        let id = next_global_id();
        fill(g, id, 0, spec, info, body);
        CREATED_OUTSIDE.fetch_add(1, Ordering::Relaxed);
        g.set_status(Status::Runnable);
        global::lock().push(g);
        wake::wake_p();
        return Ok(id);
    };
    let g = match cache::take(section.p(), spec.class) {
        Some(g) if !needs_tls_work(g, spec) => g,
        found => {
            // What follows may allocate: not with preemption off.
            drop(section);
            let g = match found {
                Some(g) => g,
                None => cache::make(spec.class)?,
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
    g.set_status(Status::Runnable);
    wake::put_next(p, g);
    wake::wake_p();
    Ok(id)
}

fn enter_again() -> Section {
    match section::enter() {
        Some(section) => section,
        None => unreachable!("a goroutine stays one"),
    }
}

fn needs_tls_work(g: &G, spec: &Spec) -> bool {
    spec.private_tls && (!g.block_made.get() || g.block_stale.get())
}

fn prepare(g: &'static G, spec: &Spec) -> io::Result<()> {
    if spec.private_tls
        && let Err(error) = cache::prepare_tls(g)
    {
        cache::put_shared(g);
        return Err(error);
    }
    Ok(())
}

#[inline]
fn fill<B: Body>(g: &'static G, id: u64, parent: u64, spec: &Spec, info: *const Info, body: B) {
    g.id.store(id, Ordering::Relaxed);
    g.parent.set(parent);
    g.site.set(Some(spec.site));
    g.info.store(info.cast_mut(), Ordering::Relaxed);
    g.tp.set(if spec.private_tls { g.block } else { 0 });
    g.set_status(Status::Idle);
    // SAFETY: the slot is ours; the context takes its stack. What the body borrows outlives the goroutine (the
    // caller of `launch` vouches for it), and a context is dropped only after it ran to its end.
    unsafe {
        let context = Context::with_stack_unchecked(SlotStack(g), move |yielder, ()| {
            g.set_yielder(yielder);
            main(g, body);
        });
        g.context.get().write(Some(context));
    }
}

/// The first function on a goroutine's stack. It starts and ends inside the runtime.
fn main<B: Body>(g: &'static G, mut body: B) {
    section::leave_first();
    body.run();
    if g.tp.get() != 0 {
        // SAFETY: we run on our private block; what follows uses no thread-local of the user's.
        unsafe { tls::block::run_destructors() };
    }
    g.info.store(ptr::null_mut(), Ordering::Relaxed);
    body.finish();
    if g.tp.get() != 0 {
        // A result that nobody waits for was dropped just now, and may have used thread-locals again.
        // SAFETY: as above.
        unsafe { tls::block::run_destructors() };
    }
    section::enter_as(g).keep();
}

/// On g0, after `main` returned: the slot goes to the cache.
pub(crate) fn end(m: &'static M, g: &'static G) -> Outcome {
    // SAFETY: the goroutine ended on this M, so its context is ours and done.
    unsafe { *g.context.get() = None };
    g.set_status(Status::Dead);
    g.shrunk.set(false);
    if g.tp.get() != 0 {
        // SAFETY: nobody runs on the block but this g0, which touches no TLS here.
        g.block_stale.set(!unsafe { tls::block::refresh(g.block) });
        if !g.block_stale.get() {
            section::mark_block(g);
        }
    }
    let locked = g.lock_count.replace(0) != 0;
    g.locked_m.set(None);
    let p = match m.p() {
        Some(p) => p,
        None => unreachable!("a goroutine ends with a P"),
    };
    p.stats.ended.add(1);
    cache::put(p, g);
    if !locked {
        return Outcome::Next;
    }
    m.locked_g.set(None);
    m.use_own_tls();
    m.set_p(None);
    wake::hand_off_p(p);
    Outcome::EndThread
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static CREATED_OUTSIDE: AtomicU64 = AtomicU64::new(0);

/// A P takes so many ids at a time.
const ID_BATCH: u64 = 16;

fn next_global_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

#[inline]
fn next_id(p: &P) -> u64 {
    let ids: &Cell<(u64, u64)> = &p.ids;
    let (mut next, mut end) = ids.get();
    if next == end {
        next = NEXT_ID.fetch_add(ID_BATCH, Ordering::Relaxed);
        end = next + ID_BATCH;
    }
    ids.set((next + 1, end));
    next
}

/// Goroutines that were made by foreign threads.
pub(crate) fn created_outside() -> u64 {
    CREATED_OUTSIDE.load(Ordering::Relaxed)
}
