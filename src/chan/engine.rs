//! The select itself: try all operations, and if none is ready, wait for all of them at once.
//!
//! 1. The operations are tried in random order (or as listed, if biased). The first that is ready is performed.
//! 2. A [`Node`] for each is queued at its channel, all of them with one [`Wait`]. If an operation turns out to
//!    be ready meanwhile, the select claims its own `Wait` and starts again.
//! 3. The select parks once. Whoever makes an operation possible claims the `Wait` with the number of that
//!    operation, performs it (a message lies in the slot, a place is reserved, a receiver was met) and wakes
//!    the select. So a select is not woken in vain, and never has to compete for what it was woken for.
//! 4. The other nodes are taken out of their queues.
//!
//! Two selects that wait for each other (one sends, the other receives, no buffer) meet when the second is
//! queued: it finds the first and starts again, and then performs the operation as in step 1. If both do that at
//! the same time, both start again, in another order.

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Instant;

use crate::chan::handle::Handle;
use crate::chan::rng::Dice;
use crate::chan::waitq::{Kind, Node, Outcome, sleep_until};
use crate::context::ambient;
use crate::sched::reason::WaitReason;
use crate::sched::visit::Inside;
use crate::sched::waiter::{FIRST_FREE_CLAIM, Place, TIMED_OUT, UNCLAIMED, Wait};
use crate::time::clock;

/// So many operations are queued or taken out before others get a chance to preempt.
const AT_A_STRETCH: usize = 64;

/// The claim of a select that starts again.
const AGAIN: usize = usize::MAX;

/// One operation of a select. Public for the macros, which call it a case.
#[derive(Clone)]
pub struct Op<'a> {
    pub(crate) handle: &'a dyn Handle,
    /// The number by which the user knows it.
    pub(crate) index: usize,
    pub(crate) slot: Slot,
}

/// Where the message of an operation goes.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// It is a send: its message comes later.
    Send,
    /// Here.
    Own(*mut u8),
    /// Where the messages of the other receives go too: only one of them is performed.
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
pub(crate) enum Patience {
    None,
    Until(Instant),
    Forever,
}

impl Patience {
    /// Until `timeout` from now; for ever if that cannot be counted.
    pub(crate) fn after(timeout: std::time::Duration) -> Patience {
        clock::after(timeout).map_or(Patience::Forever, Patience::Until)
    }

    #[inline]
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Patience::Until(when) => Some(when),
            Patience::None | Patience::Forever => None,
        }
    }

    fn is_over(self) -> bool {
        match self {
            Patience::None => true,
            Patience::Until(when) => clock::now() >= when || ambient::is_over(),
            Patience::Forever => false,
        }
    }
}

/// The channels of a select that waits, as [`Handle::object`] says.
///
/// # Safety
/// A goroutine waits there, and nothing changes meanwhile.
pub(crate) unsafe fn objects(place: &Place) -> impl Iterator<Item = Option<usize>> {
    // SAFETY: `wait`, which is still there, passed the addresses of its list and of its nodes.
    let (ops, first) = unsafe { (*(place.object as *const &[Op<'_>]), &*(place.node as *const Node)) };
    // SAFETY: the nodes of a select have a Wait in common, which is alive.
    let unclaimed = unsafe { (*first.wait()).claim() == UNCLAIMED };
    ops.iter().map(move |op| op.handle.object().filter(|_| unclaimed))
}

/// Memory for the nodes of a select that waits.
pub(crate) enum Nodes<'a> {
    /// Enough for all operations.
    Given(&'a mut [MaybeUninit<Node>]),
    /// As it is needed.
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

/// The order in which operations are tried: their places in the list. Shuffled by every select that is not biased.
pub(crate) type Order = [u32];

/// The order of the list.
pub(crate) const fn in_order<const N: usize>() -> [u32; N] {
    let mut order = [0; N];
    let mut place = 0;
    while place < N {
        order[place] = place as u32;
        place += 1;
    }
    order
}

/// Performs one of the operations. Returns its place in the list and what it came to.
///
/// # Safety
/// The slots of receives have room for their messages; `shared` is theirs if they share it. `order` is a
/// permutation of the places.
pub(crate) unsafe fn select(
    ops: &[Op<'_>],
    order: &mut Order,
    shared: *mut u8,
    mut nodes: Nodes<'_>,
    patience: Patience,
    biased: bool,
) -> Option<(usize, Outcome)> {
    // SAFETY: the caller's.
    let attempt = |op: &Op<'_>| unsafe { op.handle.attempt(op.slot.or(shared)) };
    if let Some(found) = first_ready(ops, order, biased, attempt) {
        return Some(found);
    }
    loop {
        match patience {
            // A second look: a message that wandered from a channel not yet seen to one already seen while we
            // looked would otherwise be missed.
            Patience::None => return first_ready(ops, order, biased, attempt),
            Patience::Until(_) | Patience::Forever => {}
        }
        // SAFETY: the caller's.
        match unsafe { wait(ops, order, shared, &mut nodes, patience.deadline(), Kind::Op) } {
            Some((_, Outcome::Retry)) | None => {}
            Some(found) => return Some(found),
        }
        if let Some(found) = first_ready(ops, order, biased, attempt) {
            return Some(found);
        }
        if patience.is_over() {
            return None;
        }
    }
}

/// Waits until one of the operations is ready, and returns its place in the list.
pub(crate) fn ready(
    ops: &[Op<'_>],
    order: &mut Order,
    mut nodes: Nodes<'_>,
    patience: Patience,
    biased: bool,
) -> Option<usize> {
    let attempt = |op: &Op<'_>| if op.handle.is_ready() { Outcome::Done } else { Outcome::Pending };
    loop {
        if let Some((place, _)) = first_ready(ops, order, biased, attempt) {
            return Some(place);
        }
        if patience.is_over() {
            // The second look, as in `select`.
            return first_ready(ops, order, biased, attempt).map(|(place, _)| place);
        }
        // SAFETY: who only watches gets no message.
        match unsafe { wait(ops, order, ptr::null_mut(), &mut nodes, patience.deadline(), Kind::Watch) } {
            // A timer was set to another time.
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
            // Draw the next one from those that are left. (Not `swap`, after which the place would have to be
            // loaded from what was just stored.)
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

/// Queues all operations, in the order in which they were tried, and parks: of two that wait at one channel the first
/// is served. `None` if the time is over or an operation became ready meanwhile.
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
    // SAFETY: there is a node for each operation.
    let node = |place: usize| unsafe { nodes.add(place).cast::<Node>() };

    let wait = Wait::new();
    let mut visit = Inside::enter();
    let mut queued = 0;
    let mut claim = UNCLAIMED;
    let mut wake_by = deadline;
    for place in order.iter().map(|&place| place as usize) {
        let op = &ops[place];
        // SAFETY: the node is ours until it is queued; it lives until it is taken out below, and the wait too.
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
        // If somebody has claimed the wait already, this returns with its wake-up.
        let place = Place { object: ptr::from_ref(&ops) as usize, node: nodes as usize };
        if wake_by.is_none() {
            visit.park(reason, place.address());
            claim = wait.claim();
        } else {
            drop(visit);
            // The deadline of an operation is no timeout.
            let _unlimited = deadline.is_none().then(ambient::suspend);
            claim = ambient::park_until(&wait, reason, place.address(), wake_by);
        }
        visit = Inside::enter();
    }
    for (done, place) in order[..queued].iter().map(|&place| place as usize).enumerate() {
        if done % AT_A_STRETCH == AT_A_STRETCH - 1 {
            visit.outside(|| ());
        }
        if claim != FIRST_FREE_CLAIM + place {
            // SAFETY: queued above, and alive.
            unsafe { ops[place].handle.dequeue(&visit, node(place), kind) };
        }
    }
    if claim == AGAIN || claim == TIMED_OUT {
        return None;
    }
    let place = claim - FIRST_FREE_CLAIM;
    // SAFETY: the claimer wrote the outcome before it woke us, and does not touch the node any more.
    Some((place, unsafe { (*node(place)).outcome }))
}
