//! Models of `chan/flavors/array/ring.rs` alone: its slots, and the flags that stop senders and receivers.

use std::mem::{ManuallyDrop, MaybeUninit};

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::base::lock::Lock;
use crate::chan::flavors::array::ring::{CLOSED, HELD, Pop, Push, Ring, WAITING};
use crate::chan::flavors::relax::Relax;

/// A message. Loom reports it if it is leaked or dropped twice.
type Msg = Arc<usize>;

fn push(ring: &Ring<Msg>, msg: usize, ignore: usize) -> Push {
    let mut msg = ManuallyDrop::new(Arc::new(msg));
    let result = loop {
        // SAFETY: taken back below if it was not given away.
        if let Some(result) = unsafe { ring.try_push(&raw const *msg, ignore) } {
            break result;
        }
    };
    if result != Push::Done {
        // SAFETY: not given away, dropped once.
        unsafe { ManuallyDrop::drop(&mut msg) };
    }
    result
}

fn pop(ring: &Ring<Msg>, ignore: usize) -> Result<usize, Pop> {
    let mut msg = MaybeUninit::<Msg>::uninit();
    let result = loop {
        // SAFETY: a place for a message.
        if let Some(result) = unsafe { ring.try_pop(msg.as_mut_ptr(), ignore) } {
            break result;
        }
    };
    match result {
        // SAFETY: done, hence there is a message.
        Pop::Done => Ok(*unsafe { msg.assume_init() }),
        other => Err(other),
    }
}

fn push_certainly(ring: &Ring<Msg>, msg: usize) {
    let mut relax = Relax::new();
    while push(ring, msg, 0) != Push::Done {
        relax.relax();
    }
}

fn pop_certainly(ring: &Ring<Msg>) -> usize {
    let mut relax = Relax::new();
    loop {
        match pop(ring, 0) {
            Ok(msg) => break msg,
            Err(_) => relax.relax(),
        }
    }
}

pub fn one_sender_and_one_receiver_go_around() {
    for capacity in [1, 2] {
        model(move || {
            let ring = Arc::new(Ring::new(capacity));
            let sender = Arc::clone(&ring);
            let sender = thread::spawn(move || (1..=3).for_each(|msg| push_certainly(&sender, msg)));
            for expected in 1..=3 {
                assert_eq!(pop_certainly(&ring), expected);
            }
            sender.join().unwrap();
            assert_eq!(pop(&ring, 0), Err(Pop::Empty { closed: false }));
        });
    }
}

pub fn two_senders_get_different_slots() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        let senders = [1, 2].map(|msg| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || assert_eq!(push(&ring, msg, 0), Push::Done))
        });
        let mut sum = 0;
        let early = pop(&ring, 0).unwrap_or(0);
        sum += early;
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        while let Ok(msg) = pop(&ring, 0) {
            sum += msg;
        }
        assert_eq!(sum, 3);
    });
}

pub fn two_receivers_get_different_messages() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        push_certainly(&ring, 1);
        push_certainly(&ring, 2);
        let receiver = Arc::clone(&ring);
        let receiver = thread::spawn(move || pop(&receiver, 0).unwrap());
        let own = pop(&ring, 0).unwrap();
        // A third message can go where either of them was.
        push_certainly(&ring, 3);
        assert_eq!(own + receiver.join().unwrap(), 3);
        assert_eq!(pop(&ring, 0), Ok(3));
    });
}

/// The central property: a receiver that sets the flag either sees the message, or stops its sender.
pub fn a_flag_and_a_push_do_not_miss_each_other() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(1));
        let sender = Arc::clone(&ring);
        let sender = thread::spawn(move || push(&sender, 1, 0));
        let seen_empty = ring.flag_tail(WAITING).is_at(ring.head());
        let pushed = sender.join().unwrap();
        assert_eq!(seen_empty, pushed == Push::Flagged);
        if pushed == Push::Done {
            assert_eq!(pop(&ring, 0), Ok(1));
        }
    });
}

/// A sender that sets the flag of a full ring either sees the message leave, or stops its receiver.
pub fn a_flag_and_a_pop_do_not_miss_each_other() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(1));
        push_certainly(&ring, 1);
        let receiver = Arc::clone(&ring);
        let receiver = thread::spawn(move || pop(&receiver, 0));
        let head = ring.flag_head(WAITING);
        let seen_full = ring.len_between(head, ring.tail()) == 1;
        let popped = receiver.join().unwrap();
        assert_eq!(seen_full, popped == Err(Pop::Flagged));
        if popped == Err(Pop::Flagged) {
            assert_eq!(pop(&ring, WAITING), Ok(1));
        }
    });
}

/// A receiver with the lock exchanges messages in a full ring while a sender tries to push without the lock.
pub fn an_exchange_keeps_the_order_and_the_slot() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        let lock = Arc::new(Lock::new(()));
        push_certainly(&ring, 1);
        push_certainly(&ring, 2);
        ring.flag_head(WAITING);
        let sender = Arc::clone(&ring);
        let sender = thread::spawn(move || push(&sender, 9, 0));
        {
            let _guard = lock.lock();
            let mut to = MaybeUninit::<Msg>::uninit();
            let from = ManuallyDrop::new(Arc::new(3));
            // SAFETY: the ring is full, its front filled, and `head` carries the flag.
            let got = unsafe {
                ring.exchange(to.as_mut_ptr(), &raw const *from);
                to.assume_init()
            };
            assert_eq!(*got, 1);
            ring.unflag_head(WAITING);
        }
        assert_ne!(sender.join().unwrap(), Push::Done);
        assert_eq!((pop(&ring, 0), pop(&ring, 0)), (Ok(2), Ok(3)));
    });
}

pub fn nothing_is_pushed_after_a_close() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        let sender = Arc::clone(&ring);
        let sender = thread::spawn(move || push(&sender, 1, WAITING | HELD));
        ring.flag_tail(CLOSED);
        // If this finds the ring closed and empty, nothing was pushed.
        let early = pop(&ring, 0);
        let pushed = sender.join().unwrap();
        match early {
            Ok(msg) => assert_eq!((msg, pushed), (1, Push::Done)),
            Err(Pop::Empty { closed }) => assert!(closed && pushed == Push::Flagged),
            Err(other) => {
                assert_eq!((other, pushed), (Pop::Busy, Push::Done));
                assert_eq!(pop(&ring, 0), Ok(1));
            }
        }
        assert_eq!(pop(&ring, 0), Err(Pop::Empty { closed: true }));
    });
}
