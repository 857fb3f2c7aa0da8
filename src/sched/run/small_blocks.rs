//! An allocator for small blocks of one size: for the join packet that every goroutine needs. Taking a block
//! and giving it back takes a few instructions on the P's own free list; malloc would go through the
//! goroutine's own cache, which is cold.

use super::runtime_section;
use crate::base::free_list::FreeList;
use crate::sched::machine::SCHED;
use crate::sys::mem;

/// Size of a block (bytes).
pub(crate) const SIZE: usize = 128;
/// Alignment of a block: a cache line.
pub(crate) const ALIGN: usize = 64;

/// How many blocks are made at once.
const CHUNK: usize = 512;
/// The most blocks that a P keeps.
const PER_P: usize = 128;

/// A block of [`SIZE`] bytes, or `None` if the kernel has no more memory.
#[inline]
pub(crate) fn take() -> Option<*mut u8> {
    if let Some(section) = runtime_section::enter() {
        let own = &section.p().blocks;
        return own.pop().or_else(|| refill(own));
    }
    let shared = SCHED.platform.small_blocks.lock_inside();
    if shared.len() == 0 {
        make(&shared);
    }
    shared.pop()
}

#[cold]
fn refill(own: &FreeList) -> Option<*mut u8> {
    let shared = SCHED.platform.small_blocks.lock_inside();
    if shared.len() == 0 {
        make(&shared);
    }
    for _ in 0..PER_P / 2 {
        let Some(block) = shared.pop() else { break };
        // SAFETY: the block is ours.
        unsafe { own.push(block) };
    }
    own.pop()
}

fn make(list: &FreeList) {
    let Ok(memory) = mem::reserve(CHUNK * SIZE) else { return };
    for i in (0..CHUNK).rev() {
        // SAFETY: the memory is new and ours.
        unsafe { list.push((memory + i * SIZE) as *mut u8) };
    }
}

/// Gives a block back.
///
/// # Safety
/// It came from [`take`], and no thread uses it any more.
#[inline]
pub(crate) unsafe fn give(block: *mut u8) {
    match runtime_section::enter() {
        Some(section) => {
            let own = &section.p().blocks;
            // SAFETY: the caller's promise.
            unsafe { own.push(block) };
            if own.len() > PER_P {
                spill(own);
            }
        }
        // SAFETY: the caller's promise.
        None => unsafe { SCHED.platform.small_blocks.lock_inside().push(block) },
    }
}

#[cold]
fn spill(own: &FreeList) {
    let shared = SCHED.platform.small_blocks.lock_inside();
    for _ in 0..PER_P / 2 {
        let Some(block) = own.pop() else { break };
        // SAFETY: the block is ours.
        unsafe { shared.push(block) };
    }
}
