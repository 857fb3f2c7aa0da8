//! Where many goroutines wait, a new goroutine runs before its parent goes on: when it does, and when not.

#[path = "../common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Procs, amount, until};
use gort::runtime::stats;

/// Goroutines that are always runnable: more than a P's ring needs to count as crowded.
struct Crowd {
    stop: Arc<AtomicBool>,
    all: Vec<gort::JoinHandle<()>>,
}

impl Crowd {
    fn gather() -> Crowd {
        let stop = Arc::new(AtomicBool::new(false));
        let loiter =
            |stop: Arc<AtomicBool>| move || until("the crowd may go", || stop.load(Ordering::Relaxed));
        let all = (0..100).map(|_| gort::spawn(loiter(stop.clone()))).collect();
        Crowd { stop, all }
    }

    fn disperse(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.all.into_iter().for_each(|one| one.join().unwrap());
    }
}

/// Spawns `spawns` goroutines. Counts those that had begun to run when `spawn` returned.
fn count_first(
    spawns: usize,
    body: impl Fn() + Clone + Send + 'static,
) -> (usize, Vec<gort::JoinHandle<()>>) {
    let mut count = 0;
    let all = (0..spawns)
        .map(|_| {
            let begun = Arc::new(AtomicBool::new(false));
            let (seen, body) = (begun.clone(), body.clone());
            let child = gort::spawn(move || {
                begun.store(true, Ordering::Relaxed);
                body();
            });
            count += usize::from(seen.load(Ordering::Relaxed));
            child
        })
        .collect();
    (count, all)
}

fn join_all(all: Vec<gort::JoinHandle<()>>) {
    all.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn in_a_crowd_children_run_before_their_parents_go_on() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let crowd = Crowd::gather();
        until("most children run first", || {
            let (first, all) = count_first(100, || ());
            join_all(all);
            first > 80
        });
        crowd.disperse();
    });
}

/// A node of a tree in which each node has ten children. Returns the number of leaves.
fn leaves(depth: u32) -> u64 {
    match depth {
        0 => 1,
        _ => {
            let children: Vec<_> = (0..10).map(|_| gort::spawn(move || leaves(depth - 1))).collect();
            children.into_iter().map(|child| child.join().unwrap()).sum()
        }
    }
}

#[test]
fn a_large_tree_needs_few_stacks() {
    for procs in [1, 2] {
        let _procs = Procs::set(procs);
        let stacks = || {
            let stacks = stats().stacks;
            stacks.cached + stacks.in_use
        };
        let before = stacks();
        let depth = amount(5, 6) as u32;
        assert_eq!(gort::run(move || leaves(depth)), 10u64.pow(depth));
        let added = stacks() - before;
        // If every node that waits had a stack, these would be a tenth of the tree or more.
        assert!(added < 10usize.pow(depth - 1), "{added} stacks for a tree of {}", 10u64.pow(depth));
    }
}

#[test]
fn a_goroutine_that_spawns_its_successor_and_ends_is_not_overtaken_for_ever() {
    fn succeed(left: usize, most: Arc<AtomicUsize>, done: gort::chan::Sender<()>) {
        if left == 0 {
            return done.send(()).unwrap();
        }
        if left.is_multiple_of(100) {
            let stats = stats();
            most.fetch_max((stats.created - stats.ended) as usize, Ordering::Relaxed);
        }
        gort::spawn(move || succeed(left - 1, most, done));
    }
    let _procs = Procs::set(1);
    let most = Arc::new(AtomicUsize::new(0));
    let alive_before = stats().created - stats().ended;
    gort::run({
        let most = most.clone();
        move || {
            let crowd = Crowd::gather();
            let (sender, receiver) = gort::chan::bounded(1);
            succeed(20_000, most, sender);
            receiver.recv().unwrap();
            crowd.disperse();
        }
    });
    let most = most.load(Ordering::Relaxed) - alive_before as usize;
    assert!(most < 100 + 100, "{most} goroutines at once");
}

#[test]
fn a_parent_whose_children_wait_for_its_lock_goes_on() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let crowd = Crowd::gather();
        let lock = Arc::new(Mutex::new(0));
        let held = lock.lock().unwrap();
        let (first, all) = count_first(200, {
            let lock = lock.clone();
            move || *lock.lock().unwrap() += 1
        });
        drop(held);
        join_all(all);
        assert_eq!(*lock.lock().unwrap(), 200);
        assert!(first < 100, "{first} children blocked their parent");
        crowd.disperse();
    });
}

#[test]
fn a_parent_whose_children_compute_for_long_goes_on() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let crowd = Crowd::gather();
        let stop = Arc::new(AtomicBool::new(false));
        let (first, all) = count_first(50, {
            let stop = stop.clone();
            move || while !stop.load(Ordering::Relaxed) {}
        });
        stop.store(true, Ordering::Relaxed);
        join_all(all);
        assert!(first < 25, "{first} children kept their parent waiting");
        crowd.disperse();
    });
}

#[test]
fn with_shared_thread_locals_a_spawn_is_no_place_to_stop() {
    let _procs = Procs::set(1);
    gort::run(|| {
        let crowd = Crowd::gather();
        // SAFETY: it holds no thread-local.
        let parent = unsafe {
            gort::Builder::new().spawn_shared_tls(|| {
                let (first, all) = count_first(100, || ());
                join_all(all);
                first
            })
        };
        let first = parent.unwrap().join().unwrap();
        assert!(first < 50, "{first} children ran first");
        crowd.disperse();
    });
}
