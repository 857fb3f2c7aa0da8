//! Channels whose operations are futures.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use gort::chan::{Receiver, RecvError, SendError, Sender, bounded, unbounded};
use gort::future::{block_on, spawn};

use crate::common::{Watchdog, amount};
use crate::{both, foreign_block_on, poll_once};

/// Asynchronous and blocking senders and receivers share a channel. Every message arrives once.
fn exchange(cap: Option<usize>, run: fn(Pin<Box<dyn Future<Output = usize> + Send>>) -> usize) {
    let _watchdog = Watchdog::start();
    let (rounds, each) = (amount(300, 20_000), 3);
    let (s, r): (Sender<usize>, Receiver<usize>) = cap.map_or_else(unbounded, bounded);
    let mut senders = Vec::new();
    for n in 0..each {
        let (async_s, sync_s) = (s.clone(), s.clone());
        senders.push(std::thread::spawn(move || {
            run(Box::pin(async move {
                for i in 0..rounds {
                    async_s.send_async(n * rounds + i).await.unwrap();
                }
                0
            }))
        }));
        gort::spawn(move || (0..rounds).for_each(|i| sync_s.send(n * rounds + i).unwrap()));
    }
    drop(s);
    let mut receivers = Vec::new();
    for _ in 0..each {
        let (async_r, sync_r) = (r.clone(), r.clone());
        receivers.push(std::thread::spawn(move || {
            run(Box::pin(async move {
                let mut sum = 0;
                while let Ok(n) = async_r.recv_async().await {
                    sum += n;
                }
                sum
            }))
        }));
        receivers.push(std::thread::spawn(move || gort::run(move || sync_r.iter().sum())));
    }
    drop(r);
    let sum: usize = receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum();
    let total = each * rounds;
    assert_eq!(sum, total * (total - 1));
    senders.into_iter().for_each(|sender| assert_eq!(sender.join().unwrap(), 0));
}

#[test]
fn channels_without_a_buffer() {
    exchange(Some(0), |future| gort::run(|| block_on(future)));
}

#[test]
fn channels_with_a_buffer() {
    exchange(Some(3), |future| gort::run(|| block_on(future)));
}

#[test]
fn channels_without_limit() {
    exchange(None, |future| gort::run(|| block_on(future)));
}

#[test]
fn channels_and_another_runtimes_wakers() {
    exchange(Some(0), foreign_block_on);
    exchange(Some(2), foreign_block_on);
    exchange(None, foreign_block_on);
}

#[test]
fn two_futures_of_one_goroutine_meet() {
    let (s, r) = bounded(0);
    let met = both(s.send_async("hello"), r.recv_async());
    assert_eq!(block_on(met), (Ok(()), Ok("hello")));
}

#[test]
fn ends_of_channels_are_seen() {
    let _watchdog = Watchdog::start();
    for cap in [0, 1] {
        let (s, r) = bounded::<String>(cap);
        let waiting = spawn(async move { r.recv_async().await });
        drop(s);
        assert_eq!(waiting.join().unwrap(), Err(RecvError));
        let (s, r) = bounded(cap);
        (0..cap).for_each(|_| s.send(String::new()).unwrap());
        let waiting = spawn(async move { s.send_async("back".to_owned()).await });
        drop(r);
        assert_eq!(waiting.join().unwrap(), Err(SendError("back".to_owned())));
    }
}

#[test]
fn a_dropped_receive_loses_nothing() {
    let _watchdog = Watchdog::start();
    for cap in [0, 1, 7] {
        let (s, r) = bounded(cap);
        let rounds = amount(2_000, 100_000);
        let sender = gort::spawn(move || (0..rounds).for_each(|n| s.send(n).unwrap()));
        let received = gort::spawn(move || {
            let mut next = 0;
            while next < rounds {
                // Gives up after one or two polls, at an arbitrary moment.
                let mut future = pin!(r.recv_async());
                let mut polls = 0;
                let got = block_on(poll_fn(|context| match future.as_mut().poll(context) {
                    Poll::Ready(got) => Poll::Ready(Some(got.unwrap())),
                    Poll::Pending if polls == 1 => Poll::Ready(None),
                    Poll::Pending => {
                        polls += 1;
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                }));
                if let Some(got) = got {
                    assert_eq!(got, next);
                    next += 1;
                }
            }
        });
        received.join().unwrap();
        sender.join().unwrap();
    }
}

#[test]
fn a_dropped_send_drops_its_message_or_was_received() {
    let _watchdog = Watchdog::start();
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Message;
    impl Message {
        fn new() -> Message {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Message
        }
    }
    impl Drop for Message {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    for cap in [0, 1] {
        let (s, r) = bounded(cap);
        let receiver = gort::spawn(move || r.iter().count());
        gort::run(move || {
            for n in 0..amount(2_000, 100_000) {
                let mut future = Box::pin(s.send_async(Message::new()));
                for _ in 0..n % 3 {
                    if poll_once(future.as_mut()).is_ready() {
                        break;
                    }
                    gort::yield_now();
                }
                drop(future);
            }
        });
        receiver.join().unwrap();
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
}
