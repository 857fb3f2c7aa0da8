//! Why and when a context ends, what it carries, and what runs at its end.

use std::time::{Duration, Instant};

use gort::chan::unbounded;
use gort::context::{Context, Error};
use gort::time::sleep;

use crate::{First, LONG, MS, Second, is_done};

#[test]
fn the_background_never_ends() {
    let ctx = Context::background();
    assert!(!is_done(&ctx) && ctx.deadline().is_none());
    assert!(ctx.done().recv_timeout(MS).is_err());
    assert_eq!(ctx.limit(|| 1), 1);
    let stop = ctx.after_func(|| unreachable!());
    assert!(stop.stop() && !stop.stop());
}

#[test]
fn time_ends_contexts_the_earliest_deadline_first() {
    let start = Instant::now();
    let (parent, _cancel) = Context::background().with_deadline(start + 3 * MS);
    let (later, _cancel) = parent.with_timeout(LONG);
    assert_eq!(later.deadline(), Some(start + 3 * MS));
    let (earlier, _cancel) = parent.with_deadline(start + MS);
    assert!(earlier.done().recv().is_err() && start.elapsed() >= MS);
    assert_eq!(earlier.err(), Some(Error::DeadlineExceeded));
    assert!(later.done().recv().is_err() && start.elapsed() >= 3 * MS);
    assert_eq!((parent.err(), later.err()), (Some(Error::DeadlineExceeded), Some(Error::DeadlineExceeded)));
    let (past, _cancel) = Context::background().with_deadline(start);
    assert_eq!(past.err(), Some(Error::DeadlineExceeded));
    let (zero, _cancel) = Context::background().with_timeout(Duration::ZERO);
    assert_eq!(zero.err(), Some(Error::DeadlineExceeded));
    let (never, cancel) = Context::background().with_timeout(Duration::MAX);
    assert!(never.deadline().is_none() && !is_done(&never));
    cancel.cancel();
    assert!(is_done(&never));
}

#[gort::test]
fn a_cancelled_timeout_stays_cancelled() {
    loop {
        let (ctx, cancel) = Context::background().with_timeout(20 * MS);
        cancel.cancel();
        if ctx.err() == Some(Error::DeadlineExceeded) {
            continue; // The machine is so slow that the timeout came first.
        }
        sleep(40 * MS);
        assert_eq!(ctx.err(), Some(Error::Canceled));
        break;
    }
}

#[test]
fn values_are_found_by_key_the_latest_first() {
    let ctx = Context::background();
    assert!(ctx.value::<First>().is_none());
    let one = ctx.with_value::<First>(1);
    let (both, cancel) = one.with_value::<Second>("two".into()).with_cancel();
    let other = both.with_value::<First>(3);
    assert_eq!((one.value::<First>(), one.value::<Second>()), (Some(&1), None));
    assert_eq!(both.value::<First>(), Some(&1));
    assert_eq!((other.value::<First>(), other.value::<Second>()), (Some(&3), Some(&"two".to_string())));
    cancel.cancel();
    assert!(is_done(&other), "a context with a value is its parent otherwise");
    let detached = other.without_cancel();
    assert!(!is_done(&detached) && detached.deadline().is_none());
    assert_eq!(detached.value::<First>(), Some(&3));
}

#[test]
fn the_first_cause_stays() {
    let error = |text: &'static str| std::io::Error::other(text);
    let (ctx, cancel) = Context::background().with_cancel();
    let (child, cancel_child) = ctx.with_cancel();
    cancel_child.cancel_with(error("child"));
    cancel.cancel_with(error("parent"));
    cancel.cancel_with(error("again"));
    assert_eq!(child.cause().unwrap().to_string(), "child");
    assert_eq!(ctx.cause().unwrap().to_string(), "parent");
    assert_eq!(ctx.with_cancel().0.cause().unwrap().to_string(), "parent");
    let (plain, cancel) = Context::background().with_cancel();
    cancel.cancel();
    assert_eq!(plain.cause().unwrap().downcast_ref::<Error>(), Some(&Error::Canceled));
    let (timed, _cancel) = Context::background().with_deadline_cause(Instant::now() + MS, error("slow"));
    let (below, _cancel) = timed.with_cancel();
    assert!(below.done().recv().is_err());
    assert_eq!(below.cause().unwrap().to_string(), "slow");
    assert_eq!(below.err(), Some(Error::DeadlineExceeded));
}

#[gort::test]
fn functions_run_at_the_end_once() {
    let (ctx, cancel) = Context::background().with_cancel();
    let (s, r) = unbounded();
    let below = ctx.with_cancel().0;
    for n in 0..3 {
        let s = s.clone();
        (if n == 2 { &below } else { &ctx }).after_func(move || s.send(n).unwrap());
    }
    let stopped = ctx.after_func(|| unreachable!());
    assert!(stopped.stop() && !stopped.stop());
    let started = {
        let s = s.clone();
        ctx.after_func(move || s.send(3).unwrap())
    };
    cancel.cancel();
    cancel.cancel();
    let mut seen: Vec<i32> = r.iter().take(4).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3]);
    assert!(!started.stop());
    // On a context that has ended, the function runs at once.
    ctx.after_func(move || s.send(4).unwrap());
    assert_eq!(r.recv(), Ok(4));
    assert!(r.recv().is_err());
}
