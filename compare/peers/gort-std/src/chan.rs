//! std's channels, locks and sleeps in goroutines. But for `gort::spawn` it is the code of the std peer.

use crate::warm_then_time;
use compare_common::{Args, LOCKERS, Lateness, Lcg, Outcome, Report};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

pub fn pingpong(args: &Args) -> Outcome {
    let n = args.size(1_000_000);
    let time = warm_then_time(n, |n| {
        let (ping, pinged) = sync_channel(0);
        let (pong, ponged) = sync_channel(0);
        let echo = gort::spawn(move || pinged.iter().for_each(|v: u64| pong.send(v).unwrap()));
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
    let n = args.size(1_000_000);
    let time = warm_then_time(n, |n| {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        let echo = gort::spawn(move || pinged.iter().for_each(|v: u64| pong.send(v).unwrap()));
        for i in 0..n {
            ping.send(i).unwrap();
            assert_eq!(ponged.recv(), Ok(i));
        }
        drop(ping);
        echo.join().unwrap();
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
                gort::spawn(move || (0..each).for_each(|_| *counter.lock().unwrap() += 1))
            })
            .collect();
        lockers.into_iter().for_each(|h| h.join().unwrap());
        assert_eq!(*counter.lock().unwrap(), each * LOCKERS);
    });
    Ok(Report::new(each * LOCKERS, time))
}

pub fn timers(args: &Args) -> Outcome {
    let n = args.size(100_000);
    Ok(gort::run(move || {
        let late = Lateness::begin();
        let sleeper = |i| {
            gort::spawn(move || {
                let mut mine = 0;
                for want in Lcg::new(i).naps() {
                    let before = Instant::now();
                    thread::sleep(want);
                    mine += (before.elapsed() - want).as_nanos() as u64;
                }
                mine
            })
        };
        let sleepers: Vec<_> = (0..n).map(sleeper).collect();
        let total = sleepers.into_iter().map(|h| h.join().unwrap()).sum();
        late.report(n, total)
    }))
}
