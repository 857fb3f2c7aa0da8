//! Group "chan": the workloads that need locks.

use crate::warm_then_time;
use compare_common::{Args, LOCKERS, Outcome, Report};
use gort::sync::{Mutex, RwLock};
use std::hint::black_box;
use std::sync::Arc;

pub fn mutex(args: &Args) -> Outcome {
    let each = args.size(20_000_000) / LOCKERS;
    let time = warm_then_time(each, |each| {
        let counter = Arc::new(Mutex::new(0));
        let lockers: Vec<_> = (0..LOCKERS)
            .map(|_| {
                let counter = counter.clone();
                gort::spawn(move || (0..each).for_each(|_| *counter.lock() += 1))
            })
            .collect();
        lockers.into_iter().for_each(|h| h.join().unwrap());
        assert_eq!(*counter.lock(), each * LOCKERS);
    });
    Ok(Report::new(each * LOCKERS, time))
}

pub fn mutex_free(args: &Args) -> Outcome {
    let n = args.size(50_000_000);
    let time = warm_then_time(n, |n| {
        let counter = black_box(Box::new(Mutex::new(0)));
        (0..n).for_each(|_| *counter.lock() += 1);
        assert_eq!(*counter.lock(), n);
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
                gort::spawn(move || {
                    let mut seen = 0;
                    for i in 0..each {
                        if i % 16 == 0 {
                            *counter.write() += 1;
                        } else {
                            seen = seen.max(*counter.read());
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
