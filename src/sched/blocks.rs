//! Small blocks of memory of one size, from the runtime's own: for what every goroutine needs one of. Taking and giving back
//! is a few instructions on the P's own list; malloc would go through the goroutine's own cache, which is cold.

use std::cell::Cell;
use std::ptr;

use super::lock::Lock;
use super::section;
use crate::sys::mem;

/// Bytes of a block; its alignment is that of a cache line.
pub(crate) const SIZE: usize = 128;
pub(crate) const ALIGN: usize = 64;

/// Blocks made at once, and the most a P keeps.
const CHUNK: usize = 512;
const PER_P: usize = 128;

/// A list of free blocks, linked through their first word.
pub(crate) struct FreeBlocks {
    head: Cell<*mut u8>,
    len: Cell<usize>,
}

// SAFETY: owned by one thread at a time: a P's owner, or who holds the lock.
unsafe impl Send for FreeBlocks {}

impl FreeBlocks {
    pub(crate) const fn new() -> FreeBlocks {
        FreeBlocks { head: Cell::new(ptr::null_mut()), len: Cell::new(0) }
    }

    #[inline]
    fn pop(&self) -> Option<*mut u8> {
        let block = self.head.get();
        if block.is_null() {
            return None;
        }
        // SAFETY: a free block's first word is the link.
        self.head.set(unsafe { *block.cast::<*mut u8>() });
        self.len.set(self.len.get() - 1);
        Some(block)
    }

    #[inline]
    fn push(&self, block: *mut u8) {
        // SAFETY: a free block is ours to write.
        unsafe { *block.cast::<*mut u8>() = self.head.get() };
        self.head.set(block);
        self.len.set(self.len.get() + 1);
    }
}

static SHARED: Lock<FreeBlocks> = Lock::new(FreeBlocks::new());

/// A block of [`SIZE`] bytes, or `None` if the kernel has no more memory.
#[inline]
pub(crate) fn take() -> Option<*mut u8> {
    if let Some(section) = section::enter() {
        let own = &section.p().blocks;
        return own.pop().or_else(|| refill(own));
    }
    let shared = SHARED.lock();
    if shared.head.get().is_null() {
        make(&shared);
    }
    shared.pop()
}

#[cold]
fn refill(own: &FreeBlocks) -> Option<*mut u8> {
    let shared = SHARED.lock_inside();
    if shared.head.get().is_null() {
        make(&shared);
    }
    for _ in 0..PER_P / 2 {
        let Some(block) = shared.pop() else { break };
        own.push(block);
    }
    own.pop()
}

fn make(list: &FreeBlocks) {
    let Ok(memory) = mem::reserve(CHUNK * SIZE) else { return };
    for i in (0..CHUNK).rev() {
        list.push((memory + i * SIZE) as *mut u8);
    }
}

/// Gives a block back.
///
/// # Safety
/// It came from [`take`], and nobody uses it any more.
#[inline]
pub(crate) unsafe fn give(block: *mut u8) {
    match section::enter() {
        Some(section) => {
            let own = &section.p().blocks;
            own.push(block);
            if own.len.get() > PER_P {
                spill(own);
            }
        }
        None => SHARED.lock().push(block),
    }
}

#[cold]
fn spill(own: &FreeBlocks) {
    let shared = SHARED.lock_inside();
    for _ in 0..PER_P / 2 {
        let Some(block) = own.pop() else { break };
        shared.push(block);
    }
}
