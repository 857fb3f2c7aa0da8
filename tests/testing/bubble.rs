//! Virtual time and repeatable schedules. By behaviour from Go's synctest tests: TestNow, TestRunEmpty, TestSimpleWait,
//! TestGoroutineWait, TestWait, TestMallocs (as a stress), TestTimerReadBeforeDeadline, TestTimerReadAfterDeadline,
//! TestTimerReset, TestTimeAfter, TestTimerAfterBubbleExit, TestTimerFromOutsideBubble, TestDeadlockRoot,
//! TestDeadlockChild, TestDeadlockTicker, TestCond, TestWaitGroupInBubble, TestContextDeadline,
//! TestHappensBefore (as one goroutine at a time).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::chan::{bounded, select, unbounded};
use gort::context::{Context, Error, LockCtx};
use gort::sync::{Condvar, Mutex, RwLock, WaitGroup};
use gort::testing::{Bubble, bubble, wait};
use gort::time::{Ticker, Timer, after_func, now, sleep, sleep_until};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn message(payload: Box<dyn std::any::Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().unwrap_or(&"").to_string(),
    }
}

fn panic_of(f: impl FnOnce() + Send + 'static) -> String {
    message(
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Bubble::new().seed(1).run(f))).unwrap_err(),
    )
}

#[test]
fn an_empty_bubble_ends_and_returns() {
    bubble(|| {});
    assert_eq!(bubble(|| String::from("value")), "value");
    assert_eq!(gort::run(|| bubble(|| 5)), 5);
}

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
        // A century of seconds.
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
        // Left behind when the bubble ends: it never runs.
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
fn wait_lets_everything_happen_that_can() {
    bubble(|| {
        wait();
        let start = now();
        let done = Arc::new(AtomicBool::new(false));
        let set = done.clone();
        let other = gort::spawn(move || {
            for _ in 0..10 {
                gort::yield_now();
            }
            gort::spawn(move || set.store(true, Ordering::Relaxed)).join().unwrap();
            sleep(HOUR);
        });
        assert!(!done.load(Ordering::Relaxed));
        wait();
        assert!(done.load(Ordering::Relaxed));
        assert_eq!(now(), start, "without the clock");
        other.join().unwrap();
    });
    assert!(std::panic::catch_unwind(wait).is_err(), "not outside");
}

#[test]
fn every_primitive_counts_as_waiting() {
    bubble(|| {
        let start = now();
        let (mutex, condvar) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
        let lock = Arc::new(RwLock::new(0));
        let group = WaitGroup::new();
        let (s, r) = bounded(0);
        let (m, c) = (mutex.clone(), condvar.clone());
        group.go(move || c.wait_while(&mut m.lock(), |ready| !*ready));
        let written = lock.write();
        let l = lock.clone();
        group.go(move || drop(l.read()));
        group.go(move || assert_eq!(r.recv(), Ok(1)));
        group.go(move || sleep(HOUR));
        wait();
        sleep(HOUR);
        assert_eq!(now(), start + HOUR);
        *mutex.lock() = true;
        condvar.notify_all();
        drop(written);
        s.send(1).unwrap();
        group.wait();
        assert_eq!(now(), start + HOUR);
    });
}

#[test]
fn one_goroutine_at_a_time() {
    bubble(|| {
        let inside = Arc::new(AtomicUsize::new(0));
        let group = WaitGroup::new();
        for _ in 0..50 {
            let inside = inside.clone();
            group.go(move || {
                for _ in 0..20 {
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    std::hint::black_box((0..200).sum::<u64>());
                    inside.fetch_sub(1, Ordering::Relaxed);
                    gort::yield_now();
                }
            });
        }
        group.wait();
    });
}

/// What a busy program did, step by step.
fn history(seed: u64) -> Vec<(u32, Duration)> {
    Bubble::new().seed(seed).run(|| {
        let start = now();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let (s, r) = bounded::<u32>(2);
        let (s2, r2) = unbounded::<u32>();
        let group = WaitGroup::new();
        for n in 0..8u32 {
            let (steps, s, s2, r, r2) = (steps.clone(), s.clone(), s2.clone(), r.clone(), r2.clone());
            group.go(move || {
                for round in 0..10u32 {
                    select! {
                        send(s, n) -> _ => {}
                        recv(r) -> _ => {}
                        recv(r2) -> m => assert!(m.is_ok()),
                        default((n % 3 + 1) * MS) => s2.send(n).unwrap(),
                    }
                    steps.lock().push((n * 100 + round, now() - start));
                    if round % 3 == 0 {
                        sleep(n * MS);
                    }
                }
            });
        }
        after_func(3 * MS, {
            let steps = steps.clone();
            move || steps.lock().push((9_999, now() - start))
        });
        group.wait();
        sleep(HOUR);
        Arc::try_unwrap(steps).map_or_else(|steps| steps.lock().clone(), Mutex::into_inner)
    })
}

#[test]
fn a_seed_determines_the_schedule() {
    let mut different = std::collections::HashSet::new();
    for seed in 0..20 {
        let first = history(seed);
        for _ in 0..3 {
            assert_eq!(history(seed), first, "seed {seed}");
        }
        different.insert(first);
    }
    assert!(different.len() > 10, "seeds make a difference");
}

/// A bug that only some orders show: a check and an act that are not one step.
#[test]
fn some_seed_finds_a_race() {
    let sells_too_many = |seed| {
        Bubble::new().seed(seed).run(|| {
            let left = Arc::new(AtomicUsize::new(1));
            let sold = Arc::new(AtomicUsize::new(0));
            let group = WaitGroup::new();
            for _ in 0..2 {
                let (left, sold) = (left.clone(), sold.clone());
                group.go(move || {
                    if left.load(Ordering::Relaxed) > 0 {
                        gort::yield_now();
                        left.store(0, Ordering::Relaxed);
                        sold.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            group.wait();
            sold.load(Ordering::Relaxed) == 2
        })
    };
    let found: Vec<bool> = (0..50).map(sells_too_many).collect();
    assert!(found.contains(&true) && found.contains(&false));
}

#[test]
fn a_deadlock_is_found_and_says_who_waits() {
    let text = panic_of(|| {
        let (_s, r) = bounded::<()>(0);
        gort::Builder::new()
            .name("the child".into())
            .spawn(|| {
                let mutex = Mutex::new(());
                let _held = mutex.lock();
                drop(mutex.lock());
            })
            .unwrap();
        let _ = r.recv();
    });
    assert!(text.contains("deadlock") && text.contains("GORT_SEED=1"), "{text}");
    assert!(text.contains("'the child': sync.Mutex.Lock") && text.contains("chan receive"), "{text}");
    assert!(text.contains("bubble.rs"), "where it was spawned: {text}");
    // Asleep for ever.
    assert!(panic_of(|| sleep(Duration::MAX)).contains("sleep"));
}

#[test]
fn goroutines_left_behind_are_found() {
    let text = panic_of(|| {
        let ticker = Ticker::new(MS);
        gort::spawn(move || ticker.c().iter().count());
        sleep(10 * MS);
    });
    assert!(text.contains("others wait for ever") && text.contains("chan receive"), "{text}");
}

#[test]
fn a_panic_comes_out_and_others_stay_isolated() {
    assert_eq!(panic_of(|| panic!("from the bubble, on purpose")), "from the bubble, on purpose");
    bubble(|| assert!(gort::spawn(|| panic!("inside, on purpose")).join().is_err()));
    let text = panic_of(|| bubble(|| {}));
    assert!(text.contains("inside a bubble"), "{text}");
}

#[test]
fn many_bubbles_at_once() {
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

/// Waits from outside disturb the schedule, but nothing is lost.
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
        // Somebody has to be able to run while others wait for what comes from outside.
        while !taker.is_finished() {
            gort::yield_now();
        }
        taker.join().unwrap();
    });
    outside.join().unwrap();
    assert_eq!(answers.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_wait_for_io_holds_the_clock() {
    use std::io::{Read, Write};
    let listener = gort::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
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

/// The clock of a bubble stands still while somebody runs, and waiting for a lock ends all the same.
#[test]
fn nobody_is_kept_from_a_lock_for_ever() {
    for seed in 0..20 {
        Bubble::new().seed(seed).run(|| {
            let flag = Arc::new(Mutex::new(false));
            let other = flag.clone();
            gort::spawn(move || *other.lock() = true);
            loop {
                let guard = flag.lock();
                if *guard {
                    break;
                }
                gort::yield_now();
            }
        });
        Bubble::new().seed(seed).run(|| {
            let flag = Arc::new(RwLock::new(false));
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let flag = flag.clone();
                    gort::spawn(move || {
                        // Two readers whose reads overlap.
                        loop {
                            let guard = flag.read();
                            if *guard {
                                break;
                            }
                            gort::yield_now();
                            gort::yield_now();
                        }
                    })
                })
                .collect();
            let writer = gort::spawn(move || *flag.write() = true);
            readers.into_iter().chain([writer]).for_each(|handle| handle.join().unwrap());
        });
    }
}

/// Whoever looks at the goroutines of a bubble from outside holds them for a moment.
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
