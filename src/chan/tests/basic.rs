//! Tests of sends, receives, timeouts and closes, for every kind of channel.

use std::thread;
use std::time::{Duration, Instant};

use super::every_kind;
use crate::chan::tick;
use crate::chan::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError, TrySendError,
    after, bounded, limited_list, never, unbounded,
};
use crate::test_util::until;

#[test]
fn messages_arrive_in_order() {
    for (s, r) in every_kind() {
        thread::scope(|scope| {
            scope.spawn(move || (0..10_000).for_each(|i| s.send(i).unwrap()));
            assert!(r.iter().eq(0..10_000));
        });
    }
}

#[test]
fn every_message_arrives_once_with_many_senders_and_receivers() {
    const EACH: usize = 5_000;
    for (s, r) in every_kind() {
        let mut got = thread::scope(|scope| {
            for sender in 0..4 {
                let s = s.clone();
                scope.spawn(move || (0..EACH).for_each(|i| s.send(sender * EACH + i).unwrap()));
            }
            drop(s);
            let receivers: Vec<_> = (0..4)
                .map(|_| r.clone())
                .map(|r| scope.spawn(move || r.iter().collect::<Vec<_>>()))
                .collect();
            receivers.into_iter().flat_map(|r| r.join().unwrap()).collect::<Vec<_>>()
        });
        got.sort_unstable();
        assert!(got.into_iter().eq(0..4 * EACH));
    }
}

#[test]
fn a_bounded_channel_is_full_at_its_capacity_and_wraps_around() {
    for cap in [1, 2, 3, 4, 5, 7, 8] {
        let (s, r) = bounded(cap);
        for round in 0..20 {
            for i in 0..cap {
                assert_eq!(s.len(), i);
                assert_eq!(s.try_send(round * cap + i), Ok(()));
            }
            assert!(s.is_full() && r.is_full() && !r.is_empty());
            assert_eq!(s.try_send(0), Err(TrySendError::Full(0)));
            assert_eq!(s.send_timeout(1, Duration::ZERO), Err(SendTimeoutError::Timeout(1)));
            for i in 0..cap {
                assert_eq!(r.try_recv(), Ok(round * cap + i));
            }
            assert!(s.is_empty() && r.is_empty());
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            // Shift by one, so that the next round starts at another slot.
            s.send(0).unwrap();
            r.recv().unwrap();
        }
    }
}

#[test]
fn waiting_senders_are_served_in_the_order_of_arrival() {
    for cap in [0, 1, 3] {
        let (s, r) = bounded(cap);
        (0..cap).for_each(|i| s.send(i).unwrap());
        thread::scope(|scope| {
            for i in cap..cap + 5 {
                let clone = s.clone();
                scope.spawn(move || clone.send(i).unwrap());
                until(|| s.waiting_senders() == i - cap + 1);
            }
            for i in 0..cap + 5 {
                assert_eq!(r.recv(), Ok(i));
            }
        });
    }
}

#[test]
fn close_lets_receivers_drain_and_gives_senders_their_message_back() {
    for (s, r) in every_kind() {
        let mut buffered = 0;
        while buffered < 3 && s.try_send(buffered).is_ok() {
            buffered += 1;
        }
        assert!(s.close());
        assert!(!s.close());
        assert_eq!(s.send(9), Err(SendError(9)));
        assert_eq!(s.try_send(9), Err(TrySendError::Disconnected(9)));
        assert_eq!(s.send_timeout(9, Duration::MAX), Err(SendTimeoutError::Disconnected(9)));
        assert!(r.iter().eq(0..buffered));
        assert_eq!(r.recv(), Err(RecvError));
        assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(r.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
        drop(r);
        assert!(!s.close());
    }
}

#[test]
fn close_wakes_those_who_wait() {
    for (s, r) in every_kind::<Box<i32>>() {
        thread::scope(|scope| {
            let receivers: Vec<_> = (0..3).map(|_| scope.spawn(|| r.recv())).collect();
            until(|| s.waiting_receivers() == 3);
            assert!(s.close());
            for receiver in receivers {
                assert_eq!(receiver.join().unwrap(), Err(RecvError));
            }
        });
    }
    for cap in [0, 1, 2] {
        let (s, r) = bounded(cap);
        (0..cap).for_each(|i| s.send(Box::new(i)).unwrap());
        thread::scope(|scope| {
            let senders: Vec<_> = (0..3).map(|_| scope.spawn(|| s.send(Box::new(100)))).collect();
            until(|| s.waiting_senders() == 3);
            assert!(s.close());
            for sender in senders {
                assert_eq!(sender.join().unwrap(), Err(SendError(Box::new(100))));
            }
        });
        assert!(r.iter().map(|i| *i).eq(0..cap));
    }
}

#[test]
fn the_last_receiver_wakes_senders_and_the_last_sender_wakes_receivers() {
    let (s, r) = bounded(0);
    thread::scope(|scope| {
        let sender = scope.spawn(|| s.send(1));
        until(|| s.waiting_senders() == 1);
        drop(r);
        assert_eq!(sender.join().unwrap(), Err(SendError(1)));
    });
    for (s, r) in every_kind::<i32>() {
        thread::scope(|scope| {
            let receiver = scope.spawn(|| r.recv());
            until(|| s.waiting_receivers() == 1);
            drop(s.clone());
            drop(s);
            assert_eq!(receiver.join().unwrap(), Err(RecvError));
        });
    }
}

#[test]
fn timeouts_leave_no_trace() {
    for (s, r) in every_kind::<i32>() {
        assert_eq!(r.recv_timeout(Duration::from_millis(2)), Err(RecvTimeoutError::Timeout));
        assert_eq!(s.waiting_receivers(), 0);
        assert_eq!(
            r.recv_deadline(Instant::now() - Duration::from_millis(1)),
            Err(RecvTimeoutError::Timeout)
        );
    }
    for cap in [0, 1, 2] {
        let (s, r) = bounded(cap);
        (0..cap).for_each(|_| s.send(7).unwrap());
        assert_eq!(s.send_timeout(8, Duration::from_millis(2)), Err(SendTimeoutError::Timeout(8)));
        assert_eq!(s.waiting_senders(), 0);
        assert_eq!(r.try_iter().count(), cap);
    }
}

#[test]
fn racing_timeouts_neither_lose_nor_double_a_message() {
    const COUNT: usize = 20_000;
    for (s, r) in every_kind() {
        thread::scope(|scope| {
            scope.spawn(move || {
                for i in 0..COUNT {
                    let mut msg = i;
                    while let Err(err) = s.send_timeout(msg, Duration::from_nanos(i as u64 % 2_000)) {
                        msg = err.into_inner();
                    }
                }
            });
            for i in 0..COUNT {
                let got = loop {
                    match r.recv_timeout(Duration::from_nanos(i as u64 % 3_000)) {
                        Err(RecvTimeoutError::Timeout) => {}
                        got => break got,
                    }
                };
                assert_eq!(got, Ok(i));
            }
        });
    }
}

#[test]
fn huge_capacities_do_not_allocate_and_are_exact() {
    let (s, r) = bounded::<[u8; 64]>(usize::MAX);
    assert_eq!((s.capacity(), r.capacity()), (Some(usize::MAX), Some(usize::MAX)));
    s.send([1; 64]).unwrap();
    assert!(!s.is_full());
    assert_eq!(r.recv(), Ok([1; 64]));

    // Just above the size limit of rings.
    let (s, _r) = bounded::<u8>(crate::chan::MAX_RING_BYTES / size_of::<[usize; 2]>() + 1);
    s.send(1).unwrap();
    assert!(!s.is_full());

    let (s, r) = limited_list(2);
    s.send(1).unwrap();
    s.send(2).unwrap();
    assert!(s.is_full());
    assert_eq!(s.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(s.send_timeout(3, Duration::from_millis(1)), Err(SendTimeoutError::Timeout(3)));
    thread::scope(|scope| {
        let sender = scope.spawn(|| s.send(4));
        until(|| s.waiting_senders() == 1);
        assert_eq!(r.recv(), Ok(1));
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
    assert!(r.try_iter().eq([2, 4]));
}

/// Blocks of messages are never built on the stack: a goroutine's stack is too small for that.
#[test]
fn large_messages_need_no_large_stack() {
    crate::run(|| {
        for (s, r) in [unbounded(), bounded(usize::MAX)] {
            for n in 0..100u8 {
                s.send([n; 8192]).unwrap();
            }
            assert!((0..100).all(|n| r.recv().unwrap()[8191] == n));
        }
    });
}

#[test]
fn huge_timeouts_mean_for_ever() {
    for (s, r) in every_kind() {
        thread::scope(|scope| {
            let receiver = scope.spawn(|| r.recv_timeout(Duration::MAX));
            assert_eq!(s.send_timeout(3, Duration::MAX), Ok(()));
            assert_eq!(receiver.join().unwrap(), Ok(3));
        });
    }
    assert!(after(Duration::MAX).same_channel(&never()));
    assert!(tick(Duration::MAX).same_channel(&never()));
    // The second tick of this period lies beyond what can be represented, and taking the first must not
    // panic.
    let century = tick(Duration::from_secs(3_200_000_000));
    assert_eq!(century.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn messages_of_no_size_and_of_much_size_travel() {
    for (s, r) in every_kind::<()>() {
        thread::scope(|scope| {
            scope.spawn(move || (0..1000).for_each(|_| s.send(()).unwrap()));
            assert_eq!(r.iter().count(), 1000);
        });
    }
    for (s, r) in every_kind::<[usize; 100]>() {
        thread::scope(|scope| {
            scope.spawn(move || (0..1000).for_each(|i| s.send([i; 100]).unwrap()));
            assert!(r.iter().eq((0..1000).map(|i| [i; 100])));
        });
    }
}

#[test]
fn handles_are_what_their_messages_are() {
    fn shareable<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    shareable::<Sender<std::cell::Cell<i32>>>();
    shareable::<Receiver<std::cell::Cell<i32>>>();
    let (s, r) = unbounded::<i32>();
    assert_eq!(format!("{s:?} {r:?}"), "Sender { .. } Receiver { .. }");
    assert_eq!(
        format!("{:?} {:?} {:?}", r.iter(), r.try_iter(), r.clone().into_iter()),
        "Iter { .. } TryIter { .. } IntoIter { .. }"
    );
}
