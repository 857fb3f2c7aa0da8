//! Tests of `crew.rs`.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;
use crate::chan::{bounded, unbounded};
use crate::sync::WaitGroup;
use crate::test_util::PATIENCE;

fn start(group: &Arc<WaitGroup>, future: impl Future<Output = ()> + Send + 'static) {
    group.add(1);
    let group = group.clone();
    spawn(Location::caller(), async move {
        future.await;
        group.done();
    })
    .unwrap();
}

#[track_caller]
fn wait(group: &WaitGroup) {
    assert!(group.wait_for(PATIENCE), "some tasks have not ended within {PATIENCE:?}");
}

#[test]
fn who_blocks_in_a_poll_keeps_nobody_waiting() {
    const BLOCKED: usize = 300;
    let group = Arc::new(WaitGroup::new());
    let (sender, receiver) = bounded(0);
    for _ in 0..BLOCKED {
        let receiver = receiver.clone();
        start(&group, async move { assert_eq!(receiver.recv(), Ok(7)) });
    }
    start(&group, async move { (0..BLOCKED).for_each(|_| sender.send(7).unwrap()) });
    wait(&group);
}

#[test]
fn who_computes_in_a_poll_keeps_nobody_waiting() {
    const OTHERS: usize = 100;
    let group = Arc::new(WaitGroup::new());
    // Warm up with brief polls.
    for _ in 0..1000 {
        start(&group, async {});
    }
    wait(&group);
    for _ in 0..20 {
        let done = Arc::new(AtomicUsize::new(0));
        let seen = done.clone();
        start(&group, async move {
            while seen.load(Ordering::Relaxed) < OTHERS {
                std::hint::spin_loop();
            }
        });
        for _ in 0..OTHERS {
            let done = done.clone();
            start(&group, async move {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        wait(&group);
    }
}

#[test]
fn many_tasks_need_few_goroutines() {
    const TASKS: usize = 2000;
    let group = Arc::new(WaitGroup::new());
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let senders: Vec<_> = (0..TASKS)
        .map(|_| {
            let (sender, receiver) = unbounded();
            let seen = seen.clone();
            start(&group, async move {
                while let Ok(()) = receiver.recv_async().await {
                    seen.lock().unwrap().insert(thread::current().id());
                }
            });
            sender
        })
        .collect();
    for _ in 0..10 {
        senders.iter().for_each(|sender| sender.send(()).unwrap());
    }
    drop(senders);
    wait(&group);
    let goroutines = seen.lock().unwrap().len();
    assert!((1..TASKS / 4).contains(&goroutines), "{goroutines} goroutines polled {TASKS} tasks");
}

#[test]
fn threads_wake_tasks() {
    let group = Arc::new(WaitGroup::new());
    let (sender, receiver) = bounded(1);
    start(&group, async move {
        let mut sum = 0;
        while let Ok(number) = receiver.recv_async().await {
            sum += number;
        }
        assert_eq!(sum, 3 * (0..1000).sum::<u32>());
    });
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..1000).for_each(|number| sender.send(number).unwrap()));
        }
    });
    drop(sender);
    wait(&group);
}

#[test]
fn timers_wake_tasks() {
    let group = Arc::new(WaitGroup::new());
    for millis in 0..20 {
        start(&group, async move {
            for _ in 0..3 {
                crate::future::sleep(std::time::Duration::from_millis(millis)).await;
            }
        });
    }
    wait(&group);
}

#[test]
fn who_stays_bound_to_its_thread_leaves() {
    let group = Arc::new(WaitGroup::new());
    for _ in 0..20 {
        start(&group, async { crate::runtime::lock_os_thread() });
    }
    wait(&group);
    let (sender, receiver) = bounded(0);
    for _ in 0..100 {
        let sender = sender.clone();
        start(&group, async move { sender.send(current().map(|g| g.lock_count.get())).unwrap() });
        assert_eq!(receiver.recv(), Ok(Some(0)));
    }
    wait(&group);
}

#[test]
fn a_panic_ends_its_task_only() {
    struct Ends(Arc<WaitGroup>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.done();
        }
    }
    let group = Arc::new(WaitGroup::new());
    for number in 0..20 {
        group.add(1);
        let ends = Ends(group.clone());
        spawn(Location::caller(), async move {
            let _ends = ends;
            assert_ne!(number % 2, 0, "an odd number, please");
        })
        .unwrap();
    }
    wait(&group);
}
