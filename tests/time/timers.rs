//! Timers and tickers with channels. By behaviour from Go: TestAfterStop, TestAfterQueuing, TestReset,
//! TestIssue5745, TestZeroTimer, TestTimerModifiedEarlier, TestAdjustTimers, TestStopResult, TestResetResult,
//! TestMultiWakeupTicker, TestMultiWakeupTimer, TestTicker, TestTeardown, TestNewTickerLtZeroDuration,
//! TestTickerResetLtZeroDuration, TestChan, TestAfterTimes, TestTickTimes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan::{Select, TryRecvError, bounded, select};
use gort::time::{Ticker, Timer, sleep};

use crate::common::until;

const MS: Duration = Duration::from_millis(1);

#[gort::test]
fn messages_say_when_they_were_due_and_none_is_early() {
    let start = Instant::now();
    let order = [5, 3, 6, 6, 6, 1, 1, 2, 7, 9, 4, 8, 0];
    let timers: Vec<_> = order.iter().map(|n| Timer::new(*n * 2 * MS)).collect();
    let mut sel = Select::new();
    for timer in &timers {
        sel.recv(timer.c());
    }
    for _ in &timers {
        let chosen = sel.select();
        let index = chosen.index();
        let when = chosen.recv(timers[index].c()).unwrap();
        sel.remove(index);
        assert!(when >= start + order[index] * 2 * MS, "not before its time");
        assert!(when <= Instant::now());
    }
}

#[gort::test]
fn a_timer_of_zero_is_due_at_once() {
    for _ in 0..1_000 {
        Timer::new(Duration::ZERO).c().recv().unwrap();
    }
    let timer = Timer::new(Duration::MAX);
    timer.reset(Duration::ZERO);
    assert_eq!(timer.c().len(), 1);
    assert!(timer.c().try_recv().is_ok());
}

fn results(in_goroutine: bool) {
    let body = || {
        let timer = Timer::new(Duration::MAX);
        assert!(timer.c().is_empty());
        assert!(timer.stop() && !timer.stop());
        assert!(!timer.reset(Duration::MAX) && timer.reset(Duration::ZERO));
        // Due, and not received: it can be taken back.
        assert!(timer.stop());
        assert_eq!(timer.c().try_recv(), Err(TryRecvError::Empty));
        assert!(!timer.reset(Duration::ZERO));
        timer.c().recv().unwrap();
        assert!(!timer.stop());
        assert!(!timer.reset(MS));
        timer.c().recv().unwrap();
        assert_eq!(timer.c().try_recv(), Err(TryRecvError::Empty), "one message");
        assert_eq!(timer.c().capacity(), Some(1));
    };
    if in_goroutine { gort::run(body) } else { body() }
}

#[test]
fn stop_and_reset_say_what_they_did_on_threads_and_goroutines() {
    results(false);
    results(true);
}

#[gort::test]
fn a_timer_moved_to_an_earlier_time_wakes_its_receiver() {
    for wait in 0..3 {
        let timer = Arc::new(Timer::new(Duration::MAX));
        let waiting = timer.clone();
        let (going, started) = bounded(0);
        let waiter = gort::spawn(move || {
            going.send(()).unwrap();
            match wait {
                0 => assert!(waiting.c().recv().is_ok()),
                1 => select! {
                    recv(waiting.c()) -> when => assert!(when.is_ok()),
                    recv(gort::chan::never::<()>()) -> _ => {}
                },
                _ => {
                    let mut sel = Select::new();
                    sel.recv(waiting.c());
                    assert_eq!(sel.ready(), 0);
                    waiting.c().try_recv().unwrap();
                }
            }
        });
        started.recv().unwrap();
        gort::yield_now();
        // To a later time, to an earlier one, to almost now.
        assert!(timer.reset(Duration::from_secs(3600)));
        gort::yield_now();
        assert!(timer.reset(Duration::from_secs(60)));
        gort::yield_now();
        timer.reset(2 * MS);
        waiter.join().unwrap();
    }
}

#[gort::test]
fn a_receiver_of_a_stopped_timer_waits_for_the_next_setting() {
    let timer = Arc::new(Timer::new(2 * MS));
    let waiting = timer.clone();
    let waiter = gort::spawn(move || waiting.c().recv().unwrap());
    if timer.stop() {
        sleep(4 * MS);
        assert!(!waiter.is_finished());
        assert!(!timer.reset(Duration::ZERO));
    }
    waiter.join().unwrap();
}

/// go#69312: for each setting, either the message is received, or a stop or reset says that it will not be.
#[gort::test]
fn every_setting_is_received_or_taken_back() {
    const ROUNDS: usize = 2_000;
    let timer = Arc::new(Timer::new(Duration::ZERO));
    let (received, finish) = (Arc::new(AtomicUsize::new(0)), bounded::<()>(0));
    let receivers: Vec<_> = (0..3)
        .map(|_| {
            let (timer, received, finish) = (timer.clone(), received.clone(), finish.1.clone());
            gort::spawn(move || {
                loop {
                    select! {
                        recv(timer.c()) -> _ => received.fetch_add(1, Ordering::Relaxed),
                        recv(finish) -> _ => break,
                    };
                }
            })
        })
        .collect();
    let mut taken_back = 0;
    for n in 0..ROUNDS {
        let pause = Duration::from_nanos((n as u64 * 37) % 3_000);
        let waiting = if n % 3 == 0 {
            let stopped = timer.stop();
            assert!(!timer.reset(pause));
            stopped
        } else {
            timer.reset(pause)
        };
        taken_back += usize::from(waiting);
        if n % 5 == 0 {
            gort::yield_now();
        }
    }
    taken_back += usize::from(timer.stop());
    drop(finish.0);
    receivers.into_iter().for_each(|r| r.join().unwrap());
    assert_eq!(received.load(Ordering::Relaxed) + taken_back, ROUNDS + 1);
}

#[gort::test]
fn several_receivers_of_one_timer_get_one_message_each() {
    let timer = Arc::new(Timer::new(Duration::MAX));
    let served = Arc::new(AtomicUsize::new(0));
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let (timer, served) = (timer.clone(), served.clone());
            gort::spawn(move || {
                timer.c().recv().unwrap();
                served.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    for n in 1..=waiters.len() {
        timer.reset(Duration::from_micros(100));
        until("one is served", || served.load(Ordering::Relaxed) == n);
    }
    waiters.into_iter().for_each(|w| w.join().unwrap());
}

#[gort::test]
fn a_ticker_keeps_its_pace_and_drops_what_nobody_takes() {
    let period = 2 * MS;
    let start = Instant::now();
    let ticker = Ticker::new(period);
    let first = ticker.c().recv().unwrap();
    assert!(first >= start + period);
    sleep(5 * period);
    assert_eq!(ticker.c().len(), 1, "one is kept");
    let kept = ticker.c().recv().unwrap();
    // This is the first tick that was not taken: the next one, unless it came so late that more ticks were
    // due.
    assert!(kept > first && (kept - first).as_nanos().is_multiple_of(period.as_nanos()));
    let next = ticker.c().recv().unwrap();
    assert!(next >= first + 6 * period && Instant::now() >= next);
    let phase = (next - first).as_nanos() % period.as_nanos();
    assert_eq!(phase, 0, "the pace is that of the start");
}

#[gort::test]
fn a_ticker_stops_and_starts_anew() {
    let ticker = Ticker::new(MS);
    ticker.c().recv().unwrap();
    sleep(2 * MS);
    ticker.stop();
    assert_eq!(ticker.c().try_recv(), Err(TryRecvError::Empty), "not even one that was due");
    assert!(ticker.c().recv_timeout(3 * MS).is_err());
    let start = Instant::now();
    ticker.reset(2 * MS);
    let ticks: Vec<_> = ticker.c().iter().take(3).collect();
    assert!(ticks[0] >= start + 2 * MS && ticks[2] - ticks[0] >= 4 * MS);
    ticker.reset(Duration::MAX);
    assert!(ticker.c().recv_timeout(3 * MS).is_err());
}

#[test]
fn a_period_of_zero_is_refused() {
    assert!(std::panic::catch_unwind(|| Ticker::new(Duration::ZERO)).is_err());
    let ticker = Ticker::new(MS);
    assert!(std::panic::catch_unwind(|| ticker.reset(Duration::ZERO)).is_err());
    ticker.c().recv().unwrap();
}

#[gort::test]
fn the_shortest_and_the_longest_periods_work() {
    let ticker = Ticker::new(Duration::from_nanos(1));
    assert_eq!(ticker.c().iter().take(100).count(), 100);
    sleep(MS);
    assert_eq!(ticker.c().iter().take(100).count(), 100);
    assert!(Ticker::new(Duration::MAX).c().recv_timeout(MS).is_err());
}

/// A ticker is dropped while its channel is in use, and many tickers come and go.
#[gort::test]
fn tickers_come_and_go() {
    for _ in 0..50 {
        let ticker = Ticker::new(Duration::from_micros(50));
        ticker.c().recv().unwrap();
        ticker.stop();
        let receiver = Ticker::new(Duration::from_micros(50)).c().clone();
        receiver.recv().unwrap();
    }
}
