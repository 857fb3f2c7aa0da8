//! Group "chan": channels, select, locks, timers.

use compare_common::{
    Args, LOCKERS, Lateness, Lcg, Outcome, RING, Report, nth_prime, sieve_messages, skynet_nodes, skynet_sum,
    warm_then_time,
};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use std::hint::black_box;
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

pub fn pingpong(args: &Args) -> Outcome {
    let n = args.size(50_000);
    let time = warm_then_time(n, |n| {
        let (ping, pinged) = sync_channel(0);
        let (pong, ponged) = sync_channel(0);
        let echo = thread::spawn(move || pinged.iter().for_each(|v: u64| pong.send(v).unwrap()));
        for i in 0..n {
            ping.send(i).unwrap();
            assert_eq!(ponged.recv(), Ok(i));
        }
        drop(ping);
        echo.join().unwrap();
    });
    Ok(Report::new(n, time))
}

pub fn pingpong_queue(args: &Args) -> Outcome {
    let n = args.size(50_000);
    let time = warm_then_time(n, |n| {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        let echo = thread::spawn(move || pinged.iter().for_each(|v: u64| pong.send(v).unwrap()));
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
    let n = args.size(1_000_000);
    let time = warm_then_time(n, |n| {
        let (tx, rx) = sync_channel(128);
        let sender = thread::spawn(move || (0..n).for_each(|i| tx.send(i).unwrap()));
        assert_eq!(rx.iter().count() as u64, n);
        sender.join().unwrap();
    });
    Ok(Report::new(n, time))
}

pub fn mpmc(args: &Args) -> Outcome {
    let each = args.size(1_000_000) / 4;
    let time = warm_then_time(each, |each| {
        let (tx, rx) = bounded(128);
        let receivers: Vec<JoinHandle<usize>> = (0..4)
            .map(|_| {
                let (tx, rx): (Sender<u64>, Receiver<u64>) = (tx.clone(), rx.clone());
                thread::spawn(move || (0..each).for_each(|i| tx.send(i).unwrap()));
                thread::spawn(move || rx.iter().count())
            })
            .collect();
        drop((tx, rx));
        let received: usize = receivers.into_iter().map(|h| h.join().unwrap()).sum();
        assert_eq!(received as u64, 4 * each);
    });
    Ok(Report::new(4 * each, time))
}

pub fn skynet_chan(args: &Args) -> Outcome {
    let leaves = args.size(1000);
    let time = warm_then_time(leaves, |leaves| {
        let (tx, rx) = sync_channel(0);
        thread::spawn(move || node(tx, 0, leaves));
        assert_eq!(rx.recv(), Ok(skynet_sum(leaves)));
    });
    Ok(Report::new(skynet_nodes(leaves), time))
}

fn node(up: SyncSender<u64>, first: u64, leaves: u64) {
    if leaves <= 1 {
        return up.send(first).unwrap();
    }
    let (tx, rx) = sync_channel(0);
    let part = leaves / 10;
    for i in 0..10 {
        let tx = tx.clone();
        thread::spawn(move || node(tx, first + i * part, part));
    }
    drop(tx);
    up.send(rx.iter().sum()).unwrap();
}

pub fn sieve(args: &Args) -> Outcome {
    let n = args.size(200);
    let time = warm_then_time(n, |n| {
        let last = nth_prime(n);
        let (tx, mut from) = sync_channel(0);
        thread::spawn(move || (2..=last).for_each(|i| tx.send(i).unwrap()));
        let mut found = 0;
        while let Ok(prime) = from.recv() {
            found += 1;
            let (to, next) = sync_channel(0);
            let source = std::mem::replace(&mut from, next);
            thread::spawn(move || {
                source.iter().filter(|v| v % prime != 0).for_each(|v: u64| to.send(v).unwrap())
            });
        }
        assert_eq!(found, n);
    });
    Ok(Report::new(sieve_messages(n), time))
}

fn ready(cases: usize) -> Vec<(Sender<u64>, Receiver<u64>)> {
    let channels: Vec<_> = (0..cases).map(|_| bounded(1)).collect();
    channels.iter().for_each(|(tx, _)| tx.send(0).unwrap());
    channels
}

pub fn select_ready2(args: &Args) -> Outcome {
    let n = args.size(3_000_000);
    let time = warm_then_time(n, |n| {
        let c = ready(2);
        for _ in 0..n {
            select! {
                recv(c[0].1) -> v => c[0].0.send(v.unwrap()).unwrap(),
                recv(c[1].1) -> v => c[1].0.send(v.unwrap()).unwrap(),
            }
        }
    });
    Ok(Report::new(n, time))
}

pub fn select_ready8(args: &Args) -> Outcome {
    let n = args.size(3_000_000);
    let time = warm_then_time(n, |n| {
        let c = ready(8);
        for _ in 0..n {
            select! {
                recv(c[0].1) -> v => c[0].0.send(v.unwrap()).unwrap(),
                recv(c[1].1) -> v => c[1].0.send(v.unwrap()).unwrap(),
                recv(c[2].1) -> v => c[2].0.send(v.unwrap()).unwrap(),
                recv(c[3].1) -> v => c[3].0.send(v.unwrap()).unwrap(),
                recv(c[4].1) -> v => c[4].0.send(v.unwrap()).unwrap(),
                recv(c[5].1) -> v => c[5].0.send(v.unwrap()).unwrap(),
                recv(c[6].1) -> v => c[6].0.send(v.unwrap()).unwrap(),
                recv(c[7].1) -> v => c[7].0.send(v.unwrap()).unwrap(),
            }
        }
    });
    Ok(Report::new(n, time))
}

/// Sends in turn on each of `cases` rendezvous channels, so that the select mostly blocks on all of them.
fn fed(cases: usize, n: u64) -> Vec<Receiver<u64>> {
    let (tx, rx): (Vec<_>, Vec<_>) = (0..cases).map(|_| bounded(0)).unzip();
    thread::spawn(move || (0..n).for_each(|i| tx[i as usize % tx.len()].send(i).unwrap()));
    rx
}

pub fn select_blocked2(args: &Args) -> Outcome {
    let n = args.size(50_000);
    let time = warm_then_time(n, |n| {
        let c = fed(2, n);
        for _ in 0..n {
            black_box(select! { recv(c[0]) -> v => v.unwrap(), recv(c[1]) -> v => v.unwrap() });
        }
    });
    Ok(Report::new(n, time))
}

pub fn select_blocked8(args: &Args) -> Outcome {
    let n = args.size(50_000);
    let time = warm_then_time(n, |n| {
        let c = fed(8, n);
        for _ in 0..n {
            black_box(select! {
                recv(c[0]) -> v => v.unwrap(), recv(c[1]) -> v => v.unwrap(),
                recv(c[2]) -> v => v.unwrap(), recv(c[3]) -> v => v.unwrap(),
                recv(c[4]) -> v => v.unwrap(), recv(c[5]) -> v => v.unwrap(),
                recv(c[6]) -> v => v.unwrap(), recv(c[7]) -> v => v.unwrap(),
            });
        }
    });
    Ok(Report::new(n, time))
}

pub fn mutex(args: &Args) -> Outcome {
    let each = args.size(20_000_000) / LOCKERS;
    let time = warm_then_time(each, |each| {
        let counter = Arc::new(Mutex::new(0));
        let lockers: Vec<_> = (0..LOCKERS)
            .map(|_| {
                let counter = counter.clone();
                thread::spawn(move || (0..each).for_each(|_| *counter.lock().unwrap() += 1))
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
                thread::spawn(move || {
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
    let n = args.size(2000);
    let late = Lateness::begin();
    let sleepers: Vec<_> = (0..n)
        .map(|i| {
            thread::spawn(move || {
                let mut random = Lcg::new(i);
                let mut mine = 0;
                for want in random.naps() {
                    let before = Instant::now();
                    thread::sleep(want);
                    mine += (before.elapsed() - want).as_nanos() as u64;
                }
                mine
            })
        })
        .collect();
    let total = sleepers.into_iter().map(|h| h.join().unwrap()).sum();
    Ok(late.report(n, total))
}

pub fn ring(args: &Args) -> Outcome {
    let laps = args.size(50_000) / RING;
    let time = warm_then_time(laps, |laps| {
        let (first, mut from) = sync_channel(0);
        for _ in 1..RING {
            let (to, next) = sync_channel(0);
            let source = std::mem::replace(&mut from, next);
            thread::spawn(move || source.iter().for_each(|v: u64| to.send(v + 1).unwrap()));
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
