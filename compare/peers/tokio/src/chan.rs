//! Group "chan": channels, select, locks, timers.
//!
//! Tokio has no rendezvous channel; a channel with a capacity of 1 is the closest substitute.

use crate::{run, warm_then_time};
use compare_common::{
    Args, LOCKERS, Lateness, Lcg, Outcome, RING, Report, nth_prime, sieve_messages, skynet_nodes, skynet_sum,
};
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tokio::select;
use tokio::sync::mpsc::{Receiver, Sender, channel, unbounded_channel};
use tokio::sync::{Mutex, RwLock};

pub fn pingpong(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let (ping, mut pinged) = channel(1);
        let (pong, mut ponged) = channel(1);
        tokio::spawn(async move {
            while let Some(v) = pinged.recv().await {
                pong.send(v).await.unwrap();
            }
        });
        for i in 0..n {
            ping.send(i).await.unwrap();
            assert_eq!(ponged.recv().await, Some(i));
        }
    });
    Ok(Report::new(n, time))
}

pub fn pingpong_queue(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let (ping, mut pinged) = unbounded_channel();
        let (pong, mut ponged) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(v) = pinged.recv().await {
                pong.send(v).unwrap();
            }
        });
        for i in 0..n {
            ping.send(i).unwrap();
            assert_eq!(ponged.recv().await, Some(i));
        }
    });
    Ok(Report::new(n, time))
}

pub fn chan_buffered(args: &Args) -> Outcome {
    let n = args.size(5_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let (tx, mut rx) = channel(128);
        tokio::spawn(async move {
            for i in 0..n {
                tx.send(i).await.unwrap();
            }
        });
        let mut received = 0;
        while rx.recv().await.is_some() {
            received += 1;
        }
        assert_eq!(received, n);
    });
    Ok(Report::new(n, time))
}

pub fn mpmc(args: &Args) -> Outcome {
    let each = args.size(4_000_000) / 4;
    let time = warm_then_time(args, each, |each| async move {
        let (tx, rx) = async_channel::bounded(128);
        let pair = || {
            let (tx, rx) = (tx.clone(), rx.clone());
            tokio::spawn(async move {
                for i in 0..each {
                    tx.send(i).await.unwrap();
                }
            });
            tokio::spawn(async move {
                let mut received = 0;
                while rx.recv().await.is_ok() {
                    received += 1;
                }
                received
            })
        };
        let receivers: Vec<_> = (0..4).map(|_| pair()).collect();
        drop((tx, rx));
        let mut received = 0;
        for receiver in receivers {
            received += receiver.await.unwrap();
        }
        assert_eq!(received, 4 * each);
    });
    Ok(Report::new(4 * each, time))
}

pub fn skynet_chan(args: &Args) -> Outcome {
    let leaves = args.size(1_000_000);
    let time = warm_then_time(args, leaves, |leaves| async move {
        let (tx, mut rx) = channel(1);
        tokio::spawn(node(tx, 0, leaves));
        assert_eq!(rx.recv().await, Some(skynet_sum(leaves)));
    });
    Ok(Report::new(skynet_nodes(leaves), time))
}

fn node(up: Sender<u64>, first: u64, leaves: u64) -> impl Future<Output = ()> + Send {
    async move {
        if leaves <= 1 {
            return up.send(first).await.unwrap();
        }
        let (tx, mut rx) = channel(1);
        let part = leaves / 10;
        for i in 0..10 {
            tokio::spawn(node(tx.clone(), first + i * part, part));
        }
        drop(tx);
        let mut sum = 0;
        while let Some(part) = rx.recv().await {
            sum += part;
        }
        up.send(sum).await.unwrap();
    }
}

pub fn sieve(args: &Args) -> Outcome {
    let n = args.size(2000);
    let time = warm_then_time(args, n, |n| async move {
        let last = nth_prime(n);
        let (tx, mut from) = channel(1);
        tokio::spawn(async move {
            for i in 2..=last {
                tx.send(i).await.unwrap();
            }
        });
        let mut found = 0;
        while let Some(prime) = from.recv().await {
            found += 1;
            let (to, next) = channel(1);
            let mut source = std::mem::replace(&mut from, next);
            tokio::spawn(async move {
                while let Some(v) = source.recv().await {
                    if v % prime != 0 {
                        to.send(v).await.unwrap();
                    }
                }
            });
        }
        assert_eq!(found, n);
    });
    Ok(Report::new(sieve_messages(n), time))
}

async fn ready<const N: usize>() -> [(Sender<u64>, Receiver<u64>); N] {
    let channels = std::array::from_fn(|_| channel(1));
    for (tx, _) in &channels {
        tx.send(0).await.unwrap();
    }
    channels
}

pub fn select_ready2(args: &Args) -> Outcome {
    let n = args.size(3_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let [mut a, mut b] = ready().await;
        for _ in 0..n {
            select! {
                v = a.1.recv() => a.0.send(v.unwrap()).await.unwrap(),
                v = b.1.recv() => b.0.send(v.unwrap()).await.unwrap(),
            }
        }
    });
    Ok(Report::new(n, time))
}

pub fn select_ready8(args: &Args) -> Outcome {
    let n = args.size(3_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = ready().await;
        for _ in 0..n {
            select! {
                v = a.1.recv() => a.0.send(v.unwrap()).await.unwrap(),
                v = b.1.recv() => b.0.send(v.unwrap()).await.unwrap(),
                v = c.1.recv() => c.0.send(v.unwrap()).await.unwrap(),
                v = d.1.recv() => d.0.send(v.unwrap()).await.unwrap(),
                v = e.1.recv() => e.0.send(v.unwrap()).await.unwrap(),
                v = f.1.recv() => f.0.send(v.unwrap()).await.unwrap(),
                v = g.1.recv() => g.0.send(v.unwrap()).await.unwrap(),
                v = h.1.recv() => h.0.send(v.unwrap()).await.unwrap(),
            }
        }
    });
    Ok(Report::new(n, time))
}

/// Sends in turn on each of `N` channels, so that the select mostly blocks on all of them.
fn fed<const N: usize>(n: u64) -> [Receiver<u64>; N] {
    let mut senders = Vec::new();
    let receivers = std::array::from_fn(|_| {
        let (tx, rx) = channel(1);
        senders.push(tx);
        rx
    });
    tokio::spawn(async move {
        for i in 0..n {
            senders[i as usize % N].send(i).await.unwrap();
        }
        // Keep the senders: a closed channel would always be ready. The select ends first.
        std::future::pending::<()>().await;
    });
    receivers
}

pub fn select_blocked2(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let [mut a, mut b] = fed(n);
        for _ in 0..n {
            black_box(select! { v = a.recv() => v.unwrap(), v = b.recv() => v.unwrap() });
        }
    });
    Ok(Report::new(n, time))
}

pub fn select_blocked8(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = fed(n);
        for _ in 0..n {
            black_box(select! {
                v = a.recv() => v.unwrap(), v = b.recv() => v.unwrap(),
                v = c.recv() => v.unwrap(), v = d.recv() => v.unwrap(),
                v = e.recv() => v.unwrap(), v = f.recv() => v.unwrap(),
                v = g.recv() => v.unwrap(), v = h.recv() => v.unwrap(),
            });
        }
    });
    Ok(Report::new(n, time))
}

pub fn mutex(args: &Args) -> Outcome {
    let each = args.size(20_000_000) / LOCKERS;
    let time = warm_then_time(args, each, |each| async move {
        let counter = Arc::new(Mutex::new(0));
        let locker = || {
            let counter = counter.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    *counter.lock().await += 1;
                }
            })
        };
        let lockers: Vec<_> = (0..LOCKERS).map(|_| locker()).collect();
        for locker in lockers {
            locker.await.unwrap();
        }
        assert_eq!(*counter.lock().await, each * LOCKERS);
    });
    Ok(Report::new(each * LOCKERS, time))
}

pub fn mutex_free(args: &Args) -> Outcome {
    let n = args.size(50_000_000);
    let time = warm_then_time(args, n, |n| async move {
        let counter = black_box(Box::new(Mutex::new(0)));
        for _ in 0..n {
            *counter.lock().await += 1;
        }
        assert_eq!(*counter.lock().await, n);
    });
    Ok(Report::new(n, time))
}

pub fn rwlock(args: &Args) -> Outcome {
    let each = args.size(30_000_000) / LOCKERS;
    let time = warm_then_time(args, each, |each| async move {
        let counter = Arc::new(RwLock::new(0));
        let locker = || {
            let counter = counter.clone();
            tokio::spawn(async move {
                let mut seen = 0;
                for i in 0..each {
                    if i % 16 == 0 {
                        *counter.write().await += 1;
                    } else {
                        seen = seen.max(*counter.read().await);
                    }
                }
                assert!(seen <= LOCKERS * each);
            })
        };
        let lockers: Vec<_> = (0..LOCKERS).map(|_| locker()).collect();
        for locker in lockers {
            locker.await.unwrap();
        }
    });
    Ok(Report::new(each * LOCKERS, time))
}

pub fn timers(args: &Args) -> Outcome {
    let n = args.size(100_000);
    Ok(run(args, async move {
        let late = Lateness::begin();
        let sleeper = |i| {
            tokio::spawn(async move {
                let mut mine = 0;
                for want in Lcg::new(i).naps() {
                    let before = Instant::now();
                    tokio::time::sleep(want).await;
                    mine += before.elapsed().saturating_sub(want).as_nanos() as u64;
                }
                mine
            })
        };
        let sleepers: Vec<_> = (0..n).map(sleeper).collect();
        let mut total = 0;
        for sleeper in sleepers {
            total += sleeper.await.unwrap();
        }
        late.report(n, total)
    }))
}

pub fn ring(args: &Args) -> Outcome {
    let laps = args.size(2_000_000) / RING;
    let time = warm_then_time(args, laps, |laps| async move {
        let (first, mut from) = channel(1);
        for _ in 1..RING {
            let (to, next) = channel(1);
            let mut source = std::mem::replace(&mut from, next);
            tokio::spawn(async move {
                while let Some(v) = source.recv().await {
                    to.send(v + 1).await.unwrap();
                }
            });
        }
        for _ in 0..laps {
            first.send(1).await.unwrap();
            assert_eq!(from.recv().await, Some(RING));
        }
        drop(first);
        assert_eq!(from.recv().await, None);
    });
    Ok(Report::new(laps * RING, time))
}
