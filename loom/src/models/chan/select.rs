//! Models of `chan/select/engine.rs`, which runs selects, over buffered and zero-capacity channels.

use std::mem::MaybeUninit;
use std::time::Instant;

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::chan::flavors::array::Array;
use crate::chan::flavors::zero::Zero;
use crate::chan::select::engine::{self, Nodes, Op, Slot, WaitLimit, in_order};
use crate::chan::select::handle::Handle;
use crate::chan::waitq::{Kind, Node, Outcome};
use crate::sched::park::channel_op::Inside;

type Msg = Arc<usize>;

struct SendZero<'a>(&'a Zero<Msg>);
struct RecvZero<'a>(&'a Zero<Msg>);
struct SendArray<'a>(&'a Array<Msg>);
struct RecvArray<'a>(&'a Array<Msg>);

macro_rules! handle {
    ($type:ident, $attempt:expr, $enqueue:ident, $dequeue:ident, $is_ready:ident) => {
        impl Handle for $type<'_> {
            unsafe fn attempt(&self, slot: *mut u8) -> Outcome {
                $attempt(self.0, slot.cast())
            }
            fn is_ready(&self) -> bool {
                self.0.$is_ready()
            }
            fn deadline(&self) -> Option<Instant> {
                None
            }
            unsafe fn enqueue(&self, visit: &mut Inside, node: *const Node, kind: Kind) -> bool {
                // SAFETY: the caller's.
                unsafe { self.0.$enqueue(visit, node, kind) }
            }
            unsafe fn dequeue(&self, visit: &Inside, node: *const Node, kind: Kind) {
                // SAFETY: the caller's.
                unsafe { self.0.$dequeue(visit, node, kind) }
            }
            unsafe fn cancel(&self, _: Outcome, _: *mut u8) {
                unreachable!()
            }
        }
    };
}

handle!(SendZero, |chan: &Zero<Msg>, _: *mut Msg| chan.try_meet(), enqueue_send, dequeue_send, is_send_ready);
handle!(
    RecvZero,
    // SAFETY: the engine's caller vouches for the slot.
    |chan: &Zero<Msg>, slot| unsafe { chan.try_recv_to(slot) },
    enqueue_recv,
    dequeue_recv,
    is_recv_ready
);
handle!(
    SendArray,
    |chan: &Array<Msg>, _: *mut Msg| chan.try_reserve(),
    enqueue_send,
    dequeue_send,
    is_send_ready
);
handle!(
    RecvArray,
    // SAFETY: as above.
    |chan: &Array<Msg>, slot| unsafe { chan.try_recv_to(slot) },
    enqueue_recv,
    dequeue_recv,
    is_recv_ready
);

/// Selects from the operations, in their order, with one slot for all. Returns the chosen one, its outcome,
/// and the message of a receive.
fn select<const N: usize>(
    handles: [(&dyn Handle, bool); N],
    limit: WaitLimit,
) -> Option<(usize, Outcome, Option<Msg>)> {
    let mut index = 0;
    let ops = handles.map(|(handle, sends)| {
        index += 1;
        Op { handle, index: index - 1, slot: if sends { Slot::Send } else { Slot::Shared } }
    });
    let mut slot = MaybeUninit::<Msg>::uninit();
    let mut nodes = [const { MaybeUninit::uninit() }; N];
    let (shared, nodes) = (slot.as_mut_ptr().cast(), Nodes::Given(&mut nodes));
    // SAFETY: the slot fits the messages of all.
    let (place, outcome) = unsafe { engine::select(&ops, &mut in_order::<N>(), shared, nodes, limit, true)? };
    // SAFETY: done, hence there is a message.
    Some((place, outcome, (outcome == Outcome::Done).then(|| unsafe { slot.assume_init() })))
}

fn fulfil(chan: &Zero<Msg>, outcome: Outcome, msg: usize) {
    let Outcome::Peer(peer) = outcome else { panic!("{outcome:?}") };
    let msg = std::mem::ManuallyDrop::new(Arc::new(msg));
    // SAFETY: met on this channel, used once; the message is given away.
    unsafe { chan.fulfil(peer, &raw const *msg) };
}

pub fn a_select_gets_one_of_two_messages_and_leaves_the_other() {
    model(|| {
        let (a, b) = (Arc::new(Array::new(1)), Arc::new(Array::new(1)));
        let senders = [&a, &b].map(|chan| {
            let chan = Arc::clone(chan);
            thread::spawn(move || chan.send(Arc::new(1), None).unwrap())
        });
        let (place, outcome, msg) =
            select([(&RecvArray(&a), false), (&RecvArray(&b), false)], WaitLimit::Forever).unwrap();
        assert_eq!((outcome, msg.as_deref()), (Outcome::Done, Some(&1)));
        let other = if place == 0 { &b } else { &a };
        assert_eq!(*other.recv(None).unwrap(), 1);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(a.try_recv().is_err() && b.try_recv().is_err());
    });
}

pub fn a_select_meets_one_of_two_senders() {
    model(|| {
        let (a, b) = (Arc::new(Zero::new()), Arc::new(Zero::new()));
        let senders = [&a, &b].map(|chan| {
            let chan = Arc::clone(chan);
            thread::spawn(move || chan.send(Arc::new(1), None).unwrap())
        });
        let (place, outcome, msg) =
            select([(&RecvZero(&a), false), (&RecvZero(&b), false)], WaitLimit::Forever).unwrap();
        assert_eq!((outcome, msg.as_deref()), (Outcome::Done, Some(&1)));
        let other = if place == 0 { &b } else { &a };
        assert_eq!(*other.recv(None).unwrap(), 1);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Each of two selects sends and receives on the same channel: one of the two directions happens, and no
/// select meets itself.
pub fn two_selects_meet_each_other() {
    model(|| {
        let chan = Arc::new(Zero::<Msg>::new());
        let run = |chan: &Zero<Msg>| {
            let found = select([(&SendZero(chan), true), (&RecvZero(chan), false)], WaitLimit::Forever);
            let (place, outcome, msg) = found.unwrap();
            if place == 0 {
                fulfil(chan, outcome, 7);
            }
            msg.map_or(0, |msg| *msg)
        };
        let other = Arc::clone(&chan);
        let other = thread::spawn(move || run(&other));
        let own = run(&chan);
        assert_eq!(own + other.join().unwrap(), 7);
    });
}

/// A select that times out and a receiver agree about whether they met.
pub fn a_timeout_of_a_select_and_a_receiver_agree() {
    model(|| {
        let (zero, ring) = (Arc::new(Zero::<Msg>::new()), Arc::new(Array::<Msg>::new(1)));
        ring.try_send(Arc::new(1)).unwrap();
        let receiver = Arc::clone(&zero);
        let receiver = thread::spawn(move || receiver.recv(Some(Instant::now())).is_ok());
        let found =
            select([(&SendArray(&ring), true), (&SendZero(&zero), true)], WaitLimit::Until(Instant::now()));
        let met = match found {
            Some((1, outcome, _)) => {
                fulfil(&zero, outcome, 2);
                true
            }
            None => false,
            other => panic!("{:?}", other.map(|found| found.0)),
        };
        assert_eq!(met, receiver.join().unwrap());
        assert_eq!(*ring.recv(None).unwrap(), 1);
    });
}

/// The room that a receiver makes goes to the select that waits for it, and not to a sender that comes later.
pub fn a_select_that_waits_for_room_gets_it() {
    model(|| {
        let ring = Arc::new(Array::<Msg>::new(1));
        ring.try_send(Arc::new(1)).unwrap();
        let receiver = Arc::clone(&ring);
        let receiver = thread::spawn(move || *receiver.recv(None).unwrap());
        let (_, outcome, _) = select([(&SendArray(&ring), true)], WaitLimit::Forever).unwrap();
        assert_eq!(outcome, Outcome::Credit);
        assert!(ring.try_send(Arc::new(9)).is_err());
        let msg = std::mem::ManuallyDrop::new(Arc::new(2));
        assert_eq!(ring.send_reserved(&raw const *msg), Outcome::Done);
        assert_eq!(receiver.join().unwrap(), 1);
        assert_eq!(*ring.recv(None).unwrap(), 2);
    });
}

pub fn a_close_ends_a_select() {
    model(|| {
        let (a, b) = (Arc::new(Array::<Msg>::new(1)), Arc::new(Zero::<Msg>::new()));
        let closer = Arc::clone(&b);
        let closer = thread::spawn(move || assert!(closer.close()));
        let found = select([(&RecvArray(&a), false), (&RecvZero(&b), false)], WaitLimit::Forever);
        assert!(matches!(found, Some((1, Outcome::Disconnected, None))));
        closer.join().unwrap();
    });
}
