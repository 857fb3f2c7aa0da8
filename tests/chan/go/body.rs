//! Behaviours of Go's channels, after four of Go's own programs: which operations block (`select3`), what a
//! closed channel does in every kind of operation (`closedchan`), messages handed over by short-lived
//! goroutines (`chanbarrier_test`), and which operation happens before which (`race_chan_test`).
//!
//! Intended differences: sending on a closed channel, which panics in Go, returns the message in an error;
//! closing a channel twice, which panics in Go, returns false. gort has no nil channels: `never()`, or a
//! channel whose other side does nothing, takes their place.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::time::Duration;

use gort::chan::{
    Receiver, RecvError, RecvTimeoutError, Select, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, never, select, unbounded,
};

use super::{go, test};

/// Long enough to see that an operation waits. No partner will ever come, so the value cannot be too short.
const MOMENT: Duration = Duration::from_millis(2);

/// A sender to a channel that nobody receives from: Go's nil channel, for sending.
fn nil_sender() -> (Sender<i32>, Receiver<i32>) {
    bounded(0)
}

mod select3 {
    use super::{test, *};

    #[test]
    fn a_nil_channel_blocks_and_is_never_selected() {
        let (s, _r) = nil_sender();
        let r = never::<i32>();
        assert_eq!(s.send_timeout(7, MOMENT), Err(SendTimeoutError::Timeout(7)));
        assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        select! { send(s, 7) -> _ => unreachable!(), default => {} }
        select! { recv(r) -> _ => unreachable!(), default => {} }
        select! { send(s, 7) -> _ => unreachable!(), recv(r) -> _ => unreachable!(), default(MOMENT) => {} }
        select! { send(s, 7) -> _ => unreachable!(), default(MOMENT) => {} }
        select! { recv(r) -> _ => unreachable!(), default(MOMENT) => {} }
    }

    #[test]
    fn a_channel_with_room_takes_and_one_with_messages_gives() {
        let (s, r) = bounded(1);
        assert_eq!(s.send(7), Ok(()));
        assert_eq!(r.recv(), Ok(7));
        select! { send(s, 8) -> res => res.unwrap(), default => unreachable!() }
        select! { recv(r) -> msg => assert_eq!(msg, Ok(8)), default => unreachable!() }
        let (idle, _r) = nil_sender();
        select! { send(s, 9) -> res => res.unwrap(), send(idle, 1) -> _ => unreachable!() }
        select! { recv(r) -> msg => assert_eq!(msg, Ok(9)), send(idle, 1) -> _ => unreachable!() }
    }

    #[test]
    fn a_channel_without_a_partner_room_or_messages_blocks() {
        let (s, r) = bounded::<i32>(0);
        assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        assert_eq!(s.send_timeout(1, MOMENT), Err(SendTimeoutError::Timeout(1)));
        select! { recv(r) -> _ => unreachable!(), default(MOMENT) => {} }
        let (s, r) = bounded(1);
        assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        s.send(1).unwrap();
        assert_eq!(s.send_timeout(2, MOMENT), Err(SendTimeoutError::Timeout(2)));
        select! { send(s, 2) -> _ => unreachable!(), default(MOMENT) => {} }
        let (_s, r) = unbounded::<i32>();
        assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn a_select_without_cases_blocks_and_one_with_a_default_does_not() {
        assert!(Select::new().select_timeout(MOMENT).is_err());
        assert!(Select::new().ready_timeout(MOMENT).is_err());
        select! { default => {} }
        select! { default(MOMENT) => {} }
    }

    #[test]
    fn a_closed_channel_never_blocks() {
        for (s, r) in [bounded(0), bounded(1), unbounded()] {
            s.close();
            for _ in 0..10 {
                assert_eq!(r.recv(), Err(RecvError));
                select! { recv(r) -> msg => assert_eq!(msg, Err(RecvError)) }
                assert_eq!(s.send(7), Err(SendError(7)));
                select! { send(s, 7) -> res => assert_eq!(res, Err(SendError(7))) }
            }
        }
    }

    #[test]
    fn a_select_is_not_confused_when_it_sees_itself() {
        let (s, r) = bounded(0);
        select! { send(s, 1) -> _ => unreachable!(), recv(r) -> _ => unreachable!(), default(MOMENT) => {} }
        // Two such selects meet each other.
        let (s2, r2) = (s.clone(), r.clone());
        let other = go(move || select! { send(s2, 2) -> _ => None, recv(r2) -> msg => msg.ok() });
        let own = select! { send(s, 1) -> _ => None, recv(r) -> msg => msg.ok() };
        assert!(matches!((own, other.join().unwrap()), (Some(2), None) | (None, Some(1))));
    }
}

mod closedchan {
    use super::{test, *};

    /// A way to receive: returns the message, or that no message will ever come. `None` would mean that the
    /// channel is not ready, which never happens here.
    type Recv = fn(&Receiver<i32>) -> Option<Result<i32, RecvError>>;
    /// A way to send.
    type Send = fn(&Sender<i32>, i32) -> Option<Result<(), SendError<i32>>>;

    const RECVS: &[Recv] = &[
        |r| Some(r.recv()),
        |r| match r.try_recv() {
            Err(TryRecvError::Empty) => None,
            result => Some(result.map_err(|_| RecvError)),
        },
        |r| match r.recv_timeout(Duration::ZERO) {
            Err(RecvTimeoutError::Timeout) => None,
            result => Some(result.map_err(|_| RecvError)),
        },
        |r| Some(r.iter().next().ok_or(RecvError)),
        |r| Some(r.try_iter().next().ok_or(RecvError)),
        |r| select! { recv(r) -> msg => Some(msg) },
        |r| select! { recv(r) -> msg => Some(msg), default => None },
        |r| select! { recv(r) -> msg => Some(msg), recv(never::<()>()) -> _ => None },
        |r| select! { recv(r) -> msg => Some(msg), recv(never::<()>()) -> _ => None, default => None },
        |r| {
            select! { recv(never::<()>()) -> _ => None, recv(r) -> msg => Some(msg), default(MOMENT) => None }
        },
        |r| {
            let mut sel = Select::new();
            sel.recv(r);
            sel.try_select().ok().map(|oper| oper.recv(r))
        },
        |r| {
            let mut sel = Select::new();
            sel.recv(r);
            sel.try_ready().ok().and_then(|_| match r.try_recv() {
                Err(TryRecvError::Empty) => None,
                result => Some(result.map_err(|_| RecvError)),
            })
        },
    ];

    const SENDS: &[Send] = &[
        |s, msg| Some(s.send(msg)),
        |s, msg| match s.try_send(msg) {
            Err(TrySendError::Full(_)) => None,
            result => Some(result.map_err(|err| SendError(err.into_inner()))),
        },
        |s, msg| match s.send_timeout(msg, Duration::ZERO) {
            Err(SendTimeoutError::Timeout(_)) => None,
            result => Some(result.map_err(|err| SendError(err.into_inner()))),
        },
        |s, msg| select! { send(s, msg) -> res => Some(res) },
        |s, msg| select! { send(s, msg) -> res => Some(res), default => None },
        |s, msg| select! { send(s, msg) -> res => Some(res), recv(never::<()>()) -> _ => None },
        |s, msg| {
            select! { recv(never::<()>()) -> _ => None, send(s, msg) -> res => Some(res), default => None }
        },
        |s, msg| {
            let mut sel = Select::new();
            sel.send(s);
            sel.try_select().ok().map(|oper| oper.send(s, msg))
        },
    ];

    fn looks_closed(s: &Sender<i32>, r: &Receiver<i32>) {
        for _ in 0..3 {
            for recv in RECVS {
                assert_eq!(recv(r), Some(Err(RecvError)));
            }
        }
        for send in SENDS {
            assert_eq!(send(s, 1), Some(Err(SendError(1))));
            // The message was not taken.
            assert_eq!(r.recv(), Err(RecvError));
        }
        assert_eq!((s.len(), r.len()), (0, 0));
        assert!(!s.close());
    }

    #[test]
    fn closed_without_a_buffer() {
        let (s, r) = bounded(0);
        assert!(s.close());
        looks_closed(&s, &r);
    }

    #[test]
    fn closed_with_messages_left() {
        for recv in RECVS {
            for (s, r) in [bounded(2), bounded(64), unbounded()] {
                s.send(1).unwrap();
                assert!(s.close());
                assert_eq!(recv(&r), Some(Ok(1)));
                looks_closed(&s, &r);
            }
        }
    }

    #[test]
    fn closed_while_others_wait() {
        for cap in [0, 1] {
            let (s, r) = bounded(cap);
            let receivers: Vec<_> = RECVS[..1]
                .iter()
                .chain(&RECVS[7..8])
                .map(|recv| (recv, r.clone()))
                .map(|(recv, r)| go(move || recv(&r)))
                .collect();
            s.close();
            for receiver in receivers {
                assert_eq!(receiver.join().unwrap(), Some(Err(RecvError)));
            }
            looks_closed(&s, &r);
        }
        for cap in [0, 1] {
            let (s, r) = bounded(cap);
            (0..cap).for_each(|_| s.send(7).unwrap());
            let senders: Vec<_> = SENDS[..1]
                .iter()
                .chain(&SENDS[5..6])
                .map(|send| (send, s.clone()))
                .map(|(send, s)| go(move || send(&s, 8)))
                .collect();
            s.close();
            for sender in senders {
                assert_eq!(sender.join().unwrap(), Some(Err(SendError(8))));
            }
            assert_eq!(r.try_iter().count(), cap);
            looks_closed(&s, &r);
        }
    }
}

mod chanbarrier_test {
    use super::{test, *};

    /// Asks a new goroutine for an answer, through a new channel. The answer is on the heap.
    fn request(answer: usize, with_select: bool) -> Box<[usize; 4]> {
        let (s, r) = bounded(0);
        let (_never_done, done) = bounded::<()>(0);
        let helper = go(move || {
            let message = Box::new([answer; 4]);
            if with_select {
                select! {
                    send(s, message) -> res => res.unwrap(),
                    recv(done) -> _ => {} // Its sender may be gone before the answer is taken.
                }
            } else {
                s.send(message).unwrap();
            }
        });
        let answer = r.recv();
        helper.join().unwrap();
        answer.expect("the sender of `done` is still there")
    }

    fn many(with_select: bool) {
        let clients: Vec<_> = (0..10)
            .map(|client| {
                go(move || {
                    for i in 0..200 {
                        let answer = client * 1000 + i;
                        assert_eq!(*request(answer, with_select), [answer; 4]);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    }

    #[test]
    fn answers_arrive_whole() {
        many(false);
    }

    #[test]
    fn answers_arrive_whole_through_selects() {
        many(true);
    }
}

mod race_chan_test {
    use super::{test, *};

    /// A variable without synchronisation of its own: the channels of each test order the accesses.
    /// ThreadSanitizer reports a race if they do not.
    struct Plain<T>(UnsafeCell<T>);

    // SAFETY: the tests order their accesses by channels.
    unsafe impl<T: Send> Sync for Plain<T> {}

    impl<T: Copy> Plain<T> {
        fn new(value: T) -> Arc<Plain<T>> {
            Arc::new(Plain(UnsafeCell::new(value)))
        }

        fn set(&self, value: T) {
            // SAFETY: see the type.
            unsafe { *self.0.get() = value }
        }

        fn get(&self) -> T {
            // SAFETY: see the type.
            unsafe { *self.0.get() }
        }
    }

    const ROUNDS: usize = 300;

    #[test]
    fn a_send_happens_before_its_receive() {
        for cap in [0, 1, 10, usize::MAX] {
            for _ in 0..ROUNDS {
                let (s, r) = bounded(cap);
                let v = Plain::new(0);
                let v2 = Arc::clone(&v);
                let sender = go(move || {
                    v2.set(1);
                    s.send(()).unwrap();
                });
                r.recv().unwrap();
                assert_eq!(v.get(), 1);
                v.set(2);
                sender.join().unwrap();
            }
        }
    }

    #[test]
    fn without_a_buffer_a_receive_happens_before_the_end_of_its_send() {
        for _ in 0..ROUNDS {
            let (s, r) = bounded(0);
            let v = Plain::new(0);
            let v2 = Arc::clone(&v);
            let receiver = go(move || {
                v2.set(1);
                r.recv().unwrap();
            });
            s.send(()).unwrap();
            assert_eq!(v.get(), 1);
            v.set(2);
            receiver.join().unwrap();
        }
    }

    #[test]
    fn a_close_happens_before_the_error_it_causes() {
        let ways: [fn(&Receiver<()>); 4] = [
            |r| assert!(r.recv().is_err()),
            |r| assert_eq!(r.iter().count(), 0),
            |r| select! { recv(r) -> msg => assert!(msg.is_err()), recv(never::<()>()) -> _ => {} },
            |r| while r.try_recv() != Err(TryRecvError::Disconnected) {},
        ];
        for way in ways {
            for cap in [0, 10, usize::MAX] {
                for _ in 0..ROUNDS / 4 {
                    let (s, r) = bounded(cap);
                    let v = Plain::new(0);
                    let v2 = Arc::clone(&v);
                    let closer = go(move || {
                        v2.set(1);
                        s.close();
                    });
                    way(&r);
                    assert_eq!(v.get(), 1);
                    v.set(2);
                    closer.join().unwrap();
                }
            }
        }
    }

    #[test]
    fn a_channel_of_capacity_one_is_a_mutex() {
        type Way = fn(&Sender<()>, &Receiver<()>, &dyn Fn());
        let ways: [Way; 2] = [
            |s, r, critical| {
                s.send(()).unwrap();
                critical();
                r.recv().unwrap();
            },
            |s, r, critical| {
                select! { send(s, ()) -> res => res.unwrap(), recv(never::<()>()) -> _ => {} }
                critical();
                select! { recv(r) -> msg => msg.unwrap(), recv(never::<()>()) -> _ => {} }
            },
        ];
        for way in ways {
            let (s, r) = bounded(1);
            let v = Plain::new(0);
            let helpers: Vec<_> = (0..4)
                .map(|_| (s.clone(), r.clone(), Arc::clone(&v)))
                .map(|(s, r, v)| go(move || (0..2_000).for_each(|_| way(&s, &r, &|| v.set(v.get() + 1)))))
                .collect();
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
            assert_eq!(v.get(), 8_000);
        }
    }

    #[test]
    fn a_channel_is_a_wait_group() {
        const N: usize = 10;
        for _ in 0..ROUNDS / 10 {
            let (s, r) = bounded(N / 2);
            let data: Vec<_> = (0..N).map(|_| Plain::new(0)).collect();
            let helpers: Vec<_> = data
                .iter()
                .map(|v| {
                    s.send(()).unwrap();
                    let (v, r) = (Arc::clone(v), r.clone());
                    go(move || {
                        v.set(42);
                        r.recv().unwrap();
                    })
                })
                .collect();
            // When the channel has room for all of these, all helpers have received.
            (0..N / 2).for_each(|_| s.send(()).unwrap());
            assert!(data.iter().all(|v| v.get() == 42));
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
        }
    }

    #[test]
    fn a_send_that_waited_happens_before_its_receive() {
        for with_select in [false, true] {
            for _ in 0..ROUNDS {
                let (s, r) = bounded(1);
                s.send(None).unwrap();
                let sender = go(move || s.send(Some(Box::new(42))).unwrap());
                assert_eq!(r.recv(), Ok(None));
                let got = if with_select {
                    select! { recv(r) -> msg => msg, recv(never::<()>()) -> _ => unreachable!() }
                } else {
                    r.recv()
                };
                assert_eq!(got, Ok(Some(Box::new(42))));
                sender.join().unwrap();
            }
        }
    }

    #[test]
    fn messages_without_size_order_as_others_do() {
        for _ in 0..ROUNDS {
            let (s, r) = bounded(2);
            s.send(()).unwrap();
            s.send(()).unwrap();
            let vs = [Plain::new(0), Plain::new(0)];
            let helpers: Vec<_> = vs
                .iter()
                .map(|v| (Arc::clone(v), r.clone()))
                .map(|(v, r)| {
                    go(move || {
                        v.set(1);
                        r.recv().unwrap();
                    })
                })
                .collect();
            s.send(()).unwrap();
            s.send(()).unwrap();
            assert!(vs.iter().all(|v| v.get() == 1));
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
        }
    }

    #[test]
    fn a_producer_and_a_consumer_pass_pointers() {
        let (s, r) = bounded(0);
        let (done_s, done_r) = bounded(0);
        let consumer = go(move || {
            let sum: usize = r.iter().map(|msg: Box<usize>| *msg).sum();
            done_s.send(sum).unwrap();
        });
        (0..10_000).for_each(|i| s.send(Box::new(i)).unwrap());
        drop(s);
        assert_eq!(done_r.recv(), Ok(9_999 * 10_000 / 2));
        consumer.join().unwrap();
    }

    #[test]
    fn racing_closes_have_one_winner() {
        for cap in [0, 1, usize::MAX] {
            for _ in 0..ROUNDS {
                let (s, _r) = bounded::<()>(cap);
                let closers: Vec<_> = (0..3).map(|_| s.clone()).map(|s| go(move || s.close())).collect();
                let winners = closers.into_iter().map(|closer| closer.join().unwrap());
                assert_eq!(winners.filter(|&won| won).count(), 1);
            }
        }
    }

    /// Every message is either received or given back, however sends, receives and a close race.
    #[test]
    fn a_close_that_races_with_sends_loses_no_message() {
        type Way = fn(&Sender<Box<usize>>, Box<usize>) -> Result<(), Box<usize>>;
        let ways: [Way; 3] = [
            |s, msg| s.send(msg).map_err(SendError::into_inner),
            |s, msg| {
                select! {
                    send(s, msg) -> res => res.map_err(SendError::into_inner),
                    recv(never::<()>()) -> _ => unreachable!(),
                }
            },
            |s, mut msg| loop {
                match s.try_send(msg) {
                    Ok(()) => break Ok(()),
                    Err(TrySendError::Disconnected(msg)) => break Err(msg),
                    Err(TrySendError::Full(back)) => msg = back,
                }
            },
        ];
        for round in 0..ROUNDS / 3 {
            for cap in [0, 1, 3, usize::MAX] {
                let (s, r) = bounded(cap);
                let senders: Vec<_> = ways
                    .into_iter()
                    .map(|way| (way, s.clone()))
                    .map(|(way, s)| {
                        go(move || {
                            let mut sent = 0;
                            loop {
                                match way(&s, Box::new(sent)) {
                                    Ok(()) => sent += 1,
                                    Err(back) => {
                                        assert_eq!(*back, sent);
                                        break sent;
                                    }
                                }
                            }
                        })
                    })
                    .collect();
                let receiver = go(move || r.iter().count());
                let closer = go(move || {
                    for _ in 0..round * 10 {
                        std::hint::spin_loop();
                        let _ = (s.len(), s.capacity(), s.is_full());
                    }
                    assert!(s.close());
                });
                closer.join().unwrap();
                let sent: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
                assert_eq!(receiver.join().unwrap(), sent);
            }
        }
    }
}
