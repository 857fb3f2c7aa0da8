//! The grammar of `select!`, beyond what crossbeam's tests use.

#![allow(clippy::never_loop, clippy::let_unit_value)]

use std::rc::Rc;
use std::time::Duration;

use crate::chan::{RecvError, bounded, never, select, select_biased, unbounded};

#[test]
fn bodies_can_leave_in_every_way() {
    fn first_even(r: &crate::chan::Receiver<i32>) -> Result<Option<i32>, RecvError> {
        loop {
            select! {
                recv(r) -> msg => {
                    let msg = msg?;
                    if msg < 0 {
                        break;
                    }
                    if msg % 2 == 1 {
                        continue;
                    }
                    return Ok(Some(msg));
                }
                recv(never::<()>()) -> _ => unreachable!(),
            }
        }
        Ok(None)
    }
    let (s, r) = unbounded();
    [1, 3, 4, 5, -1].into_iter().for_each(|i| s.send(i).unwrap());
    drop(s);
    assert_eq!(first_even(&r), Ok(Some(4)));
    assert_eq!(first_even(&r), Ok(None));
    assert_eq!(first_even(&r), Err(RecvError));

    let found = 'outer: loop {
        loop {
            select! {
                recv(r) -> _ => break 'outer 1,
                default => break 'outer 2,
            }
        }
    };
    assert_eq!(found, 1);
}

#[test]
fn bodies_may_move_the_handles() {
    let (s, r) = unbounded::<i32>();
    let (s2, r2) = bounded::<i32>(1);
    let handles = select_biased! {
        send(s2, 1) -> _ => (s, s2, r, r2),
        recv(r) -> _ => { drop(r); return }
        default => { drop(s2); return }
    };
    let (s, _s2, r, _r2) = handles;
    select! {
        recv(r) -> _ => drop(r),
        default => drop((s, r)),
    }
}

#[test]
fn one_message_can_be_in_several_sends() {
    let (s1, r1) = bounded(0);
    let (s2, r2) = bounded(1);
    let msg = Box::new(5);
    select! {
        send(s1, msg) -> _ => unreachable!(),
        send(s2, msg) -> res => res.unwrap(),
    }
    assert_eq!(r2.recv(), Ok(Box::new(5)));
    drop(r1);
}

#[test]
fn patterns_are_any_that_always_match() {
    let (s, r) = unbounded();
    for _ in 0..4 {
        s.send(RecvError).unwrap();
    }
    select! {
        recv(r) -> Ok(error) | Err(error) => assert_eq!(error, RecvError),
    }
    select! {
        recv(r) -> | Ok(error) | Err(error) => assert_eq!(error, RecvError),
        default => unreachable!(),
    }
    select! {
        recv(r) -> mut msg => {
            msg = msg.and(Err(RecvError));
            assert!(msg.is_err());
        }
        default(Duration::ZERO) => unreachable!()
    }
    select! {
        recv(r) -> ref msg => assert!(msg.is_ok()),
        recv(never::<()>()) -> _ => {}
    }
}

#[test]
fn bodies_are_expressions_of_every_kind() {
    let (s, r) = unbounded::<i32>();
    for round in 0..6 {
        s.send(round).unwrap();
        let got = select_biased! {
            recv(never::<i32>()) -> msg => if msg.is_ok() { 1 } else { 2 }
            recv(never::<i32>()) -> _ => match round { 0 => 1, _ => 2 }
            recv(never::<i32>()) -> _ => loop { break 3 }
            recv(never::<i32>()) -> _ => { 4 } + 1,
            // SAFETY: never received.
            recv(never::<i32>()) -> _ => unsafe { std::hint::unreachable_unchecked() }
            recv(r) -> msg => { msg }.unwrap() * 10,
            default => { unreachable!() }
        };
        assert_eq!(got, round * 10);
    }
    let unit = select! { default() => () };
    assert_eq!(unit, ());
    let text = select! { default(Duration::ZERO,) => "late" };
    assert_eq!(text, "late");
}

#[test]
fn keywords_are_free_names_elsewhere() {
    let (send, recv) = bounded(1);
    let default = Duration::ZERO;
    select! {
        send(send, 1) -> recv => recv.unwrap(),
        default(default) => unreachable!(),
    }
    select! {
        recv(recv) -> send => assert_eq!(send, Ok(1)),
        recv(recv) -> default => assert_eq!(default, Ok(1)),
    }
    drop(send);
}

#[test]
fn names_of_the_expansion_do_not_meet_those_of_the_user() {
    let (h0, c0) = bounded(1);
    let (chosen, value, result) = (1, 2, 3);
    select! {
        send(h0, chosen + value + result) -> h1 => h1.unwrap(),
        recv(c0) -> _ => unreachable!(),
    }
    select! {
        recv(c0) -> value => assert_eq!((value, chosen, result), (Ok(6), 1, 3)),
        send(h0, chosen) -> _ => unreachable!(),
    }
}

#[test]
fn selects_pass_through_other_macros() {
    macro_rules! first {
        ($kind:ident, $($r:expr => $pattern:pat => $body:expr),+ ; $otherwise:expr) => {
            select! { $($kind($r) -> $pattern => $body,)+ default => $otherwise }
        };
    }
    let (s, r) = unbounded();
    s.send(3).unwrap();
    let got = first!(recv, r => msg => msg.unwrap(); 0);
    assert_eq!(got, 3);
    let got = first!(recv, r => mut msg => { msg = Ok(1); msg.unwrap() }, &r => _ => 2; 5);
    assert_eq!(got, 5);
}

#[test]
fn messages_need_not_be_send() {
    let (s, r) = bounded(2);
    select! {
        send(s, Rc::new(1)) -> res => res.unwrap(),
        default => unreachable!(),
    }
    select_biased! {
        recv(r) -> msg => assert_eq!(*msg.unwrap(), 1),
        recv(r) -> _ => unreachable!(),
    }
}

#[test]
fn forty_cases_are_not_too_many() {
    let channels: Vec<_> = (0..40).map(|_| unbounded::<usize>()).collect();
    macro_rules! select_from {
        ($($i:literal)*) => { select! { $(recv(channels[$i].1) -> msg => ($i, msg.unwrap()),)* } };
    }
    for target in [0, 1, 31, 32, 39] {
        channels[target].0.send(target + 100).unwrap();
        let got = select_from! {
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
            20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
        };
        assert_eq!(got, (target, target + 100));
    }
}

#[test]
fn large_messages_are_selected() {
    let (s, r) = bounded(1);
    let (_s2, r2) = bounded::<[u64; 200]>(1);
    select! {
        send(s, [7_u64; 100]) -> res => res.unwrap(),
        recv(r2) -> _ => unreachable!(),
    }
    select! {
        recv(r) -> msg => assert_eq!(msg, Ok([7; 100])),
        recv(r2) -> _ => unreachable!(),
    }
}
