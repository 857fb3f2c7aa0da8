//! Taking the P away from an M whose goroutine is blocked in the kernel, without that thread's help.
//!
//! The goroutine called something that blocks without marking the call (`gort::blocking`), so its M owns a P
//! that it does not use. sysmon notices that the thread uses no CPU time while wall time passes, and takes
//! the P by this protocol:
//!
//! ```text
//! sysmon                                   the goroutine's thread, when it comes back and enters the runtime
//! D1 lock m.detaching                      E1 g.in_runtime = 1
//! D2 m.p: p -> p, leaving                  E2 compiler fence
//! D3 membarrier                            E3 p = m.p
//! D4 g.in_runtime == 0?                    E4 p is none or leaving: lock and unlock m.detaching, look again
//!    yes: m.p -> none: sysmon has the P
//!    no:  m.p -> p
//! D5 unlock
//! ```
//! The barrier D3 runs on every CPU that runs a thread of the process. Either it comes before E1 on that
//! thread: then E3 sees "leaving". Or it comes after E1: then D4 sees 1 and the P stays; if E3 saw "leaving"
//! all the same, E4 waits for D5 and finds the P again. So exactly one side has it. The goroutine's side pays
//! no barrier for this, and no system call is interrupted: a signal would make some calls fail with EINTR.
//!
//! A thread that passed E3 before D2 is inside the runtime and goes on using its P. What it reads later must
//! not depend on sysmon's steps, so "leaving" is a mark that `M::p` hides. The thread may even give the P
//! away: then the second step of D4 finds something other than what D2 stored, and changes nothing.

use std::sync::atomic::{Ordering, fence};

use crate::sched::event;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::status::Status;
use crate::sys::membarrier;

/// D4: whether the M runs a goroutine that is not inside the runtime, and has run none but that one since `p`
/// had this tick.
///
/// The second half matters because this reads two objects. After the first read, that goroutine may stop, and
/// another M may run it in user code while this one is inside the runtime with the next. But then this M has
/// changed `current` before the goroutine was published. And the goroutine comes back to this M only by a
/// choice of the scheduler, which counts a tick.
fn runs_user_code_since(m: &'static M, p: &'static P, tick: u32) -> bool {
    let Some(g) = m.current() else { return false };
    let outside = g.in_runtime.get() == 0;
    // Pairs with the release by which the goroutine was published: what its M did before is visible.
    fence(Ordering::SeqCst);
    let same = m.current().is_some_and(|now| std::ptr::eq(now, g));
    outside && same && p.tick.load(Ordering::Relaxed) == tick
}

/// Tries to take `p` from `m`. True: the caller owns it now.
pub(crate) fn detach(m: &'static M, p: &'static P) -> bool {
    if !membarrier::is_available() || m.in_user_code().is_none() || !m.detaching.try_lock() {
        return false;
    }
    let tick = p.tick.load(Ordering::Relaxed);
    let took = m.begin_detach(p) && {
        membarrier::all_threads();
        m.end_detach(p, runs_user_code_since(m, p, tick))
    };
    if took && let Some(g) = m.current() {
        g.set_status(Status::Syscall);
        m.cpu_when_detached.set(0);
        if event::is_on() {
            event::detached(m.id, p.id);
        }
    }
    m.detaching.unlock();
    took
}
