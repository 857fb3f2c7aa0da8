//! The algorithm of select: try all operations, and if none is ready, wait for all of them at once.
//!
//! 1. The select tries its operations in random order (or as listed, if it is biased) and performs the first
//!    that is ready.
//! 2. If none is ready, it queues a [`Node`] for each operation at its channel. All of these nodes share one
//!    [`Wait`]. If an operation turns out to be ready meanwhile, the select claims its own `Wait` and starts
//!    again.
//! 3. The select parks once. The waker, which makes one of the operations possible, claims the `Wait` with
//!    the number of that operation. It performs the operation (puts a message into the slot, reserves a
//!    place, or meets a receiver) and readies the select. So a select is not woken in vain, and it never has
//!    to compete for what it was woken for.
//! 4. The select takes its other nodes out of their queues.
//!
//! Two selects may wait for each other: one sends, the other receives, and the channel has no buffer. The
//! second one finds the first in the queue when it wants to queue itself. It starts again, and performs the
//! operation in step 1. If both find each other at the same time, both start again, in another random order.

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Instant;

use crate::chan::select::handle::Handle;
use crate::chan::select::rng::Dice;
use crate::chan::waitq::{Kind, Node, Outcome, sleep_until};
use crate::sched::park::channel_op::Inside;
use crate::sched::park::clock;
use crate::sched::park::limit;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, TIMED_OUT, UNCLAIMED, Wait, WaitPlace};
use crate::sched::word::status::WaitReason;

/// How many operations a select queues or takes out before it leaves the runtime for a moment, so that it can
/// be preempted: a select of very many operations must not delay preemption for long.
const AT_A_STRETCH: usize = 64;

/// The claim with which a select claims its own `Wait` in order to start again.
const AGAIN: usize = usize::MAX;

/// One operation of a select. Public for the macros, which call it a case.
#[derive(Clone)]
pub struct Op<'a> {
    pub(crate) handle: &'a dyn Handle,
    /// The index by which the user knows the operation.
    pub(crate) index: usize,
    pub(crate) slot: Slot,
}

/// Where the message of an operation goes.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// The operation is a send: its message comes later.
    Send,
    /// At this address, which only this operation uses.
    Own(*mut u8),
    /// In the slot that all receives of the select share: only one of them is performed.
    Shared,
}

impl Slot {
    #[inline]
    fn or(self, shared: *mut u8) -> *mut u8 {
        match self {
            Slot::Send => ptr::null_mut(),
            Slot::Own(slot) => slot,
            Slot::Shared => shared,
        }
    }
}

/// How long an operation waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    None,
    Until(Instant),
    Forever,
}

impl WaitLimit {
    /// Until `timeout` from now; forever if that instant cannot be represented.
    pub(crate) fn after(timeout: std::time::Duration) -> WaitLimit {
        clock::after(timeout).map_or(WaitLimit::Forever, WaitLimit::Until)
    }

    #[inline]
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            WaitLimit::Until(when) => Some(when),
            WaitLimit::None | WaitLimit::Forever => None,
        }
    }

    fn is_over(self) -> bool {
        match self {
            WaitLimit::None => true,
            WaitLimit::Until(when) => clock::now() >= when || limit::is_over(),
            WaitLimit::Forever => false,
        }
    }
}

/// The channels of a select that waits, each as [`Handle::object`] describes it. `None` for all once the wait
/// is claimed.
///
/// # Safety
/// `place` is that of a goroutine parked in a select, and nothing readies it meanwhile.
pub(crate) unsafe fn objects(place: &WaitPlace) -> impl Iterator<Item = Option<usize>> {
    // SAFETY: the goroutine is still in `wait`, which passed the addresses of its list and of its nodes.
    let (ops, first) = unsafe { (*(place.object as *const &[Op<'_>]), &*(place.node as *const Node)) };
    // SAFETY: the nodes of a select share one Wait, which is alive.
    let unclaimed = unsafe { (*first.wait()).claim() == UNCLAIMED };
    ops.iter().map(move |op| op.handle.object().filter(|_| unclaimed))
}

/// Memory for the nodes of a select that waits.
pub(crate) enum Nodes<'a> {
    /// Given by the caller; enough for all operations.
    Given(&'a mut [MaybeUninit<Node>]),
    /// Allocated when the select has to wait.
    Heap(Vec<MaybeUninit<Node>>),
}

impl Nodes<'_> {
    fn get(&mut self, count: usize) -> *mut MaybeUninit<Node> {
        match self {
            Nodes::Given(nodes) => {
                assert!(nodes.len() >= count);
                nodes.as_mut_ptr()
            }
            Nodes::Heap(nodes) => {
                nodes.reserve(count);
                nodes.as_mut_ptr()
            }
        }
    }
}

/// The order in which operations are tried: a permutation of their places in the list. Every select that is
/// not biased shuffles it.
pub(crate) type Order = [u32];

/// The identity permutation: operations are tried in the order of the list.
pub(crate) const fn in_order<const N: usize>() -> [u32; N] {
    let mut order = [0; N];
    let mut place = 0;
    while place < N {
        order[place] = place as u32;
        place += 1;
    }
    order
}

/// Performs one of the operations. Returns its place in the list and its outcome.
///
/// # Safety
/// The slots of receives have room for their messages. `shared` has room for the message of every receive
/// whose slot is `Shared`. `order` is a permutation of the places.
pub(crate) unsafe fn select(
    ops: &[Op<'_>],
    order: &mut Order,
    shared: *mut u8,
    mut nodes: Nodes<'_>,
    limit: WaitLimit,
    biased: bool,
) -> Option<(usize, Outcome)> {
    // SAFETY: the caller's promise.
    let attempt = |op: &Op<'_>| unsafe { op.handle.attempt(op.slot.or(shared)) };
    if let Some(found) = first_ready(ops, order, biased, attempt) {
        return Some(found);
    }
    loop {
        match limit {
            // Look a second time. Otherwise we would miss a message that moves, during the first look, from a
            // channel that we have not looked at yet to one that we have.
            WaitLimit::None => return first_ready(ops, order, biased, attempt),
            WaitLimit::Until(_) | WaitLimit::Forever => {}
        }
        // SAFETY: the caller's promise.
        match unsafe { wait(ops, order, shared, &mut nodes, limit.deadline(), Kind::Op) } {
            Some((_, Outcome::Retry)) | None => {}
            Some(found) => return Some(found),
        }
        if let Some(found) = first_ready(ops, order, biased, attempt) {
            return Some(found);
        }
        if limit.is_over() {
            return None;
        }
    }
}

/// Waits until one of the operations is ready, and returns its place in the list.
pub(crate) fn ready(
    ops: &[Op<'_>],
    order: &mut Order,
    mut nodes: Nodes<'_>,
    limit: WaitLimit,
    biased: bool,
) -> Option<usize> {
    let attempt = |op: &Op<'_>| if op.handle.is_ready() { Outcome::Done } else { Outcome::Pending };
    loop {
        if let Some((place, _)) = first_ready(ops, order, biased, attempt) {
            return Some(place);
        }
        if limit.is_over() {
            // The second look, for the reason given in `select`.
            return first_ready(ops, order, biased, attempt).map(|(place, _)| place);
        }
        // SAFETY: a node of kind `Watch` receives no message, so it needs no slot.
        match unsafe { wait(ops, order, ptr::null_mut(), &mut nodes, limit.deadline(), Kind::Watch) } {
            // Someone changed the time of a timer channel (`Retry`), or the wait ended without a ready
            // operation.
            Some((_, Outcome::Retry)) | None => {}
            Some((place, _)) => return Some(place),
        }
    }
}

/// Tries the operations, in random order unless biased, until one is not `Pending`.
#[inline]
fn first_ready(
    ops: &[Op<'_>],
    order: &mut Order,
    biased: bool,
    attempt: impl Fn(&Op<'_>) -> Outcome,
) -> Option<(usize, Outcome)> {
    debug_assert_eq!(ops.len(), order.len());
    let mut dice = Dice::new();
    for turn in 0..order.len() {
        let left = order.len() - turn;
        let mut place = order[turn];
        if !biased && left > 1 {
            // Draw the next operation from those that are left. (Not `swap`: it would load the place again
            // right after storing it.)
            let drawn = turn + dice.below(left);
            place = std::mem::replace(&mut order[drawn], place);
            order[turn] = place;
        }
        let place = place as usize;
        match attempt(&ops[place]) {
            Outcome::Pending => {}
            outcome => return Some((place, outcome)),
        }
    }
    None
}

/// Queues all operations, in the order in which they were tried, and parks. Of two operations at one channel,
/// the one queued first is served. Returns `None` if the deadline passed or an operation became ready
/// meanwhile.
///
/// # Safety
/// If `kind` is `Op`, the slots of receives have room for their messages.
#[cold]
unsafe fn wait(
    ops: &[Op<'_>],
    order: &Order,
    shared: *mut u8,
    nodes: &mut Nodes<'_>,
    deadline: Option<Instant>,
    kind: Kind,
) -> Option<(usize, Outcome)> {
    let reason = if ops.is_empty() { WaitReason::SelectNoCases } else { WaitReason::Select };
    if ops.is_empty() {
        sleep_until(reason, 0, deadline);
        return None;
    }
    let nodes = nodes.get(ops.len());
    // SAFETY: `nodes` has room for one node per operation.
    let node = |place: usize| unsafe { nodes.add(place).cast::<Node>() };

    let wait = Wait::new();
    let mut visit = Inside::enter();
    let mut queued = 0;
    let mut claim = UNCLAIMED;
    let mut wake_by = deadline;
    for place in order.iter().map(|&place| place as usize) {
        let op = &ops[place];
        // SAFETY: the node is ours until it is queued. The node and the wait live until the node is taken out
        // below.
        let waits = unsafe {
            node(place).write(Node::shared(&wait, FIRST_FREE_CLAIM + place, op.slot.or(shared)));
            op.handle.enqueue(&mut visit, node(place), kind)
        };
        if !waits {
            if wait.try_claim(AGAIN) {
                claim = AGAIN;
            }
            break;
        }
        queued += 1;
        if wait.claim() != UNCLAIMED {
            break;
        }
        if queued % AT_A_STRETCH == 0 {
            visit.outside(|| ());
        }
        if let Some(own) = op.handle.deadline() {
            wake_by = Some(wake_by.map_or(own, |wake_by| wake_by.min(own)));
        }
    }
    if claim == UNCLAIMED {
        // If a waker has already claimed the wait, its `ready` ends this park.
        let place = WaitPlace { object: ptr::from_ref(&ops) as usize, node: nodes as usize };
        if wake_by.is_none() {
            visit.park(reason, place.address());
            claim = wait.claim();
        } else {
            drop(visit);
            // If the caller has no deadline, `wake_by` is that of a timer channel. That is not a timeout, so
            // a context must not end this wait.
            let _unlimited = deadline.is_none().then(limit::suspend);
            claim = limit::park_until(&wait, reason, place.address(), wake_by);
        }
        visit = Inside::enter();
    }
    for (done, place) in order[..queued].iter().map(|&place| place as usize).enumerate() {
        if done % AT_A_STRETCH == AT_A_STRETCH - 1 {
            visit.outside(|| ());
        }
        if claim != FIRST_FREE_CLAIM + place {
            // SAFETY: the node was queued above, and is alive.
            unsafe { ops[place].handle.dequeue(&visit, node(place), kind) };
        }
    }
    if claim == AGAIN || claim == TIMED_OUT {
        return None;
    }
    let place = claim - FIRST_FREE_CLAIM;
    // SAFETY: the waker wrote the outcome before it readied us, and does not touch the node any more.
    Some((place, unsafe { (*node(place)).outcome() }))
}
