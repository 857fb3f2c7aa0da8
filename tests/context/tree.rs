//! Cancellation in a tree of contexts.

use gort::chan::select;
use gort::context::{Context, Error};
use gort::sync::WaitGroup;

use crate::{First, LONG, is_done};

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
    // A context that is derived from one that has ended.
    let (late, _) = root.with_timeout(LONG);
    assert_eq!(late.err(), Some(Error::Canceled));
    assert!(is_done(&late.with_cancel().0));
}

#[gort::test]
fn a_cancellation_wakes_goroutines_in_a_select() {
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

/// A recursion over the chain would overflow a goroutine's stack.
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
fn no_goroutine_for_each_child() {
    let before = gort::runtime::num_goroutines();
    let (root, cancel) = Context::background().with_timeout(LONG);
    let children: Vec<_> = (0..1_000).map(|_| root.with_timeout(LONG / 2)).collect();
    // Goroutines of other tests come and go meanwhile. A goroutine for each child would be many more.
    assert!(gort::runtime::num_goroutines() < before + 500);
    cancel.cancel();
    assert!(children.iter().all(|(child, _)| is_done(child)));
}
