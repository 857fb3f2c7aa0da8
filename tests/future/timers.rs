//! Futures that wait for a time, and futures of Tokio.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan::{after, bounded, never, tick};
use gort::future::{block_on, sleep, sleep_until, spawn};

use crate::common::{Watchdog, amount, until};
use crate::{both, foreign_block_on, poll_once};

#[test]
fn sleeps_are_not_early_and_can_be_dropped() {
    let _watchdog = Watchdog::start();
    let check = |run: fn(Pin<Box<dyn Future<Output = ()>>>)| {
        let start = Instant::now();
        run(Box::pin(async {
            let mut dropped = Box::pin(sleep(Duration::from_secs(1000)));
            assert!(poll_once(dropped.as_mut()).is_pending());
            drop(dropped);
            both(sleep(Duration::from_millis(3)), sleep_until(Instant::now() + Duration::from_millis(5)))
                .await;
            let mut moved = Box::pin(sleep(Duration::MAX));
            assert!(poll_once(moved.as_mut()).is_pending());
            moved.as_mut().reset(Instant::now() + Duration::from_millis(2));
            moved.await;
        }));
        assert!(start.elapsed() >= Duration::from_millis(7));
    };
    check(block_on);
    check(foreign_block_on);
    gort::spawn(move || check(block_on)).join().unwrap();
}

#[test]
fn timers_and_tickers_are_futures() {
    let _watchdog = Watchdog::start();
    let times = || async {
        let start = Instant::now();
        let ticks = tick(Duration::from_millis(2));
        after(Duration::from_millis(3)).recv_async().await.unwrap();
        for _ in 0..3 {
            ticks.recv_async().await.unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(6));
        let timer = gort::time::Timer::new(Duration::from_secs(1000));
        let first = Arc::new(AtomicUsize::new(0));
        let mut waiting = pin!(timer.c().recv_async());
        poll_fn(|context| {
            let poll = waiting.as_mut().poll(context);
            if first.fetch_add(1, Ordering::Relaxed) == 0 {
                assert!(timer.reset(Duration::from_millis(1)), "the future that waits is told");
            }
            poll.map(|got| got.unwrap())
        })
        .await;
        let silent = never::<()>();
        assert!(poll_once(pin!(silent.recv_async())).is_pending());
    };
    block_on(times());
    gort::run(move || block_on(times()));
    foreign_block_on(times());
}

#[test]
fn many_futures_at_once() {
    let _watchdog = Watchdog::start();
    let woken = Arc::new(AtomicUsize::new(0));
    let (s, r) = bounded::<()>(0);
    let count = amount(2_000, 100_000);
    for _ in 0..count {
        let (woken, r) = (woken.clone(), r.clone());
        spawn(async move {
            both(sleep(Duration::from_millis(1)), r.recv_async()).await.1.unwrap_err();
            woken.fetch_add(1, Ordering::Relaxed);
        });
    }
    drop(s);
    until("all were woken", || woken.load(Ordering::Relaxed) == count);
}

#[cfg(feature = "tokio")]
#[test]
fn tokios_io_and_timers_inside_goroutines() {
    let _watchdog = Watchdog::start();
    use std::io::Write;
    let (listener, address) = crate::common::listen();
    let server = gort::spawn(move || {
        for _ in 0..20 {
            listener.accept().unwrap().0.write_all(b"x").unwrap();
        }
    });
    let clients: Vec<_> = (0..20)
        .map(|_| {
            gort::spawn(move || {
                gort::future::tokio(async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
                    let mut byte = [0];
                    loop {
                        stream.readable().await.unwrap();
                        match stream.try_read(&mut byte) {
                            Ok(n) => break n,
                            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                        }
                    }
                })
            })
        })
        .collect();
    assert!(clients.into_iter().all(|client| client.join().unwrap() == 1));
    server.join().unwrap();
}
