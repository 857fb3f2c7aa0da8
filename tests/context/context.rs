//! Contexts. By behaviour from Go's context tests: TestBackground, TestWithCancel, XTestParentFinishesChild,
//! XTestChildFinishesFirst, TestDeadline, TestTimeout, TestCanceledTimeout, TestValues, TestSimultaneousCancels,
//! TestInterlockedCancels, TestLayersCancel, TestLayersTimeout, XTestCancelRemoves (in the crate), TestWithCancelCanceledParent,
//! TestWithCancelSimultaneouslyCanceledParent, TestCause, TestCauseRace, TestWithoutCancel, the TestAfterFunc family.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::chan::{TryRecvError, bounded, select, unbounded};
use gort::context::{AcquireCtxError, Context, Error, Key, LockCtx, RecvCtxError, RwLockCtx, SendCtxError};
use gort::sync::{Condvar, Mutex, RwLock, Semaphore, WaitGroup};
use gort::time::{sleep, sleep_ctx};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

fn is_done(ctx: &Context) -> bool {
    let done = ctx.done().try_recv() == Err(TryRecvError::Disconnected);
    assert_eq!(done, ctx.err().is_some());
    assert_eq!(done, ctx.cause().is_some());
    done
}

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
fn a_cancellation_reaches_what_is_derived_and_nothing_else() {
    let (root, cancel_root) = Context::background().with_cancel();
    let (child, cancel_child) = root.with_cancel();
    let (sibling, _) = root.with_timeout(LONG);
    let grandchild = child.with_cancel().0;
    cancel_child.cancel();
    assert!(is_done(&child) && is_done(&grandchild));
    assert!(!is_done(&root) && !is_done(&sibling));
    cancel_child.cancel();
    cancel_root.cancel();
    assert!(is_done(&root) && is_done(&sibling));
    assert_eq!(sibling.err(), Some(Error::Canceled));
    // Derived from one that has ended.
    let (late, _) = root.with_timeout(LONG);
    assert_eq!(late.err(), Some(Error::Canceled));
    assert!(is_done(&late.with_cancel().0));
}

#[gort::test]
fn whoever_waits_in_a_select_is_woken() {
    let (ctx, cancel) = Context::background().with_cancel();
    let waiters: Vec<_> = (0..20)
        .map(|n| {
            let ctx = if n % 2 == 0 { ctx.clone() } else { ctx.with_cancel().0 };
            gort::spawn(move || {
                select! {
                    recv(ctx.done()) -> _ => ctx.err(),
                    recv(gort::chan::never::<()>()) -> _ => None,
                }
            })
        })
        .collect();
    gort::yield_now();
    cancel.cancel();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Some(Error::Canceled));
    }
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
            continue; // so slow is the machine now
        }
        sleep(40 * MS);
        assert_eq!(ctx.err(), Some(Error::Canceled));
        break;
    }
}

struct First;
struct Second;
impl Key for First {
    type Value = i32;
}
impl Key for Second {
    type Value = String;
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
fn many_cancel_at_once_from_everywhere_in_a_tree() {
    let (root, cancel) = Context::background().with_cancel();
    let mut all = vec![(root, cancel)];
    let mut next = 0;
    while all.len() < 300 {
        let parent = all[next].0.clone();
        next += 1;
        for _ in 0..3 {
            all.push(parent.with_cancel());
        }
    }
    let contexts: Vec<_> = all.iter().map(|(ctx, _)| ctx.clone()).collect();
    let group = WaitGroup::new();
    for (ctx, cancel) in all {
        group.go(move || {
            cancel.cancel();
            assert!(ctx.err().is_some(), "ended when cancel returns");
        });
    }
    for ctx in &contexts {
        assert!(ctx.done().recv().is_err());
    }
    group.wait();
}

#[test]
fn two_cancel_each_others_parent_and_child() {
    for _ in 0..200 {
        let (parent, cancel_parent) = Context::background().with_cancel();
        let (child, cancel_child) = parent.with_cancel();
        let (a, b) = (parent.clone(), child.clone());
        let first = gort::spawn(move || {
            cancel_parent.cancel();
            assert!(a.err().is_some() && b.err().is_some(), "all below have ended when cancel returns");
        });
        let second = gort::spawn(move || {
            cancel_child.cancel();
            assert!(child.err().is_some());
        });
        let (late, _) = parent.with_cancel();
        first.join().unwrap();
        second.join().unwrap();
        assert!(late.err().is_some());
    }
}

/// A goroutine's stack would not hold a recursion.
#[gort::test]
fn long_chains_are_cancelled_and_dropped() {
    let (root, cancel) = Context::background().with_cancel();
    let mut chain = vec![root];
    for n in 0..20_000 {
        let (next, _) = chain[n].with_value::<First>(1).with_cancel();
        chain.push(next);
    }
    let last = chain.pop().unwrap();
    chain.clear();
    let stop = last.after_func(|| unreachable!());
    assert!(stop.stop());
    cancel.cancel();
    assert!(is_done(&last));
    drop((last, stop, cancel));
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
    // At once, if it has ended.
    ctx.after_func(move || s.send(4).unwrap());
    assert_eq!(r.recv(), Ok(4));
    assert!(r.recv().is_err());
}

#[gort::test]
fn no_goroutine_for_each_child() {
    let before = gort::runtime::num_goroutines();
    let (root, cancel) = Context::background().with_timeout(LONG);
    let children: Vec<_> = (0..1_000).map(|_| root.with_timeout(LONG / 2)).collect();
    // Others come and go meanwhile; a goroutine each would be many more.
    assert!(gort::runtime::num_goroutines() < before + 500);
    cancel.cancel();
    assert!(children.iter().all(|(child, _)| is_done(child)));
}

/// Ends the context as soon as somebody waits, as far as one can know.
fn ends_soon() -> Context {
    Context::background().with_timeout(2 * MS).0
}

#[gort::test]
fn every_wait_with_a_context_gives_up_at_its_end() {
    let ended = Error::DeadlineExceeded;
    let (s, r) = bounded::<i32>(0);
    assert_eq!(r.recv_ctx(&ends_soon()), Err(RecvCtxError::Ended(ended)));
    assert_eq!(s.send_ctx(&ends_soon(), 1), Err(SendCtxError::Ended(1, ended)));
    let (full, _r) = bounded(1);
    full.send(1).unwrap();
    assert_eq!(full.send_ctx(&ends_soon(), 2), Err(SendCtxError::Ended(2, ended)));
    assert_eq!(gort::chan::after(LONG).recv_ctx(&ends_soon()), Err(RecvCtxError::Ended(ended)));
    assert_eq!(gort::chan::tick(LONG).recv_ctx(&ends_soon()), Err(RecvCtxError::Ended(ended)));
    assert_eq!(gort::time::Timer::new(LONG).c().recv_ctx(&ends_soon()), Err(RecvCtxError::Ended(ended)));
    assert_eq!(gort::chan::never::<i32>().recv_ctx(&ends_soon()), Err(RecvCtxError::Ended(ended)));
    let (mutex, lock) = (Mutex::new(()), RwLock::new(()));
    let (held, read) = (mutex.lock(), lock.read());
    assert_eq!(mutex.lock_ctx(&ends_soon()).err(), Some(ended));
    assert_eq!(lock.write_ctx(&ends_soon()).err(), Some(ended));
    drop(read);
    let written = lock.write();
    assert_eq!(lock.read_ctx(&ends_soon()).err(), Some(ended));
    drop((held, written));
    assert!(mutex.try_lock().is_some() && lock.try_write().is_some(), "no trace is left");
    let semaphore = Semaphore::new(1);
    let permit = semaphore.acquire(1).unwrap();
    assert_eq!(semaphore.acquire_ctx(&ends_soon(), 1).err(), Some(AcquireCtxError::Ended(ended)));
    let too_many = semaphore.acquire_ctx(&ends_soon(), 2).err();
    assert!(matches!(too_many, Some(AcquireCtxError::TooMany(_))), "{too_many:?}");
    drop(permit);
    let group = WaitGroup::new();
    group.add(1);
    assert_eq!(group.wait_ctx(&ends_soon()), Err(ended));
    group.done();
    assert_eq!(sleep_ctx(&ends_soon(), LONG), Err(ended));
    assert_eq!(sleep_ctx(&ends_soon(), Duration::MAX), Err(ended));
    let condvar = Condvar::new();
    assert!(ends_soon().limit(|| condvar.wait_for(&mut mutex.lock(), LONG).timed_out()));
    ends_soon().limit(|| select! { recv(r) -> _ => unreachable!(), default(LONG) => {} });
    // The same on a thread.
    std::thread::spawn(move || {
        assert_eq!(r.recv_ctx(&ends_soon()), Err(RecvCtxError::Ended(ended)));
        assert_eq!(sleep_ctx(&ends_soon(), LONG), Err(ended));
        drop(s);
        assert_eq!(r.recv_ctx(&Context::background()), Err(RecvCtxError::Disconnected));
    })
    .join()
    .unwrap();
}

#[gort::test]
fn a_wait_with_a_context_gets_what_comes_in_time() {
    let (ctx, cancel) = Context::background().with_cancel();
    let (s, r) = bounded(0);
    let receiver = {
        let ctx = ctx.clone();
        gort::spawn(move || r.recv_ctx(&ctx))
    };
    s.send_ctx(&ctx, 5).unwrap();
    assert_eq!(receiver.join().unwrap(), Ok(5));
    let mutex = Arc::new(Mutex::new(0));
    let held = mutex.lock();
    let locker = {
        let (ctx, mutex) = (ctx.clone(), mutex.clone());
        gort::spawn(move || *mutex.lock_ctx(&ctx).unwrap() += 1)
    };
    gort::yield_now();
    drop(held);
    locker.join().unwrap();
    assert_eq!(*mutex.lock_ctx(&ctx).unwrap(), 1);
    assert_eq!(sleep_ctx(&ctx, MS), Ok(()));
    cancel.cancel();
    // What need not wait is done in any case.
    assert!(mutex.lock_ctx(&ctx).is_ok());
    let (s, r) = bounded(1);
    assert_eq!(s.send_ctx(&ctx, 1), Ok(()));
    assert_eq!(r.recv_ctx(&ctx), Ok(1));
}

/// In a `limit`, only waits with a timeout of the user's are limited.
#[gort::test]
fn waits_without_a_timeout_are_not_limited() {
    let (ctx, cancel) = Context::background().with_cancel();
    cancel.cancel();
    ctx.limit(|| {
        let start = Instant::now();
        gort::chan::after(3 * MS).recv().unwrap();
        gort::time::Timer::new(3 * MS).c().recv().unwrap();
        select! { recv(gort::chan::after(3 * MS)) -> _ => {}, recv(gort::chan::never::<()>()) -> _ => {} }
        gort::chan::tick(3 * MS).recv().unwrap();
        sleep(3 * MS);
        assert!(start.elapsed() >= 15 * MS);
        assert!(gort::chan::never::<()>().recv_timeout(Duration::MAX).is_err(), "but this one is");
        Context::background().limit(|| {
            assert!(Mutex::new(()).try_lock_for(LONG).is_some());
            assert!(gort::chan::after(MS).recv_timeout(LONG).is_ok(), "the inner context counts");
        });
        assert!(gort::chan::never::<()>().recv_timeout(LONG).is_err());
    });
    assert!(gort::chan::after(MS).recv_timeout(LONG).is_ok(), "over");
}

/// A message is received or refused; none is lost between the end of a context and a hand-over.
#[gort::test]
fn ends_race_with_hand_overs() {
    for n in 0..1_000 {
        let (ctx, cancel) = Context::background().with_cancel();
        let (s, r) = bounded(0);
        let receiver = gort::spawn(move || r.recv_ctx(&ctx));
        let canceller = gort::spawn(move || cancel.cancel());
        let sent = s.send(n).is_ok();
        assert_eq!(receiver.join().unwrap().is_ok(), sent);
        canceller.join().unwrap();
    }
}
