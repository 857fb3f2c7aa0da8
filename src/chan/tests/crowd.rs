//! Closing a channel at which many wait.

use std::cell::Cell;
use std::ptr;

use crate::chan::waitq::{Kind, Node, Outcome, Side, Wakes};
use crate::sched::types::waiter::{Hook, Waiter};

/// Counts how often it is woken.
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

/// A crowd is woken in portions: none is forgotten, none woken twice.
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
