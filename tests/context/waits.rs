//! Waits that end with a context.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::chan::{bounded, select};
use gort::context::{AcquireCtxError, Context, Error, LockCtx, RecvCtxError, RwLockCtx, SendCtxError};
use gort::sync::{Condvar, Mutex, RwLock, Semaphore, WaitGroup};
use gort::time::{sleep, sleep_ctx};

use crate::{LONG, MS};

/// A context that ends at about the time when the caller has begun to wait.
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
    // The same waits on a thread.
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
    // An operation that need not wait succeeds although the context has ended.
    assert!(mutex.lock_ctx(&ctx).is_ok());
    let (s, r) = bounded(1);
    assert_eq!(s.send_ctx(&ctx, 1), Ok(()));
    assert_eq!(r.recv_ctx(&ctx), Ok(1));
}

/// A context's `limit` limits only waits that have a timeout of their own.
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

/// A message is received or refused: none is lost when a context ends during a hand-over.
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
