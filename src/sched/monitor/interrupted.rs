//! Goroutines that a signal stopped between two arbitrary instructions, and that need no thread meanwhile.
//!
//! `leave` runs in the signal handler, on the M's signal stack. It makes a suspended context of the
//! interrupted code, on the goroutine's own stack (`arch`), and jumps to g0, which goes on as if the
//! goroutine had switched to it: it queues the goroutine and runs the next one. From then on the goroutine
//! is a runnable one like any other. Any M can switch to it; the switch ends in `resumed`, and then in the
//! code that was interrupted.
//!
//! - I1. The handler's frames on the signal stack are abandoned by the jump. Nothing refers to them: the
//!   handler has made no promise to the kernel but the signal mask, which `leave` restores.
//! - I2. The goroutine's stack is in use until the jump. g0 publishes the goroutine after that.
//! - I3. What the kernel keeps for each thread does not move with the goroutine: the signal mask is the
//!   same on all Ms (`preempt.rs` checks it), and the copied frame gets the signal stack of the M that
//!   resumes it. From then on to the last instruction of `gort_resume` the goroutine must not be stopped
//!   again: `in_runtime` or `SignalFrame::is_being_resumed` prevents it.

use std::ffi::c_void;

use crate::arch::{self, SignalFrame};
use crate::sched::run::schedule;
use crate::sched::types::g::{G, Switch};
use crate::sched::types::m::M;
use crate::sys::signal;

/// Bytes that must be free below a copied frame, for the functions that `resumed` calls.
const ROOM: usize = 8 << 10;

/// Stops `g`, which runs on `m` and is inside the runtime (G4), at the instruction where the signal found it.
/// Returns only if there is no room on its stack.
///
/// # Safety
/// The caller is the handler of a signal, on the thread of `m`; `frame` is what the kernel passed to it,
/// and the interrupted code runs on the stack of `g`. Nothing in the frames of the handler is needed any
/// more.
pub(crate) unsafe fn leave(m: &'static M, g: &'static G, frame: SignalFrame, why: Switch) {
    // SAFETY: the goroutine runs on its stack, and so the stack is this thread's.
    let Some(context) = (unsafe { frame.save_on_stack(g.slot.stack().start + ROOM, resumed) }) else {
        return;
    };
    g.context.set(context);
    m.why.set(why);
    schedule::log_stop(m, g, why);
    signal::set_blocked(frame.blocked_signals());
    // SAFETY: g0 waits in `run_until_idle` (I1).
    unsafe { arch::jump(m.g0.get(), schedule::nobody_stopped(m)) };
}

/// The first function after the switch to an interrupted goroutine, on its stack.
unsafe extern "C" fn resumed(first: usize, second: usize, frame: *mut c_void) -> *mut u8 {
    let m = schedule::finish_switch([first, second]);
    // SAFETY: the copy that `leave` made, which is in use until `gort_resume` has loaded it.
    let frame = unsafe { SignalFrame::new(frame) };
    frame.set_signal_stack(m.signals.get().map(|own| own.stack));
    match m.current() {
        Some(g) => g.in_runtime.as_ptr(),
        None => unreachable!("an M that runs a goroutine knows it"),
    }
}
