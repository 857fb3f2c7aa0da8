//! A bubble and the world around it: other bubbles, I/O, dumps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gort::chan::{bounded, unbounded};
use gort::sync::WaitGroup;
use gort::testing::{Bubble, bubble, wait};
use gort::time::{now, sleep};

use crate::common::{listen, until};
use crate::{HOUR, MS};

#[test]
fn bubbles_run_side_by_side() {
    let threads: Vec<_> = (0..4u64)
        .map(|n| {
            std::thread::spawn(move || {
                for seed in 0..50 {
                    let slept = Bubble::new().seed(seed).run(move || {
                        let start = now();
                        let group = WaitGroup::new();
                        for i in 0..10 {
                            group.go(move || sleep((i + n as u32) * MS));
                        }
                        group.wait();
                        now() - start
                    });
                    assert_eq!(slept, (9 + n as u32) * MS);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A message from outside disturbs the schedule, but none is lost.
#[test]
fn the_outside_can_wake_the_inside() {
    let (s, r) = bounded(0);
    let (answer, answers) = unbounded();
    let outside = gort::spawn(move || {
        for n in 0..100 {
            s.send(n).unwrap();
        }
    });
    bubble(move || {
        let taker = gort::spawn(move || r.iter().for_each(|n| answer.send(n).unwrap()));
        // While goroutines wait for a message from outside, another one must be runnable: else the bubble is
        // stuck.
        until("all messages were taken", || taker.is_finished());
        taker.join().unwrap();
    });
    outside.join().unwrap();
    assert_eq!(answers.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_wait_for_io_holds_the_clock() {
    use std::io::{Read, Write};
    let (listener, address) = listen();
    let server = gort::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        gort::sleep(5 * MS);
        stream.write_all(b"x").unwrap();
    });
    bubble(move || {
        let start = now();
        let reader = gort::spawn(move || {
            let mut stream = gort::net::TcpStream::connect(address).unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            now()
        });
        let late = gort::spawn(|| sleep(HOUR));
        assert_eq!(reader.join().unwrap(), start, "time did not pass");
        late.join().unwrap();
        assert_eq!(now(), start + HOUR);
    });
    server.join().unwrap();
}

/// A dump from outside holds the goroutines of a bubble for a moment.
#[test]
fn dumps_do_not_disturb() {
    let done = Arc::new(AtomicBool::new(false));
    let dumper = std::thread::spawn({
        let done = done.clone();
        move || {
            while !done.load(Ordering::Relaxed) {
                let _text = gort::runtime::dump().to_string();
            }
        }
    });
    for seed in 0..30 {
        Bubble::new().seed(seed).run(|| {
            let (s, r) = bounded(0);
            let echo = gort::spawn(move || r.iter().sum::<u64>());
            let helper = s.clone();
            gort::spawn(move || {
                for n in 0..20 {
                    helper.send(n).unwrap();
                    sleep(MS * n as u32);
                }
            });
            for n in 0..20 {
                wait();
                s.send(n).unwrap();
            }
            drop(s);
            assert_eq!(echo.join().unwrap(), 380);
        });
    }
    done.store(true, Ordering::Relaxed);
    dumper.join().unwrap();
}
