//! Tests of `Group` whose members run on plain threads. They check the same behaviour as these tests of
//! golang.org/x/sync/errgroup: TestZeroGroup, TestTryGo, TestGoLimit, TestPanic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::sync::Group;
use crate::test_util::until;

#[test]
fn the_first_error_is_given_once() {
    for errors in [vec![], vec![Ok(())], vec![Err(1)], vec![Ok(()), Err(1), Ok(())], vec![Err(1), Err(2)]] {
        let group = Group::new();
        let mut first = Ok(());
        for result in errors {
            thread::spawn(group.member(move || result)).join().unwrap();
            first = first.and(result);
            assert_eq!(group.is_failed(), first.is_err());
        }
        assert_eq!(group.wait(), first);
        assert_eq!(group.wait(), Ok(()), "told already");
        assert_eq!(group.is_failed(), first.is_err());
    }
}

#[test]
fn wait_waits_for_all_also_after_an_error() {
    let group = Group::new();
    let finish = AtomicBool::new(false);
    let finished = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(group.member(|| Err("early")));
        s.spawn(group.member(|| {
            until(|| finish.load(Ordering::Relaxed));
            finished.store(true, Ordering::Relaxed);
            Ok(())
        }));
        until(|| group.is_failed());
        let waiter = s.spawn(|| {
            let result = group.wait();
            assert!(finished.load(Ordering::Relaxed));
            result
        });
        finish.store(true, Ordering::Relaxed);
        assert_eq!(waiter.join().unwrap(), Err("early"));
    });
}

#[test]
fn no_more_run_at_once_than_the_limit_says() {
    const LIMIT: usize = 3;
    let group: Group<()> = Group::with_limit(LIMIT);
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..50 {
            s.spawn(group.member(|| {
                let now = running.fetch_add(1, Ordering::Relaxed) + 1;
                most.fetch_max(now, Ordering::Relaxed);
                thread::yield_now();
                running.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            }));
        }
    });
    assert_eq!(group.wait(), Ok(()));
    assert!(most.into_inner() <= LIMIT);
}

#[test]
fn beyond_the_limit_a_function_can_be_had_back() {
    let group: Group<()> = Group::with_limit(2);
    let first = group.try_member(|| Ok(())).ok().expect("room for two");
    let second = group.try_member(|| Ok(())).ok().expect("room for two");
    let third = || Ok(());
    let third = group.try_member(third).err().expect("no room for three");
    first();
    let third = group.try_member(third).ok().expect("room again");
    second();
    third();
    assert_eq!(group.wait(), Ok(()));
    assert!(Group::<()>::new().try_member(|| Ok(())).is_ok(), "no limit");
}

#[test]
fn a_panic_is_a_failure_and_goes_on_in_wait_when_all_are_done() {
    let group: Group<&str> = Group::with_limit(2);
    let other_done = AtomicBool::new(false);
    thread::scope(|s| {
        let panicked = s.spawn(group.member(|| panic!("in a member")));
        assert!(panicked.join().is_ok(), "the panic stays in the member");
        s.spawn(group.member(|| {
            assert!(group.is_failed());
            other_done.store(true, Ordering::Relaxed);
            Err("later")
        }));
        let payload = catch_unwind(AssertUnwindSafe(|| group.wait())).expect_err("it goes on");
        assert!(other_done.load(Ordering::Relaxed));
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"in a member"));
    });
    assert_eq!(group.wait(), Ok(()), "told already");
}

#[test]
fn a_member_that_never_runs_does_not_keep_the_group() {
    let group: Group<()> = Group::with_limit(1);
    drop(group.member(|| unreachable!()));
    assert_eq!(group.wait(), Ok(()));
    thread::spawn(group.member(|| Ok(()))).join().unwrap();
    assert_eq!(group.wait(), Ok(()));
}

#[test]
fn members_can_add_members() {
    let group: Group<u32> = Group::new();
    let inner = group.clone();
    thread::spawn(group.member(move || {
        thread::spawn(inner.member(|| Err(3)));
        Ok(())
    }));
    assert_eq!(group.wait(), Err(3));
}

#[test]
fn a_limit_of_zero_is_refused() {
    assert!(catch_unwind(|| Group::<()>::with_limit(0)).is_err());
    assert_eq!(Group::<()>::with_limit(usize::MAX).wait(), Ok(()));
}
