//! Tests that every message is dropped exactly once, even if a drop panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Counted, every_kind};
use crate::chan::{Sender, bounded, unbounded};

fn fill(s: &Sender<Counted>, drops: &Arc<AtomicUsize>) -> usize {
    let mut sent = 0;
    while sent < 50 && s.try_send(Counted::new(drops)).is_ok() {
        sent += 1;
    }
    // The message that did not fit was dropped.
    drops.store(0, Ordering::SeqCst);
    sent
}

#[test]
fn the_last_receiver_drops_what_is_buffered() {
    for (s, r) in every_kind() {
        let drops = Arc::default();
        let sent = fill(&s, &drops);
        let r2 = r.clone();
        drop(r);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        drop(r2);
        assert_eq!(drops.load(Ordering::SeqCst), sent);
        drop(s);
        assert_eq!(drops.load(Ordering::SeqCst), sent);
    }
}

#[test]
fn buffered_messages_outlive_the_senders() {
    for (s, r) in every_kind() {
        let drops = Arc::default();
        let sent = fill(&s, &drops);
        drop(s);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        assert_eq!(r.iter().count(), sent);
        assert_eq!(drops.load(Ordering::SeqCst), sent);
    }
}

/// Sends ten messages, of which the drops of two panic.
fn send_ten(s: &Sender<Counted>, drops: &Arc<AtomicUsize>) {
    for i in 0..10 {
        s.send(if [4, 7].contains(&i) { Counted::panicking(drops) } else { Counted::new(drops) }).unwrap();
    }
}

#[test]
fn messages_whose_drops_panic_take_no_others_with_them() {
    for sender_goes_first in [false, true] {
        for (s, r) in [bounded(10), unbounded(), bounded(usize::MAX)] {
            let drops: Arc<AtomicUsize> = Arc::default();
            send_ten(&s, &drops);
            let s = if sender_goes_first { None } else { Some(s) };
            assert!(catch_unwind(AssertUnwindSafe(|| drop(r))).is_err());
            assert_eq!(drops.load(Ordering::SeqCst), 10);
            drop(s);
            assert_eq!(drops.load(Ordering::SeqCst), 10);
            assert_eq!(Arc::strong_count(&drops), 1);
        }
    }
}

#[test]
fn messages_whose_drops_panic_do_not_abort_while_the_owner_unwinds() {
    for (s, r) in [bounded(10), unbounded()] {
        let drops: Arc<AtomicUsize> = Arc::default();
        send_ten(&s, &drops);
        let owner = AssertUnwindSafe(|| {
            let _r = r;
            panic!("the owner's own panic");
        });
        let payload = catch_unwind(owner).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"the owner's own panic"));
        assert_eq!(drops.load(Ordering::SeqCst), 10);
    }
}

#[test]
fn racing_sends_and_the_last_receiver_drop_every_message_once() {
    for round in 0..300 {
        for (s, r) in every_kind() {
            let drops: Arc<AtomicUsize> = Arc::default();
            let sent: usize = thread::scope(|scope| {
                let senders: Vec<_> = (0..2)
                    .map(|_| (s.clone(), Arc::clone(&drops)))
                    .map(|(s, drops)| {
                        scope.spawn(move || {
                            let mut made = 0;
                            loop {
                                made += 1;
                                if s.send(Counted::new(&drops)).is_err() {
                                    break made;
                                }
                            }
                        })
                    })
                    .collect();
                (0..round % 7).for_each(|_| drop(r.recv()));
                drop(r);
                senders.into_iter().map(|s| s.join().unwrap()).sum()
            });
            drop(s);
            assert_eq!(drops.load(Ordering::SeqCst), sent);
        }
    }
}
