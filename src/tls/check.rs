//! The start-up check: runs code on a TLS block, on a thread made for this, and checks that the code sees
//! what code in a goroutine must see.

use std::cell::Cell;

use super::layout::Layout;
use super::{block, malloc_cache, pristine, thread_name};
use crate::arch;
use crate::sys::mem;

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

/// Finds the layout and tests a block. `current` is the offset of the thread-local `CURRENT`. The error says
/// what this platform lacks.
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
    let (first, _) = new_block(layout)?;
    // SAFETY: nobody has run on the new block yet.
    unsafe { malloc_cache::learn(layout, first) };
    thread_name::learn();
    MARK.set(1);
    let own_thread = std::thread::current().id();
    let (tp, memory) = new_block(layout)?;
    // SAFETY: nobody has run on the new block yet.
    unsafe { pristine::learn(layout, tp, current) };
    let mut seen = Seen::default();
    let own = arch::thread_pointer();
    // SAFETY: the block is complete, and no reference into its TLS outlives the switch back.
    unsafe {
        arch::set_thread_pointer(tp);
        block::with_kernel_id(tp, || seen.look());
        block::run_destructors();
        arch::set_thread_pointer(own);
    }
    // SAFETY: nobody runs on the block any more.
    let refreshed = unsafe { block::refresh(tp) };
    if !refreshed {
        // SAFETY: nobody runs on the block, and this thread may allocate.
        unsafe { block::rebuild(tp) }.map_err(|e| e.to_string())?;
    }
    let mut again = Seen::default();
    // SAFETY: as for the first switch.
    unsafe {
        arch::set_thread_pointer(tp);
        block::with_kernel_id(tp, || {
            again.look();
            thread_name::check();
        });
        block::run_destructors();
        arch::set_thread_pointer(own);
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
    match checks.iter().find(|(ok, _)| !ok) {
        None => Ok(()),
        Some((_, what)) => Err((*what).to_string()),
    }
}

/// A new block, and where the memory begins that it takes for its stack. Both stay mapped: a malloc arena may
/// refer to the block's cache.
fn new_block(layout: &Layout) -> Result<(usize, usize), String> {
    let (below, above, align) = (layout.below, layout.above, layout.align);
    let size = (below + above + align).next_multiple_of(mem::PAGE);
    let memory = mem::reserve(size).map_err(|e| e.to_string())?;
    let tp = (memory + below).next_multiple_of(align);
    // SAFETY: fresh zeroed memory of the right size and alignment.
    unsafe { block::create(tp, memory, size) }.map_err(|e| e.to_string())?;
    Ok((tp, memory))
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
        let offset = super::MARK.with(std::ptr::from_ref) as isize - crate::arch::thread_pointer() as isize;
        super::run(offset).unwrap();
    }
}
