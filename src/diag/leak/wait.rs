//! What a goroutine waits for.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::chan::waitq::ELSEWHERE;
use crate::chan::{counter, engine};
use crate::sched::park::wait::WaitPlace;
use crate::sched::park::wait_queue::is_queued;
use crate::sched::types::g::G;
use crate::sched::types::status::Status;
use crate::sched::types::wait_reason::WaitReason;
use crate::sync::Blockers;

/// No target is longer (bytes).
pub(super) const LONGEST: usize = 2048;

/// Selects of more operations than this are not looked at.
const MOST_CASES: usize = 16;

/// What a candidate waits for.
pub(super) enum Wait {
    /// Nothing that could come.
    Nothing,
    /// One of the addresses of this allocation.
    Target(Range<usize>),
    /// The cases of a select.
    Select(&'static WaitPlace),
    /// The info of a goroutine.
    Join(usize),
    /// A lock.
    Lock(Blockers),
}

impl Wait {
    /// For what it waits, if that can be told: a goroutine that is switched out, while everybody is stopped.
    pub(super) fn of(g: &'static G) -> Option<Wait> {
        if g.status() != Status::Waiting || !g.park.is_parked() {
            return None;
        }
        // SAFETY: it has not ended, and everybody is stopped.
        let limited = unsafe { g.info() }.is_none_or(|info| !info.limit.load(Ordering::Relaxed).is_null());
        if g.wait_is_timed() || limited || g.bubble.get() != 0 {
            return None;
        }
        let (reason, object) = (g.wait_reason(), g.wait_object.load(Ordering::Relaxed));
        match reason {
            WaitReason::SelectNoCases => return Some(Wait::Nothing),
            WaitReason::Join => return Some(Wait::Join(object)),
            WaitReason::ChanReceive if object == 0 => return Some(Wait::Nothing),
            WaitReason::ChanReceive if object == ELSEWHERE => return None,
            _ => {}
        }
        // SAFETY: all the reasons below come with a place.
        let place = || unsafe { WaitPlace::at(object) };
        // SAFETY: the node is on the stack of the goroutine, which waits.
        let queued = |place: &WaitPlace| unsafe { is_queued(place.node) };
        match reason {
            WaitReason::ChanReceive | WaitReason::ChanSend => {
                let place = place();
                if place.object == ELSEWHERE || !queued(place) {
                    return None;
                }
                // SAFETY: the channel that it waits for is alive.
                let (range, gone) =
                    unsafe { (counter::allocation(place.object), counter::is_disconnected(place.object)) };
                (range.len() <= LONGEST && !gone).then_some(Wait::Target(range))
            }
            WaitReason::Select => {
                let place = place();
                let (mut count, mut known) = (0, true);
                // SAFETY: it waits there, and everybody is stopped.
                for object in unsafe { engine::objects(place) } {
                    count += 1;
                    known &= object.is_some_and(|object| {
                        // SAFETY: a channel of a waiting select is alive.
                        object == 0 || unsafe { counter::allocation(object) }.len() <= LONGEST
                    });
                }
                (known && count <= MOST_CASES).then_some(Wait::Select(place))
            }
            // Its clones point to the counts before it.
            WaitReason::WaitGroup => Some(place()).filter(|place| queued(place)).map(|place| {
                Wait::Target(place.object - 2 * size_of::<usize>()..place.object + size_of::<usize>())
            }),
            // SAFETY: it waits there, and everybody is stopped.
            _ => unsafe { Blockers::of_wait(reason, object).map(Wait::Lock) },
        }
    }
}
