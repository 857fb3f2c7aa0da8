//! [`Barrier`]: a number of goroutines or threads wait for each other until all have arrived.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::raw::waitq::{GRANTED, Node, Queue};
use crate::base::lock::{Lock, Rank, Ranked};
use crate::sched::word::status::WaitReason;

/// Lets a number of goroutines or threads wait for each other, with std's API. It can be used any number of
/// times.
///
/// ```
/// use gort::sync::Barrier;
/// let barrier = Barrier::new(3);
/// let leaders: usize = std::thread::scope(|s| {
///     let all: Vec<_> = (0..3).map(|_| s.spawn(|| barrier.wait().is_leader())).collect();
///     all.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
/// });
/// assert_eq!(leaders, 1);
/// ```
pub struct Barrier {
    size: usize,
    meeting: Lock<Meeting>,
}

struct Meeting {
    /// The number of waiters in the queue.
    here: usize,
    queue: Queue,
}

impl Ranked for Meeting {
    const RANK: Rank = Rank::Alone;
}

/// Distinguishes the caller that arrived last, the leader, from the others.
///
/// ```
/// assert!(gort::sync::Barrier::new(1).wait().is_leader());
/// ```
#[derive(Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for exactly one of the callers that met: the one that arrived last.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// A barrier for `n` callers. With 0 or 1 nobody ever waits.
    #[must_use]
    pub const fn new(n: usize) -> Barrier {
        Barrier { size: n, meeting: Lock::new(Meeting { here: 0, queue: Queue::new() }) }
    }

    /// Waits until all callers have arrived. The last one does not wait; it is the leader.
    pub fn wait(&self) -> BarrierWaitResult {
        let node = Node::new(0);
        let mut meeting = self.meeting.lock();
        if meeting.here + 1 >= self.size {
            meeting.here = 0;
            let all = meeting.queue.take_all(GRANTED);
            drop(meeting);
            all.ready_all();
            return BarrierWaitResult(true);
        }
        meeting.here += 1;
        // SAFETY: without a deadline, we keep the node until a waker has claimed and readied it.
        unsafe { meeting.queue.push_back(node.link()) };
        drop(meeting);
        let claim = node.park(WaitReason::Barrier, std::ptr::from_ref(self) as usize, None);
        debug_assert_eq!(claim, GRANTED);
        BarrierWaitResult(false)
    }
}

// As for std's primitives: a panic never leaves it half-changed.
impl RefUnwindSafe for Barrier {}
impl UnwindSafe for Barrier {}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}
