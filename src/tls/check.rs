//! The start-up check: runs code on a TLS block, on a thread of its own, and looks whether it sees what code
//! in a goroutine must see.

use std::cell::Cell;

use super::layout::Layout;
use super::{block, pristine, register};
use crate::sys::{mem, thread};

thread_local! {
    static MARK: Cell<u32> = const { Cell::new(7) };
    static TRACE: Trace = const { Trace(Cell::new(false)) };
}

struct Trace(Cell<bool>);

static DESTROYED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl Drop for Trace {
    fn drop(&mut self) {
        DESTROYED.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Finds the layout and tries a block. The error says what this platform lacks.
pub(crate) fn run(current: isize) -> Result<(), String> {
    let layout = block::layout()?;
    if current >= 0 || current < -(layout.below as isize) {
        return Err(
            "gort's own thread-locals are not in static storage; was it loaded by dlopen?".to_string()
        );
    }
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("gort-check".into())
            .spawn_scoped(scope, move || try_block(layout, current))
            .map_err(|e| format!("could not start a thread: {e}"))?
            .join()
            .map_err(|_| "the check of private thread-local storage panicked".to_string())?
    })
}

fn try_block(layout: &Layout, current: isize) -> Result<(), String> {
    let (below, above, align) = (layout.below, layout.above, layout.align);
    let size = (below + above + align).next_multiple_of(mem::PAGE);
    let memory = mem::reserve(size).map_err(|e| e.to_string())?;
    let tp = (memory + below).next_multiple_of(align);
    MARK.set(1);
    let own_thread = std::thread::current().id();
    // SAFETY: fresh zeroed memory of the right size and alignment.
    unsafe { block::create(tp, memory, size) }.map_err(|e| e.to_string())?;
    // SAFETY: a new block that nobody runs on.
    unsafe { pristine::learn(layout, tp, current) };
    let mut seen = Seen::default();
    let own = register::current();
    // SAFETY: the block is complete, and `look` leaves nothing behind that outlives the switch back.
    unsafe {
        block::set_tid(tp, thread::tid());
        register::switch_to(tp);
        seen.look();
        block::run_destructors();
        register::switch_to(own);
    }
    // SAFETY: nobody runs on the block any more.
    let refreshed = unsafe { block::refresh(tp) };
    if !refreshed {
        // SAFETY: as above; we may allocate here.
        unsafe { block::rebuild(tp) }.map_err(|e| e.to_string())?;
    }
    let mut again = Seen::default();
    // SAFETY: as above.
    unsafe {
        register::switch_to(tp);
        again.look();
        block::run_destructors();
        register::switch_to(own);
    }
    let checks = [
        (seen.mark == 7, "a new block does not start with initial values"),
        (again.mark == 7, "a refreshed block does not start with initial values"),
        (MARK.get() == 1, "a block's thread-locals are not its own"),
        (seen.pthread_self == tp, "pthread_self is not the block"),
        (seen.thread != Some(own_thread) && seen.thread != again.thread, "thread ids are not private"),
        (seen.stack == memory, "pthread_getattr_np does not see the block's stack"),
        (DESTROYED.load(std::sync::atomic::Ordering::Relaxed), "thread-local destructors did not run"),
    ];
    // The block stays mapped: malloc may have given its cache an arena that still refers to it.
    match checks.iter().find(|(ok, _)| !ok) {
        None => Ok(()),
        Some((_, what)) => Err((*what).to_string()),
    }
}

#[derive(Default)]
struct Seen {
    mark: u32,
    pthread_self: usize,
    thread: Option<std::thread::ThreadId>,
    stack: usize,
}

impl Seen {
    #[inline(never)]
    fn look(&mut self) {
        self.mark = MARK.replace(99);
        TRACE.with(|t| t.0.set(true));
        self.thread = Some(std::thread::current().id());
        // SAFETY: plain queries about the running thread; the attributes are destroyed again.
        unsafe {
            self.pthread_self = libc::pthread_self() as usize;
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) == 0 {
                let (mut address, mut size) = (std::ptr::null_mut(), 0);
                libc::pthread_attr_getstack(&attributes, &mut address, &mut size);
                self.stack = address as usize;
                libc::pthread_attr_destroy(&mut attributes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_platform_has_private_thread_locals() {
        super::run(crate::sched::section::current_offset()).unwrap();
    }
}
