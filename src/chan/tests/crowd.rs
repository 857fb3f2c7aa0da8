//! Closing a channel with many waiters.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::every_kind;
use crate::chan::waitq::{Kind, Node, Outcome, Side, Wakes};
use crate::sched::types::waiter::{Hook, Waiter};
use crate::test_util::until;

/// A waiter that counts how often it is woken.
#[repr(C)]
struct Sleeper {
    hook: Hook,
    woken: Cell<u32>,
}

impl Sleeper {
    fn new() -> Sleeper {
        unsafe fn wake(hook: *const Hook) {
            // SAFETY: the hook is the Sleeper's first field.
            let sleeper = unsafe { &*hook.cast::<Sleeper>() };
            sleeper.woken.set(sleeper.woken.get() + 1);
        }
        unsafe fn ready_inside(_: *const Hook) -> Option<Waiter> {
            unreachable!("no timer is involved")
        }
        unsafe fn retract(_: *const Hook) {}
        Sleeper { hook: Hook { ready: wake, ready_inside, retract }, woken: Cell::new(0) }
    }

    fn node(&self) -> Node {
        // SAFETY: it stays until the test ends.
        Node::plain(unsafe { Waiter::from_hook(ptr::from_ref(self).cast()) }, ptr::null_mut())
    }
}

/// The waiters are woken in portions: each of them once.
#[test]
fn each_waiter_of_a_disconnected_queue_is_told_once() {
    for count in 0..50 {
        let sleepers: Vec<Sleeper> = (0..count).map(|_| Sleeper::new()).collect();
        let watcher = Sleeper::new();
        let nodes: Vec<Node> = sleepers.iter().chain([&watcher]).map(Sleeper::node).collect();
        let mut side = Side::new();
        for (i, node) in nodes.iter().enumerate() {
            let kind = if i < count { Kind::Op } else { Kind::Watch };
            // SAFETY: the nodes stay where they are until they are woken.
            unsafe { side.queue(kind).push_back(node) };
        }
        let mut portions = 1;
        let mut wakes = Wakes::new();
        while side.disconnect_some(&mut wakes) {
            std::mem::replace(&mut wakes, Wakes::new()).fire();
            portions += 1;
        }
        assert!(side.is_empty());
        wakes.fire();
        assert_eq!(portions, count.div_ceil(16).max(1), "{count}");
        assert!(sleepers.iter().chain([&watcher]).all(|sleeper| sleeper.woken.get() == 1), "{count}");
        assert!(nodes.iter().all(|node| node.outcome() == Outcome::Disconnected), "{count}");
    }
}

/// `close` wakes many receivers in portions. A receiver that was woken must not be able to send to one that
/// was not.
#[test]
fn nothing_is_sent_while_a_crowd_is_told_of_the_close() {
    const RECEIVERS: usize = 300;
    for round in 0..10 {
        for (sender, receiver) in every_kind::<u32>() {
            let (sent, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
            crate::scope(|scope| {
                for _ in 0..RECEIVERS {
                    scope.spawn(|| {
                        waiting.fetch_add(1, Ordering::Relaxed);
                        receiver.recv().unwrap_err();
                        sent.fetch_add(usize::from(sender.try_send(7).is_ok()), Ordering::Relaxed);
                    });
                }
                until(|| waiting.load(Ordering::Relaxed) == RECEIVERS);
                sender.close();
            });
            assert_eq!(sent.load(Ordering::Relaxed), 0, "round {round}");
        }
    }
}
