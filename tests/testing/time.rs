//! The time of a bubble.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::chan::{select, unbounded};
use gort::context::{Context, Error, LockCtx};
use gort::sync::Mutex;
use gort::testing::{bubble, wait};
use gort::time::{Ticker, Timer, after_func, now, sleep, sleep_until};

use crate::{HOUR, MS, panic_of};

#[test]
fn time_stands_still_and_jumps_exactly() {
    let real = Instant::now();
    bubble(|| {
        let start = now();
        std::hint::black_box((0..100_000).sum::<u64>());
        assert_eq!(now(), start);
        sleep(HOUR);
        assert_eq!(now(), start + HOUR);
        sleep_until(start + 2 * HOUR);
        assert_eq!(now(), start + 2 * HOUR);
        sleep(Duration::ZERO);
        sleep_until(start);
        assert_eq!(now(), start + 2 * HOUR);
        let sleepers: Vec<_> = (1..=10u32)
            .map(|n| {
                gort::spawn(move || {
                    sleep(n * HOUR);
                    now()
                })
            })
            .collect();
        for (n, sleeper) in (1..).zip(sleepers) {
            assert_eq!(sleeper.join().unwrap(), start + (2 + n) * HOUR);
        }
        // A century.
        sleep(Duration::from_secs(100 * 365 * 24 * 3600));
    });
    assert!(real.elapsed() < HOUR, "real time passed");
}

#[test]
fn timers_tickers_and_timeouts_go_by_the_bubbles_time() {
    bubble(|| {
        let start = now();
        let timer = Timer::new(5 * HOUR);
        assert!(timer.c().try_recv().is_err());
        assert_eq!(timer.c().recv(), Ok(start + 5 * HOUR));
        assert_eq!(now(), start + 5 * HOUR);
        assert!(!timer.reset(HOUR));
        sleep(2 * HOUR);
        assert_eq!(timer.c().try_recv(), Ok(start + 6 * HOUR));
        let ticker = Ticker::new(HOUR);
        for n in 8..12 {
            assert_eq!(ticker.c().recv(), Ok(start + n * HOUR));
            assert_eq!(now(), start + n * HOUR);
        }
        ticker.stop();
        let before = now();
        assert!(gort::chan::never::<()>().recv_timeout(HOUR).is_err());
        assert!(Mutex::new(()).try_lock().is_some());
        let mutex = Mutex::new(());
        let held = mutex.lock();
        assert!(mutex.try_lock_for(HOUR).is_none());
        drop(held);
        gort::chan::after(HOUR).recv().unwrap();
        select! { recv(gort::chan::never::<()>()) -> _ => {}, default(HOUR) => {} }
        let ticks = gort::chan::tick(HOUR);
        assert_eq!(ticks.iter().take(3).count(), 3);
        assert_eq!(now(), before + 7 * HOUR);
    });
}

#[test]
fn functions_of_timers_run_in_the_bubble() {
    bubble(|| {
        let start = now();
        let (s, r) = unbounded();
        for n in 1..=5u32 {
            let s = s.clone();
            after_func(n % 3 * HOUR, move || {
                sleep(HOUR);
                s.send((n, now())).unwrap();
            });
        }
        drop(s);
        let mut got: Vec<_> = r.iter().collect();
        got.sort_unstable();
        let expected: Vec<_> = (1..=5u32).map(|n| (n, start + (n % 3 + 1) * HOUR)).collect();
        assert_eq!(got, expected);
        let stopped = after_func(HOUR, || unreachable!());
        sleep(HOUR / 2);
        assert!(stopped.stop());
        sleep(HOUR);
        // This one is left when the bubble ends, and never runs.
        after_func(HOUR, || unreachable!());
    });
}

#[test]
fn contexts_go_by_the_bubbles_time() {
    bubble(|| {
        let start = now();
        let (ctx, _cancel) = Context::background().with_timeout(HOUR);
        let (child, cancel) = ctx.with_timeout(2 * HOUR);
        assert_eq!(child.deadline(), Some(start + HOUR));
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock();
        let waiting = {
            let mutex = mutex.clone();
            gort::spawn(move || mutex.lock_ctx(&child).err())
        };
        sleep(HOUR - MS);
        wait();
        assert_eq!(ctx.err(), None);
        sleep(MS);
        wait();
        assert_eq!(ctx.err(), Some(Error::DeadlineExceeded));
        assert_eq!(waiting.join().unwrap(), Some(Error::DeadlineExceeded));
        drop(held);
        cancel.cancel();
    });
}

#[test]
fn a_timer_is_set_where_it_was_made() {
    let timer = Arc::new(after_func(Duration::MAX, || {}));
    let inside = timer.clone();
    let text = panic_of(move || {
        inside.reset(HOUR);
    });
    assert!(text.contains("where it was made"), "{text}");
    assert!(timer.stop());
}
