//! The first and the last moments of a goroutine.
//!
//! `launch` takes a slot, writes the closure onto its stack and queues it: nothing is allocated when a dead
//! goroutine's slot is at hand. `end` runs on g0 after the closure returned.

use std::cell::Cell;
use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::g::{G, Info, Switch};
use super::m::M;
use super::p::P;
use super::schedule::{self, Outcome};
use super::section::{self, Section};
use super::status::Status;
use super::{boot, bubble, context, first, global, readers, wake};
use crate::stack::cache;
use crate::stack::size::SizeClass;
use crate::tls;

/// How a goroutine is to be made.
pub(crate) struct Spec {
    pub(crate) class: SizeClass,
    pub(crate) private_tls: bool,
    pub(crate) site: &'static Location<'static>,
    /// The bubble it belongs to; `None`: that of its parent.
    pub(crate) bubble: Option<u8>,
}

/// What a goroutine does. Both parts must not unwind.
pub(crate) trait Body {
    /// The user's code.
    fn run(&mut self);
    /// After the destructors of its thread-locals: tells whoever waits for the goroutine. True: code of the user's ran
    /// meanwhile and may have used thread-locals again.
    fn finish(self) -> bool;
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
        g.bubble.set(spec.bubble.unwrap_or(0));
        if g.bubble.get() != 0 {
            bubble::started(g, None);
            return Ok(id);
        }
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
    g.bubble.set(spec.bubble.unwrap_or(section.g().bubble.get()));
    if g.bubble.get() != 0 {
        bubble::started(g, Some(p));
        return Ok(id);
    }
    if first::goes_first(&section, p, g) {
        schedule::run_child_first(section.g(), g);
        return Ok(id);
    }
    wake::run_on(p, g);
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
    g.firsts.store(0, Ordering::Relaxed);
    g.site.set(Some(spec.site));
    // Release: whoever reads the info sees it complete.
    g.info.store(info.cast_mut(), Ordering::Release);
    g.tp.set(if spec.private_tls { g.block } else { 0 });
    let stack_top = ptr::from_ref(g) as usize;
    let place = (stack_top - size_of::<B>()) & !(INLINE_ALIGN - 1);
    // SAFETY: the slot is ours, and the body fits below its G. What the body borrows outlives the goroutine (the
    // caller of `launch` vouches for it).
    unsafe {
        (place as *mut B).write(body);
        g.context.set(context::prepare(place, main::<B>, place));
    }
}

/// The first function on a goroutine's stack. It starts and ends inside the runtime.
unsafe extern "C" fn main<B: Body>(body: usize, first: usize, second: usize) -> ! {
    let body = body as *mut B;
    let g = section::leave_first([first, second]);
    // SAFETY: `fill` wrote it there for us.
    unsafe { (*body).run() };
    leave_tls(g);
    g.info.store(ptr::null_mut(), Ordering::Relaxed);
    readers::let_them_finish();
    // SAFETY: taken once.
    let user_code_ran = unsafe { body.read() }.finish();
    if user_code_ran {
        leave_tls(g);
    }
    let section = section::enter_as(g);
    let done = end_in_place(g, section.p());
    section.switch(if done { Switch::Gone } else { Switch::End });
    unreachable!("an ended goroutine was resumed")
}

/// [`end`], for most goroutines, while they still run on their stack: the P's own cache gives the slot to nobody before
/// the switch, which is the next that its owner does. What is done here need not be done on the next goroutine's stack,
/// where it would often be the first to touch a page.
#[inline]
fn end_in_place(g: &'static G, p: &'static P) -> bool {
    if g.block_used.get() || g.lock_count.get() != 0 || g.bubble.get() != 0 || !cache::keeps(g) {
        return false;
    }
    g.set_status(Status::Dead);
    p.stats.ended.add(1);
    cache::put(p, g);
    true
}

/// Runs the destructors of the goroutine's thread-locals, if it has used any.
fn leave_tls(g: &'static G) {
    let tp = g.tp.get();
    // SAFETY: we run on our private block; what follows uses no thread-local of the user's.
    unsafe {
        if tp != 0 && !tls::block::is_untouched(tp) {
            g.block_used.set(true);
            tls::block::run_destructors();
        }
    }
}

/// After `main` came to its end and its stack is no longer in use: the slot goes to the cache.
pub(crate) fn end(m: &'static M, g: &'static G) -> Option<Outcome> {
    g.set_status(Status::Dead);
    if g.block_used.replace(false) {
        // SAFETY: nobody runs on the block any more.
        g.block_stale.set(!unsafe { tls::block::refresh(g.block) });
        if !g.block_stale.get() {
            section::mark_block(g);
        }
    }
    let locked = g.lock_count.get() != 0;
    g.lock_count.set(0);
    g.locked_m.set(None);
    let p = match m.p() {
        Some(p) => p,
        None => unreachable!("a goroutine ends with a P"),
    };
    p.stats.ended.add(1);
    let (bubble, id) = (g.bubble.get(), g.id());
    g.bubble.set(0);
    cache::put(p, g);
    if bubble != 0 {
        bubble::ended(bubble, id, p);
    }
    if !locked {
        return None;
    }
    m.locked_g.set(None);
    m.use_own_tls();
    m.set_p(None);
    wake::hand_off_p(p);
    Some(Outcome::EndThread)
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
