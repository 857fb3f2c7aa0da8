//! What a goroutine waits for, as far as the leak search understands it.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::chan::counter;
use crate::chan::select::engine;
use crate::chan::waitq::ELSEWHERE;
use crate::sched::park::wait::WaitPlace;
use crate::sched::park::wait_queue::is_queued;
use crate::sched::types::g::G;
use crate::sched::word::status::{Status, WaitReason};
use crate::sync::{Blockers, waits_for_notification};

/// Size of the largest target that is considered (bytes).
const LONGEST: usize = 2048;

/// Selects with more cases than this are not considered.
const MOST_CASES: usize = 16;

/// What a candidate waits for.
pub(super) enum Wait {
    /// Nothing can end the wait.
    Nothing,
    /// Code that has an address within this allocation can end the wait.
    Target(Range<usize>),
    /// Code that has an address within the block of the heap around this address can end the wait.
    Block(usize),
    /// The cases of a select.
    Select(&'static WaitPlace),
    /// The end of the goroutine with the `Info` at this address.
    Join(usize),
    /// A lock.
    Lock(Blockers),
}

impl Wait {
    /// What `g` waits for, if the search understands its wait. `g` is switched out, and all threads are
    /// stopped.
    pub(super) fn of(g: &'static G) -> Option<Wait> {
        if g.status() != Status::Waiting || !g.park.is_parked() {
            return None;
        }
        // SAFETY: it has not ended, and all threads are stopped.
        let info = unsafe { g.info() }?;
        let limited = !info.limit.load(Ordering::Relaxed).is_null();
        // While it is in a `join`, the second halves of its forks may use handles that lie on its stack.
        let forks = info.forks.get().is_some();
        if g.wait_is_timed() || limited || forks || g.bubble.get() != 0 {
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
        // SAFETY: for all the reasons below, the object is the address of a `WaitPlace`.
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
                    unsafe { (channel(place.object), counter::is_disconnected(place.object)) };
                (range.len() <= LONGEST && !gone).then_some(Wait::Target(range))
            }
            WaitReason::Select => {
                let place = place();
                let (mut count, mut known) = (0, true);
                // SAFETY: it waits there, and all threads are stopped.
                for object in unsafe { engine::objects(place) } {
                    count += 1;
                    known &= object.is_some_and(|object| {
                        // SAFETY: a channel of a waiting select is alive.
                        object == 0 || unsafe { channel(object) }.len() <= LONGEST
                    });
                }
                (known && count <= MOST_CASES).then_some(Wait::Select(place))
            }
            // The clones of a wait group point to the two reference counts that lie before it.
            WaitReason::WaitGroup => Some(place()).filter(|place| queued(place)).map(|place| {
                Wait::Target(place.object - 2 * size_of::<usize>()..place.object + size_of::<usize>())
            }),
            WaitReason::Condvar => {
                let place = place();
                // SAFETY: it waits there, and all threads are stopped.
                unsafe { waits_for_notification(place) }.then_some(Wait::Block(place.object))
            }
            WaitReason::Futex => {
                Some(place()).filter(|place| queued(place)).map(|place| Wait::Block(place.object))
            }
            // SAFETY: it waits there, and all threads are stopped.
            _ => unsafe { Blockers::of_wait(reason, object).map(Wait::Lock) },
        }
    }
}

/// The addresses of a channel's allocation, without its last word. Handles have the address of its beginning,
/// but malloc's lists of free memory may have that of the last word: there the next chunk begins.
///
/// # Safety
/// The channel is alive.
pub(super) unsafe fn channel(object: usize) -> Range<usize> {
    // SAFETY: the caller's promise.
    let all = unsafe { counter::allocation(object) };
    all.start..all.end - size_of::<usize>()
}
