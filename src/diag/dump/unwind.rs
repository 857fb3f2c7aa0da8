//! Walking the frames of stopped code, whose stack is not the walker's own.
//!
//! The system's unwinder walks from its caller outwards, using the unwind tables that every function has.
//! `arch::unwind_from` is a caller whose table entry lies: it says that it was called from the place where a
//! given set of registers was taken, with those values in the registers. So the unwinder, which runs on its
//! own thread's stack, walks on into the stopped code, and only reads that stack. It allocates nothing and,
//! with glibc 2.35 and GCC 12 or newer, takes no lock, so the code may have been stopped anywhere.
//!
//! In interrupted or hand-written functions, the address from which a frame is computed may be wrong for a
//! moment. The walk ends as soon as a frame is not within the stack, or not above the last one, before
//! anything there is read.
//!
//! Rejected: running a function on the stopped stack that captures its own backtrace (it would have to leave
//! room for red zones, and need pages that `sched/monitor/shrink.rs` gave back); frame pointers (Rust's
//! standard library is built without them).

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::arch::{self, Registers};
use crate::sys::process;

/// At most this many frames of a goroutine are reported.
pub(crate) const MAX_FRAMES: usize = 64;

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut i32) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// Code addresses, the innermost frame first. For frames that made a call: an address within the call
/// instruction.
#[derive(Clone, Copy)]
pub(crate) struct Frames {
    addresses: [usize; MAX_FRAMES],
    len: usize,
}

impl Frames {
    pub(crate) const fn new() -> Frames {
        Frames { addresses: [0; MAX_FRAMES], len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends one, if there is room.
    pub(super) fn push(&mut self, address: usize) {
        if let Some(place) = self.addresses.get_mut(self.len) {
            *place = address;
            self.len += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.addresses[..self.len]
    }
}

struct Walk<'a> {
    /// Address and stack pointer of the stopped code, until the walk has reached it.
    start: Option<(usize, usize)>,
    stack: Range<usize>,
    frames: &'a mut Frames,
}

/// The frames of code that stopped with these registers. Reads nothing outside of `stack`.
///
/// # Safety
/// The code does not run on meanwhile, and `stack` is readable.
pub(crate) unsafe fn stopped(registers: &Registers, stack: Range<usize>, frames: &mut Frames) {
    frames.clear();
    if !stack.contains(&registers.sp()) {
        return;
    }
    let mut walk = Walk { start: Some((registers.pc(), registers.sp())), stack, frames };
    // SAFETY: the walk outlives the call; `registers` is valid; the rest is the caller's promise.
    unsafe { arch::unwind_from(registers, begin, (&raw mut walk).cast()) };
}

/// The frames of the caller, which runs on `stack`.
#[inline(never)]
pub(crate) fn here(stack: Range<usize>, frames: &mut Frames) {
    frames.clear();
    let mut walk = Walk { start: None, stack, frames };
    begin((&raw mut walk).cast());
}

/// Whether the system's unwinder finds tables without the loader's lock, as far as the C library is asked.
static FINDS_WITHOUT_LOCK: AtomicBool = AtomicBool::new(false);

/// Called at boot.
pub(crate) fn init() {
    // glibc 2.35 and newer have it.
    let found = process::definition(c"_dl_find_object") != 0;
    FINDS_WITHOUT_LOCK.store(found, Ordering::Relaxed);
}

/// Calls `take` with the frames of the caller, which runs on `stack`: for the event logs. The caller holds a
/// P and cannot be preempted, so there are no frames if the unwinder might wait for the loader's lock, which
/// user code may hold.
pub(crate) fn sample(stack: Range<usize>, take: &mut dyn FnMut(usize)) {
    if !FINDS_WITHOUT_LOCK.load(Ordering::Relaxed) {
        return;
    }
    let mut frames = Frames::new();
    here(stack, &mut frames);
    frames.as_slice().iter().for_each(|&address| take(address));
}

extern "C" fn begin(walk: *mut c_void) {
    // SAFETY: `step` has the right type and gets our Walk.
    unsafe { _Unwind_Backtrace(step, walk) };
}

/// Called for every frame.
extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 5;
    // SAFETY: the unwinder passes its context, and the Walk that `begin` passed.
    let (walk, address, before, stack_pointer) = unsafe {
        let mut before = 0;
        let address = _Unwind_GetIPInfo(context, &mut before);
        (&mut *walk.cast::<Walk<'_>>(), address, before != 0, _Unwind_GetCFA(context))
    };
    if let Some(start) = walk.start {
        if start != (address, stack_pointer) {
            return GO_ON; // still our own frames
        }
        walk.start = None;
    }
    if !walk.stack.contains(&stack_pointer) || address == 0 || walk.frames.len == MAX_FRAMES {
        return STOP;
    }
    // The next frame has to be above this one.
    walk.stack.start = stack_pointer + 1;
    walk.frames.push(address - usize::from(!before));
    GO_ON
}
