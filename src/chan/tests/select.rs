//! Tests of the type `Select`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::every_kind;
use crate::chan::tick;
use crate::chan::{Receiver, RecvError, Select, SendError, Sender, after, bounded, never, unbounded};
use crate::test_util::until;

#[test]
fn a_select_of_a_thousand_cases_waits_and_finds_the_one() {
    for make in [|| bounded(0), || bounded(1), || unbounded()] {
        let channels: Vec<(Sender<usize>, Receiver<usize>)> = (0..1000).map(|_| make()).collect();
        let mut sel = Select::new();
        for (_, r) in &channels {
            sel.recv(r);
        }
        for target in [0, 1, 500, 999] {
            thread::scope(|scope| {
                scope.spawn(|| {
                    until(|| channels.iter().all(|(s, _)| s.waiting_receivers() == 1));
                    channels[target].0.send(target).unwrap();
                });
                let oper = sel.select();
                let index = oper.index();
                assert_eq!((index, oper.recv(&channels[index].1)), (target, Ok(target)));
            });
            assert!(channels.iter().all(|(s, _)| s.waiting_receivers() == 0));
        }
        assert!(sel.select_timeout(Duration::from_millis(1)).is_err());
        assert!(sel.ready_timeout(Duration::from_millis(1)).is_err());
        assert!(sel.try_select().is_err());
    }
}

#[test]
fn sends_wait_too() {
    let channels: Vec<_> = (0..100).map(|i| bounded(i % 3)).collect();
    for (s, _) in &channels {
        while s.try_send(0).is_ok() {}
    }
    let mut sel = Select::new();
    for (s, _) in &channels {
        sel.send(s);
    }
    for target in [0, 1, 2, 50, 51, 53] {
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                until(|| channels.iter().all(|(s, _)| s.waiting_senders() == 1));
                let (_, r) = &channels[target];
                // Take the buffered messages, then the one that the select sends.
                let buffered = r.len();
                (0..=buffered).map(|_| r.recv().unwrap()).collect::<Vec<_>>()
            });
            let oper = sel.select();
            assert_eq!(oper.index(), target);
            oper.send(&channels[target].0, 9).unwrap();
            assert_eq!(receiver.join().unwrap().last(), Some(&9));
        });
        while channels[target].0.try_send(0).is_ok() {}
    }
}

#[test]
fn one_channel_can_be_in_several_cases() {
    for (s, r) in every_kind::<i32>() {
        let rendezvous = s.capacity() == Some(0);
        let mut sel = Select::new();
        let (recv1, recv2) = (sel.recv(&r), sel.recv(&r));
        let (send1, send2) = (sel.send(&s), sel.send(&s));
        if rendezvous {
            // A select must not meet itself.
            assert!(sel.try_select().is_err());
            assert!(sel.select_timeout(Duration::from_millis(2)).is_err());
            assert_eq!((s.waiting_senders(), s.waiting_receivers()), (0, 0));
            continue;
        }
        let mut hits = [0; 4];
        for _ in 0..400 {
            let oper = sel.select();
            hits[oper.index()] += 1;
            match oper.index() {
                i if i == recv1 || i == recv2 => assert_eq!(oper.recv(&r), Ok(7)),
                i if i == send1 || i == send2 => oper.send(&s, 7).unwrap(),
                _ => unreachable!(),
            }
        }
        assert!(hits.iter().all(|&hits| hits > 10), "{hits:?}");
        assert_eq!(r.try_iter().count(), hits[2] + hits[3] - hits[0] - hits[1]);
    }
}

#[test]
fn ready_cases_are_chosen_equally_often() {
    let (s, r) = unbounded();
    (0..30_000).for_each(|i| s.send(i).unwrap());
    let (_s, empty) = unbounded();
    let mut sel = Select::new();
    // Some cases are ready, others are not: a select that walked from a random start would favour some.
    for r in [&r, &empty, &empty, &r, &r, &empty] {
        sel.recv(r);
    }
    let mut hits = [0; 6];
    for _ in 0..30_000 {
        let oper = sel.select();
        hits[oper.index()] += 1;
        oper.recv(&r).unwrap();
    }
    assert!([0, 3, 4].iter().all(|&i| (9_500..10_500).contains(&hits[i])), "{hits:?}");
}

#[test]
fn a_biased_select_prefers_the_first_even_after_a_removal() {
    let (s, r) = unbounded();
    s.send(1).unwrap();
    let mut sel = Select::new_biased();
    let indices: Vec<_> = (0..5).map(|_| sel.recv(&r)).collect();
    for &index in &indices {
        for _ in 0..10 {
            assert_eq!(sel.ready(), index);
            assert_eq!(sel.clone().try_ready(), Ok(index));
        }
        sel.remove(index);
    }
    assert!(sel.try_ready().is_err());
}

#[test]
#[should_panic(expected = "no operation with this index")]
fn removing_twice_panics() {
    let r = never::<i32>();
    let mut sel = Select::new();
    let index = sel.recv(&r);
    sel.remove(index);
    sel.remove(index);
}

#[test]
#[should_panic(expected = "no operations have been added to `Select`")]
fn an_endless_select_of_nothing_panics() {
    let _ = Select::new().select_timeout(Duration::MAX);
}

#[test]
fn a_close_wakes_selects() {
    for (s, r) in every_kind::<i32>() {
        thread::scope(|scope| {
            let select = scope.spawn(|| {
                let mut sel = Select::new();
                sel.recv(&r);
                sel.select().recv(&r)
            });
            let ready = scope.spawn(|| {
                let mut sel = Select::new();
                sel.recv(&r);
                sel.ready()
            });
            until(|| s.waiting_receivers() == 1);
            s.close();
            assert_eq!(select.join().unwrap(), Err(RecvError));
            assert_eq!(ready.join().unwrap(), 0);
        });
    }
    for cap in [0, 1] {
        let (s, _r) = bounded(cap);
        while s.try_send(0).is_ok() {}
        thread::scope(|scope| {
            let select = scope.spawn(|| {
                let mut sel = Select::new();
                sel.send(&s);
                sel.select().send(&s, 5)
            });
            until(|| s.waiting_senders() == 1);
            s.close();
            assert_eq!(select.join().unwrap(), Err(SendError(5)));
        });
    }
}

#[test]
fn huge_timeouts_and_timers_work_together() {
    let forever = never::<i32>();
    let soon = after(Duration::from_millis(2));
    let ticks = tick(Duration::from_millis(1));
    let mut sel = Select::new();
    sel.recv(&forever);
    let timer = sel.recv(&soon);
    let ticker = sel.recv(&ticks);
    let mut seen = [0, 0];
    while seen[0] == 0 || seen[1] < 3 {
        let oper = sel.select_timeout(Duration::MAX).unwrap();
        if oper.index() == timer {
            oper.recv(&soon).unwrap();
            seen[0] += 1;
        } else {
            assert_eq!(oper.index(), ticker);
            oper.recv(&ticks).unwrap();
            seen[1] += 1;
        }
    }
    assert_eq!(seen[0], 1);
}

/// All threads select over all channels, some with timeouts: messages are neither lost nor duplicated.
#[test]
fn mixed_selects_conserve_messages() {
    const SENDERS: usize = 3;
    const EACH: usize = 4_000;
    let channels: Vec<_> = [0, 0, 1, 3].into_iter().map(bounded).chain([unbounded()]).collect();
    let (sum, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let got = |result: Result<usize, RecvError>| {
        if let Ok(msg) = result {
            sum.fetch_add(msg, Ordering::Relaxed);
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let channels = &channels;
            let got = &got;
            scope.spawn(move || {
                let mut sel = Select::new();
                channels.iter().for_each(|(s, _)| _ = sel.send(s));
                for i in 0..EACH {
                    if sender == 0 && i % 3 == 0 {
                        // Sends and receives in one select.
                        let mut both = sel.clone();
                        let receives: Vec<_> = channels.iter().map(|(_, r)| both.recv(r)).collect();
                        loop {
                            let oper = both.select();
                            let index = oper.index();
                            match receives.iter().position(|&receive| receive == index) {
                                Some(place) => got(oper.recv(&channels[place].1)),
                                None => break oper.send(&channels[index].0, i).unwrap(),
                            }
                        }
                        continue;
                    }
                    loop {
                        let timeout = Duration::from_nanos((i % 7) as u64 * 300);
                        if let Ok(oper) = sel.select_timeout(timeout) {
                            let index = oper.index();
                            break oper.send(&channels[index].0, i).unwrap();
                        }
                    }
                }
            });
        }
        for receiver in 0..3 {
            let channels = &channels;
            let (got, count) = (&got, &count);
            scope.spawn(move || {
                let mut sel = Select::new();
                channels.iter().for_each(|(_, r)| _ = sel.recv(r));
                while count.load(Ordering::Relaxed) < SENDERS * EACH {
                    match receiver {
                        0 => {
                            let Ok(oper) = sel.select_timeout(Duration::from_millis(1)) else { continue };
                            let index = oper.index();
                            got(oper.recv(&channels[index].1));
                        }
                        1 => {
                            let Ok(index) = sel.ready_timeout(Duration::from_micros(50)) else { continue };
                            got(channels[index].1.try_recv().map_err(|_| RecvError));
                        }
                        _ => {
                            let (_, r) = &channels[count.load(Ordering::Relaxed) % channels.len()];
                            got(r.recv_timeout(Duration::from_micros(20)).map_err(|_| RecvError));
                        }
                    }
                }
            });
        }
    });
    assert_eq!(count.into_inner(), SENDERS * EACH);
    assert_eq!(sum.into_inner(), SENDERS * EACH * (EACH - 1) / 2);
    assert!(channels.iter().all(|(s, r)| s.is_empty() && r.try_recv().is_err()));
    assert!(channels.iter().all(|(s, _)| s.waiting_senders() == 0 && s.waiting_receivers() == 0));
}
