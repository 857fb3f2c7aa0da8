//! The frames of a goroutine that is neither owned nor asked: of one that sleeps in an unmarked system call,
//! where a signal could make the call fail with EINTR, or of one in a run queue that should stay where it is.
//!
//! The goroutine may go on at any time; a stack that changes under the unwinder would lead it anywhere. So:
//!
//! - C1. The kernel copies the stack (/proc/self/mem), so that no read can fault.
//! - C2. Then the reader makes sure that the goroutine has not moved since before the copy: its status still
//!   has the watchdog's mark, or its thread has used no CPU time. Otherwise the copy is dropped unread.
//! - C3. The walk reads the stack only from the copy, whatever its words and the registers are
//!   (`diag/unwind_copy/`). So a wrong word, or a C2 that is wrong, leads to a wrong list and not to a fault.
//! - C4. Registers that are not known (of a thread in a system call the kernel tells only pc and sp) are
//!   unknown to the walk, too. A function whose frame is found by such a register ends it, unless that is the
//!   frame pointer and its value can be found.

use std::ptr;
use std::sync::atomic::{Ordering, fence};

use super::unwind::Frames;
use crate::arch::{self, SignalFrame, Suspended};
use crate::diag::unwind_copy::{self, Place, Words};
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::word::status::Status;
use crate::sys::inspect::{self, InKernel};
use crate::sys::thread;

const WORD: usize = size_of::<usize>();
/// A deeper stack (bytes) is not copied.
const DEEPEST: usize = 1 << 20;

/// Words of what the kernel passes to a signal handler, up to the end of the registers.
const CONTEXT: usize = 48;

/// A copy of the upper part of a stack.
struct StackCopy {
    words: Vec<usize>,
    /// Where the first word is in the original.
    start: usize,
}

impl StackCopy {
    /// Copies the stack of `g` from `sp` on. `None` if it is too deep or `has_moved` says so: C1, C2.
    fn new(sp: usize, g: &'static G, has_moved: impl FnOnce() -> bool) -> Option<StackCopy> {
        let (start, stack) = (sp & !(WORD - 1), g.slot.stack());
        if !stack.contains(&start) || stack.end - start > DEEPEST {
            return None;
        }
        let mut words = vec![0; (stack.end - start) / WORD];
        let copied = inspect::copy_memory(start, &mut words);
        // The copy comes before the look at what the goroutine does now.
        fence(Ordering::SeqCst);
        (copied && !has_moved()).then_some(StackCopy { words, start })
    }

    /// Some words of it, if it has them.
    fn read<const N: usize>(&self, address: usize) -> Option<[usize; N]> {
        let first = address.checked_sub(self.start).filter(|offset| offset.is_multiple_of(WORD))? / WORD;
        self.words.get(first..)?.first_chunk().copied()
    }

    /// The frames from `place` outwards: C3.
    fn walk(&self, place: Place) -> Frames {
        let mut frames = Frames::new();
        let found = unwind_copy::frames(Words { words: &self.words, start: self.start }, place);
        found.into_iter().for_each(|address| frames.push(address));
        frames
    }
}

/// Where the code is whose context `words` a signal handler got.
fn interrupted(mut words: [usize; CONTEXT]) -> Place {
    // SAFETY: it is long enough for the registers, which is all that is read.
    Place::stopped(&unsafe { SignalFrame::new(words.as_mut_ptr().cast()) }.registers())
}

/// The frames of `g`, which sleeps in a system call on the thread of `m`. `None` if it does not, or if it is
/// on another stack.
pub(crate) fn in_call(g: &'static G, m: &'static M) -> Option<Frames> {
    let tid = m.tid();
    let cpu = thread::cpu_nanos(tid)?;
    let InKernel::Call { sp, end, .. } = inspect::in_kernel(tid) else { return None };
    // A thread that used no CPU time was in that call all the time: C2.
    let runs_there = || m.current().is_some_and(|current| ptr::eq(current, g)) && g.in_runtime.get() == 0;
    let has_moved = || thread::cpu_nanos(tid) != Some(cpu) || !runs_there();
    Some(StackCopy::new(sp, g, has_moved)?.walk(Place::known(end, sp)))
}

/// The frames of `g`, which is in a run queue and whose status was marked. `None` if it has run since.
pub(crate) fn queued(g: &'static G) -> Option<Frames> {
    let has_moved = || !g.has_marked_status();
    let handler = match g.status() {
        Status::Preempted => g.locked_m.get().map(|m| m.interrupted.load(Ordering::Relaxed)),
        _ => None,
    };
    if let Some(context) = handler.filter(|context| !context.is_null()) {
        // The thread may go on and end, and its signal stack with it: a copy, too.
        let mut words = [0; CONTEXT];
        let readable = inspect::copy_memory(context as usize, &mut words) && !has_moved();
        let place = readable.then(|| interrupted(words))?;
        return Some(StackCopy::new(place.stack_pointer()?, g, has_moved)?.walk(place));
    }
    let context = g.context.get();
    let copy = StackCopy::new(context, g, has_moved)?;
    Some(match arch::suspended(context, copy.read(context)?) {
        Suspended::New => Frames::new(),
        Suspended::Interrupted(at) => copy.walk(interrupted(copy.read(at)?)),
        Suspended::Switched(registers) => copy.walk(Place::stopped(&registers)),
    })
}
