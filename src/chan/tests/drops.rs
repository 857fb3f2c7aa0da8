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

#[test]
fn a_message_whose_drop_panics_takes_no_other_with_it() {
    for (s, r) in [bounded(10), unbounded(), bounded(usize::MAX)] {
        let drops: Arc<AtomicUsize> = Arc::default();
        for i in 0..10 {
            s.send(if i == 4 { Counted::panicking(&drops) } else { Counted::new(&drops) }).unwrap();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(r))).is_err());
        assert_eq!(drops.load(Ordering::SeqCst), 5);
        // The other messages are dropped with the channel.
        drop(s);
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
