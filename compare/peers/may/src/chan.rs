//! Group "chan": channels, locks, timers.
//!
//! may's channels are unbounded; a sender never waits for room, whatever the workload says about capacity.

use crate::{go, run, warm_then_time};
use compare_common::{
    Args, LOCKERS, Lateness, Lcg, Outcome, RING, Report, nth_prime, sieve_messages, skynet_nodes, skynet_sum,
};
use may::coroutine::{self, JoinHandle};
use may::sync::mpsc::{Sender, channel};
use may::sync::{Mutex, RwLock, mpmc};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

pub fn pingpong(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    let time = warm_then_time(n, |n| {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        let echo = go(move || pinged.iter().for_each(|v: u64| pong.send(v).unwrap()));
        for i in 0..n {
            ping.send(i).unwrap();
            assert_eq!(ponged.recv(), Ok(i));
        }
        drop(ping);
        echo.join().unwrap();
    });
    Ok(Report::new(n, time))
}

pub fn chan_buffered(args: &Args) -> Outcome {
    let n = args.size(5_000_000);
    let time = warm_then_time(n, |n| {
        let (tx, rx) = channel();
        let sender = go(move || (0..n).for_each(|i| tx.send(i).unwrap()));
        assert_eq!(rx.iter().count() as u64, n);
        sender.join().unwrap();
    });
    Ok(Report::new(n, time))
}

pub fn mpmc(args: &Args) -> Outcome {
    let each = args.size(4_000_000) / 4;
    let time = warm_then_time(each, |each| {
        let (tx, rx) = mpmc::channel();
        let receivers: Vec<JoinHandle<usize>> = (0..4)
            .map(|_| {
                let (tx, rx): (mpmc::Sender<u64>, mpmc::Receiver<u64>) = (tx.clone(), rx.clone());
                go(move || (0..each).for_each(|i| tx.send(i).unwrap()));
                go(move || rx.iter().count())
            })
            .collect();
        drop((tx, rx));
        let received: usize = receivers.into_iter().map(|h| h.join().unwrap()).sum();
        assert_eq!(received as u64, 4 * each);
    });
    Ok(Report::new(4 * each, time))
}

pub fn skynet_chan(args: &Args) -> Outcome {
    let leaves = args.size(1_000_000);
    let time = warm_then_time(leaves, |leaves| {
        let (tx, rx) = channel();
        go(move || node(tx, 0, leaves));
        assert_eq!(rx.recv(), Ok(skynet_sum(leaves)));
    });
    Ok(Report::new(skynet_nodes(leaves), time))
}

fn node(up: Sender<u64>, first: u64, leaves: u64) {
    if leaves <= 1 {
        return up.send(first).unwrap();
    }
    let (tx, rx) = channel();
    let part = leaves / 10;
    for i in 0..10 {
        let tx = tx.clone();
        go(move || node(tx, first + i * part, part));
    }
    drop(tx);
    up.send(rx.iter().sum()).unwrap();
}

pub fn sieve(args: &Args) -> Outcome {
    let n = args.size(2000);
    let time = warm_then_time(n, |n| {
        let last = nth_prime(n);
        let (tx, mut from) = channel();
        go(move || (2..=last).for_each(|i| tx.send(i).unwrap()));
        let mut found = 0;
        while let Ok(prime) = from.recv() {
            found += 1;
            let (to, next) = channel();
            let source = std::mem::replace(&mut from, next);
            go(move || source.iter().filter(|v| v % prime != 0).for_each(|v: u64| to.send(v).unwrap()));
        }
        assert_eq!(found, n);
    });
    Ok(Report::new(sieve_messages(n), time))
}

pub fn mutex(args: &Args) -> Outcome {
    let each = args.size(20_000_000) / LOCKERS;
    let time = warm_then_time(each, |each| {
        let counter = Arc::new(Mutex::new(0));
        let lockers: Vec<_> = (0..LOCKERS)
            .map(|_| {
                let counter = counter.clone();
                go(move || (0..each).for_each(|_| *counter.lock().unwrap() += 1))
            })
            .collect();
        lockers.into_iter().for_each(|h| h.join().unwrap());
        assert_eq!(*counter.lock().unwrap(), each * LOCKERS);
    });
    Ok(Report::new(each * LOCKERS, time))
}

pub fn mutex_free(args: &Args) -> Outcome {
    let n = args.size(50_000_000);
    let time = warm_then_time(n, |n| {
        let counter = black_box(Box::new(Mutex::new(0)));
        (0..n).for_each(|_| *counter.lock().unwrap() += 1);
        assert_eq!(*counter.lock().unwrap(), n);
    });
    Ok(Report::new(n, time))
}

pub fn rwlock(args: &Args) -> Outcome {
    let each = args.size(30_000_000) / LOCKERS;
    let time = warm_then_time(each, |each| {
        let counter = Arc::new(RwLock::new(0));
        let lockers: Vec<_> = (0..LOCKERS)
            .map(|_| {
                let counter = counter.clone();
                go(move || {
                    let mut seen = 0;
                    for i in 0..each {
                        if i % 16 == 0 {
                            *counter.write().unwrap() += 1;
                        } else {
                            seen = seen.max(*counter.read().unwrap());
                        }
                    }
                    assert!(seen <= LOCKERS * each);
                })
            })
            .collect();
        lockers.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::new(each * LOCKERS, time))
}

pub fn timers(args: &Args) -> Outcome {
    let n = args.size(20_000);
    Ok(run(move || {
        let late = Lateness::begin();
        let sleepers: Vec<_> = (0..n)
            .map(|i| {
                go(move || {
                    let mut mine = 0;
                    for want in Lcg::new(i).naps() {
                        let before = Instant::now();
                        coroutine::sleep(want);
                        mine += before.elapsed().saturating_sub(want).as_nanos() as u64;
                    }
                    mine
                })
            })
            .collect();
        let total = sleepers.into_iter().map(|h| h.join().unwrap()).sum();
        late.report(n, total)
    }))
}

pub fn ring(args: &Args) -> Outcome {
    let laps = args.size(2_000_000) / RING;
    let time = warm_then_time(laps, |laps| {
        let (first, mut from) = channel();
        for _ in 1..RING {
            let (to, next) = channel();
            let source = std::mem::replace(&mut from, next);
            go(move || source.iter().for_each(|v: u64| to.send(v + 1).unwrap()));
        }
        for _ in 0..laps {
            first.send(1).unwrap();
            assert_eq!(from.recv(), Ok(RING));
        }
        drop(first);
        assert!(from.recv().is_err());
    });
    Ok(Report::new(laps * RING, time))
}
