//! A crowd in std's locks, channels and sleeps needs few threads and little memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use gort::JoinHandle;

use super::common::{alone_with, amount, status_bytes, threads, until};

/// What all of them wait for.
#[derive(Default)]
struct Shared {
    mutex: Mutex<usize>,
    set: Mutex<bool>,
    changed: Condvar,
    awake: AtomicBool,
    begun: AtomicUsize,
}

/// The end of a wait for messages: the sender, to be dropped when all wait.
type Sender = mpsc::Sender<usize>;

/// `n` goroutines of which a quarter each waits for a mutex, a condition, a message, and the end of a sleep.
fn spawn_crowd(n: usize, shared: &Arc<Shared>) -> (Vec<JoinHandle<usize>>, Vec<Sender>) {
    let mut senders = Vec::new();
    let spawn = |wait: Box<dyn FnOnce(&Shared) -> usize + Send>| {
        let shared = Arc::clone(shared);
        gort::spawn(move || {
            shared.begun.fetch_add(1, Ordering::Relaxed);
            wait(&shared)
        })
    };
    let crowd = (0..n).map(|number| match number % 4 {
        0 => spawn(Box::new(|shared| {
            *shared.mutex.lock().unwrap() += 1;
            1
        })),
        1 => spawn(Box::new(|shared| {
            drop(shared.changed.wait_while(shared.set.lock().unwrap(), |set| !*set).unwrap());
            1
        })),
        2 => {
            let (sender, receiver) = mpsc::channel();
            senders.push(sender);
            spawn(Box::new(move |_| receiver.recv().unwrap()))
        }
        _ => spawn(Box::new(|shared| {
            while !shared.awake.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_secs(5));
            }
            1
        })),
    });
    (crowd.collect(), senders)
}

/// The sizes of the process's memory and its page tables.
fn memory() -> usize {
    status_bytes("VmRSS") + status_bytes("VmPTE")
}

#[test]
fn a_crowd_that_waits_by_means_of_std_needs_few_threads_and_little_memory() {
    // All stacks packed: those of the first ten thousand cost more otherwise (docs/decisions/047).
    let test = "crowd::a_crowd_that_waits_by_means_of_std_needs_few_threads_and_little_memory";
    if !alone_with(test, &[("GORT_MAX_STACK", "0")]) {
        return;
    }
    let _watchdog = super::enable();
    let n = amount(20_000, 100_000);
    gort::run(|| {
        let shared = Arc::new(Shared::default());
        let (threads_before, memory_before) = (threads().len(), memory());
        let locked = shared.mutex.lock().unwrap();
        let (crowd, senders) = spawn_crowd(n, &shared);
        until("all have begun", || shared.begun.load(Ordering::Relaxed) == n);
        until("they wait", || gort::runtime::stats().goroutines.waiting >= n);
        super::until_few_threads(threads_before);
        let each = (memory() - memory_before) / n;
        println!("{} threads, {each} bytes each", threads().len());
        // In a debug build, the frames of a wait do not fit into the first page of a stack.
        let most = if cfg!(debug_assertions) { 13 << 10 } else { 7 << 10 };
        assert!(each <= most, "{each} bytes each");
        drop(locked);
        *shared.set.lock().unwrap() = true;
        shared.changed.notify_all();
        for sender in senders {
            sender.send(1).unwrap();
        }
        shared.awake.store(true, Ordering::Relaxed);
        assert_eq!(crowd.into_iter().map(|one| one.join().unwrap()).sum::<usize>(), n);
        assert_eq!(*shared.mutex.lock().unwrap(), n.div_ceil(4));
    });
}
