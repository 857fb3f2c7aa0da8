//! The queue of waiters.

use std::ptr;

use crate::sched::park::park_ready::park;
use crate::sched::park::wait::TIMED_OUT;
use crate::sched::word::status::WaitReason;
use crate::sync::raw::waitq::{GRANTED, Node, Queue, RETRY};

const GO: usize = GRANTED;

fn tags(queue: &mut Queue) -> Vec<usize> {
    let mut tags = Vec::new();
    while let Some(tag) = queue.front_tag() {
        tags.push(tag);
        let claimed = queue.claim_front(GO).expect("nobody gave up");
        claimed.ready();
        park(WaitReason::Mutex, 0);
    }
    tags
}

#[test]
fn nodes_leave_in_the_order_they_came_and_the_front_can_be_jumped() {
    let (a, b, c) = (Node::new(1), Node::new(2), Node::new(3));
    let mut queue = Queue::new();
    // SAFETY: the nodes outlive the queue's use of them.
    unsafe {
        queue.push_back(a.link());
        queue.push_back(b.link());
        queue.push_front(c.link());
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(tags(&mut queue), [3, 1, 2]);
}

#[test]
fn removal_works_at_every_place_and_only_once() {
    for gone in 0..3 {
        let nodes = [Node::new(0), Node::new(1), Node::new(2)];
        let mut queue = Queue::new();
        for node in &nodes {
            // SAFETY: the nodes outlive the queue's use of them.
            unsafe { queue.push_back(node.link()) };
        }
        // SAFETY: the nodes are alive, and in no other queue.
        assert!(unsafe { queue.remove(nodes[gone].link()) });
        // SAFETY: the nodes are alive, and in no other queue.
        assert!(!unsafe { queue.remove(nodes[gone].link()) });
        let left: Vec<usize> = (0..3).filter(|n| *n != gone).collect();
        assert_eq!(tags(&mut queue), left);
        assert!(queue.is_empty());
    }
}

#[test]
fn a_waiter_that_gave_up_is_passed_over() {
    let (a, b) = (Node::new(1), Node::new(2));
    let mut queue = Queue::new();
    // SAFETY: the nodes outlive the queue's use of them.
    unsafe {
        queue.push_back(a.link());
        queue.push_back(b.link());
    }
    assert!(a.wait.try_claim(TIMED_OUT));
    let claimed = queue.pop(GO).expect("the second one still waits");
    assert!(ptr::eq(claimed.node(), b.link()));
    assert!(queue.is_empty());
    // SAFETY: the nodes are alive, and in no other queue.
    assert!(!unsafe { queue.remove(a.link()) }, "the waker has unlinked it");
    claimed.ready();
    park(WaitReason::Mutex, 0);
}

#[test]
fn all_can_be_taken_at_once_except_those_that_gave_up() {
    let nodes: Vec<Node> = (0..6).map(Node::new).collect();
    let mut queue = Queue::new();
    for node in &nodes {
        // SAFETY: the nodes outlive the queue's use of them.
        unsafe { queue.push_back(node.link()) };
    }
    assert!(nodes[0].wait.try_claim(TIMED_OUT));
    assert!(nodes[3].wait.try_claim(TIMED_OUT));
    let list = queue.take_all(RETRY);
    assert!(queue.is_empty());
    assert_eq!(list.len(), 4);
    let claims: Vec<usize> = nodes.iter().map(|n| n.wait.claim()).collect();
    assert_eq!(claims, [TIMED_OUT, RETRY, RETRY, TIMED_OUT, RETRY, RETRY]);
    list.ready_all();
    park(WaitReason::Mutex, 0);
}
