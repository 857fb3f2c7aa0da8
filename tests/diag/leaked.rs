//! `runtime::leaked` lists the goroutines that will wait forever, and no others.
//!
//! Goroutines that have ended make the leaks that must be found, so that no stack has copies of the handles
//! that they forgot.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use common::{join_all, named, until};
use gort::chan::{self, bounded, unbounded};
use gort::runtime::leaked;
use gort::sync::{Barrier, Mutex, RwLock, WaitGroup};

/// Waits until `count` goroutines of that name are in that state.
#[track_caller]
fn until_waiting(name: &str, state: &str, count: usize) {
    until(&format!("{count} goroutines named {name:?} are in state {state}"), || {
        let dump = gort::runtime::dump();
        dump.goroutines().iter().filter(|g| g.name() == Some(name) && g.state() == state).count() == count
    });
}

/// Makes leaks of one kind until all leaks of one round are listed: `expected` says how many goroutines are
/// in which state. Not every round succeeds, because a stale copy of a handle anywhere in memory hides a leak
/// for good.
fn must_be_found(make: fn(&'static str), expected: &[(&str, usize)]) {
    for round in 0..100 {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name: &'static str = Box::leak(format!("leak {}", MADE.fetch_add(1, Relaxed)).into());
        gort::run(move || gort::spawn(move || make(name)).join().unwrap());
        for &(state, count) in expected {
            until_waiting(name, state, count);
        }
        let Some(dump) = leaked() else { continue };
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for g in dump.goroutines().iter().filter(|g| g.name() == Some(name)) {
            *found.entry(g.state()).or_default() += 1;
            assert!(g.spawned_at().is_some() && g.waiting_for().is_some() && g.id() != 0);
        }
        if expected.iter().all(|&(state, count)| found.get(state) == Some(&count)) {
            println!("found in round {round}");
            return;
        }
    }
    panic!("never found: {expected:?}; listed: {:?}", leaked());
}

fn listed(name: &str) -> bool {
    leaked().is_some_and(|dump| dump.goroutines().iter().any(|g| g.name() == Some(name)))
}

#[test]
fn goroutines_that_wait_for_each_other_are_listed() {
    must_be_found(
        |name| {
            let (ask, questions) = bounded::<u32>(0);
            let (answer, answers) = unbounded::<u32>();
            named(name, move || questions.recv().map(|n| answer.send(n)).is_ok());
            named(name, move || answers.recv().map(|n| ask.send(n)).is_ok());
        },
        &[("chan receive", 2)],
    );
}

/// Starts goroutines in a loop, each of which waits for a channel that it alone has.
#[inline(never)]
fn leak(name: &str, count: usize) {
    for _ in 0..count {
        let (sender, receiver) = unbounded::<u32>();
        let _detached = named(name, move || {
            let _forgotten = sender;
            receiver.recv().is_ok()
        });
    }
}

/// Three leaks whose maker sleeps afterwards.
fn must_be_found_meanwhile(make: fn(&str)) {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    for _ in 0..100 {
        let name: &'static str = Box::leak(format!("early {}", MADE.load(Relaxed)).into());
        let before = MADE.load(Relaxed);
        gort::run(move || {
            drop(named("the maker sleeps", move || {
                make(name);
                MADE.fetch_add(1, Relaxed);
                gort::sleep(Duration::from_secs(3600));
            }));
        });
        until("they were made", || MADE.load(Relaxed) > before);
        until_waiting(name, "chan receive", 3);
        let found =
            leaked().map_or(0, |dump| dump.goroutines().iter().filter(|g| g.name() == Some(name)).count());
        println!("{found} of 3");
        if found == 3 {
            return;
        }
    }
    panic!("never found");
}

#[test]
fn leaks_of_a_loop_are_listed_while_its_function_still_runs() {
    must_be_found_meanwhile(|name| leak(name, 3));
}

#[test]
fn leaks_of_an_inlined_loop_are_listed_while_its_function_still_runs() {
    must_be_found_meanwhile(|name| {
        for _ in 0..3 {
            let (sender, receiver) = unbounded::<u32>();
            drop(named(name, move || (receiver.recv().is_ok(), drop(sender)).0));
        }
    });
}

#[test]
fn leaks_of_plain_spawns_are_listed_while_their_function_still_runs() {
    must_be_found_meanwhile(|name| {
        let name: &'static str = Box::leak(name.into());
        for _ in 0..3 {
            gort::go!(drop(named(name, || {
                let (sender, receiver) = bounded::<u32>(0);
                (receiver.recv().is_ok(), drop(sender)).0
            })));
        }
    });
}

#[test]
fn identical_leaks_are_all_listed() {
    must_be_found(|name| leak(name, 3), &[("chan receive", 3)]);
    must_be_found(|name| leak(name, 30), &[("chan receive", 30)]);
}

#[test]
fn a_receiver_whose_sender_is_forgotten_is_listed() {
    must_be_found(
        |name| {
            let (sender, receiver) = bounded::<u32>(1);
            std::mem::forget(sender);
            named(name, move || receiver.recv().is_ok());
        },
        &[("chan receive", 1)],
    );
}

#[test]
fn a_sender_whose_receiver_is_forgotten_is_listed() {
    must_be_found(
        |name| {
            let (sender, receiver) = bounded::<u32>(1);
            std::mem::forget(receiver);
            named(name, move || while sender.send(1).is_ok() {});
        },
        &[("chan send", 1)],
    );
}

#[test]
fn a_select_of_forgotten_channels_is_listed() {
    must_be_found(
        |name| {
            let ((s1, r1), (s2, r2)) = (bounded::<u32>(0), unbounded::<u32>());
            std::mem::forget((r1, s2));
            named(name, move || {
                chan::select! {
                    send(s1, 1) -> _ => {}
                    recv(r2) -> _ => {}
                    recv(chan::never::<u32>()) -> _ => {}
                }
            });
        },
        &[("select", 1)],
    );
}

#[test]
fn a_receiver_of_never_is_listed() {
    must_be_found(|name| drop(named(name, || chan::never::<u32>().recv().is_ok())), &[("chan receive", 1)]);
}

#[test]
fn a_waiter_for_a_wait_group_without_other_clones_is_listed() {
    must_be_found(
        |name| {
            let group = WaitGroup::new();
            group.add(1);
            named(name, move || group.wait());
        },
        &[("sync.WaitGroup.Wait", 1)],
    );
}

#[test]
fn a_goroutine_that_joins_a_leaked_one_is_listed() {
    must_be_found(
        |name| {
            let (sender, receiver) = bounded::<u32>(1);
            std::mem::forget(sender);
            let first = named(name, move || receiver.recv().is_ok());
            let second = named(name, move || first.join().is_ok());
            named(name, move || second.join().is_ok());
        },
        &[("chan receive", 1), ("join", 2)],
    );
}

#[test]
fn goroutines_that_want_each_others_lock_are_listed() {
    must_be_found(
        |name| {
            let locks = Arc::new((Mutex::new(()), RwLock::new(())));
            let both = Arc::new(Barrier::new(2));
            named(name, {
                let (locks, both) = (locks.clone(), both.clone());
                move || {
                    let first = locks.0.lock();
                    both.wait();
                    drop((locks.1.write(), first));
                }
            });
            named(name, move || {
                let first = locks.1.write();
                both.wait();
                drop((locks.0.lock(), first));
            });
        },
        &[("sync.Mutex.Lock", 1), ("sync.RWMutex.Lock", 1)],
    );
}

#[test]
fn a_goroutine_that_locks_twice_is_listed() {
    must_be_found(
        |name| {
            named(name, || {
                let mutex = Mutex::new(());
                let first = mutex.lock();
                drop((mutex.lock(), first));
            });
        },
        &[("sync.Mutex.Lock", 1)],
    );
}

#[test]
fn a_waiter_for_the_lock_of_a_leaked_goroutine_is_listed() {
    must_be_found(
        |name| {
            let (sender, receiver) = bounded::<u32>(1);
            std::mem::forget(sender);
            let lock = Arc::new(RwLock::new(()));
            let held = Arc::new(AtomicBool::new(false));
            named(name, {
                let (lock, held) = (lock.clone(), held.clone());
                move || {
                    let _guard = lock.write();
                    held.store(true, Relaxed);
                    receiver.recv().is_ok()
                }
            });
            for _ in 0..3 {
                let (lock, held) = (lock.clone(), held.clone());
                named(name, move || {
                    until("it is held", || held.load(Relaxed));
                    drop(lock.read());
                });
            }
        },
        &[("chan receive", 1), ("sync.RWMutex.RLock", 3)],
    );
}

#[test]
fn a_writer_behind_a_leaked_reader_is_listed() {
    // In statics, so that the address of the lock is nowhere but in code.
    static LOCKS: [RwLock<()>; 100] = [const { RwLock::new(()) }; 100];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    must_be_found(
        |name| {
            let (sender, receiver) = bounded::<u32>(1);
            std::mem::forget(sender);
            let lock = &LOCKS[NEXT.fetch_add(1, Relaxed)];
            named(name, move || {
                let _guard = lock.read();
                receiver.recv().is_ok()
            });
            until("it is held", || lock.is_locked());
            // A read that has ended does not end the leaked one.
            drop(lock.read());
            for _ in 0..2 {
                named(name, || drop(lock.write()));
            }
        },
        &[("chan receive", 1), ("sync.RWMutex.Lock", 2)],
    );
}

#[test]
fn a_goroutine_that_reads_twice_with_a_writer_between_is_listed() {
    must_be_found(
        |name| {
            let lock = Arc::new(RwLock::new(()));
            named(name, {
                let lock = lock.clone();
                move || {
                    let first = lock.read();
                    until_waiting(name, "sync.RWMutex.Lock", 1);
                    // Readers get in until the writer has waited for a while.
                    until("readers have to wait", || lock.try_read().is_none());
                    drop((lock.read(), first));
                }
            });
            until("it is held", || lock.is_locked());
            named(name, move || drop(lock.write()));
        },
        &[("sync.RWMutex.Lock", 1), ("sync.RWMutex.RLock", 1)],
    );
}

#[test]
fn readers_that_all_want_to_write_are_listed() {
    must_be_found(
        |name| {
            let lock = Arc::new(RwLock::new(()));
            let both = Arc::new(Barrier::new(3));
            for _ in 0..2 {
                let (lock, both) = (lock.clone(), both.clone());
                named(name, move || {
                    let guard = lock.read();
                    both.wait();
                    drop((lock.write(), guard));
                });
            }
            named(name, move || {
                let guard = lock.upgradable_read();
                both.wait();
                drop(gort::sync::RwLockUpgradableReadGuard::upgrade(guard));
            });
        },
        &[("sync.RWMutex.Lock", 3)],
    );
}

#[test]
fn a_waiter_for_a_reader_of_a_lock_on_the_heap_is_not_listed_while_there_is_one() {
    gort::run(|| {
        let (stop, stopped) = bounded::<()>(0);
        let done = Arc::new(AtomicBool::new(false));
        // Nothing but guards, and the goroutines that wait, knows where the locks are.
        let lock = || -> &'static RwLock<[u64; 4]> { Box::leak(Box::default()) };
        let writes = |lock: &'static RwLock<[u64; 4]>| named("writes", move || drop(lock.write()));
        let mut others = Vec::new();
        let (of_sleeper, of_hog, of_thread) = (lock(), lock(), lock());
        let own = stopped.clone();
        others.push(gort::spawn(move || {
            let guard = of_sleeper.read();
            while own.recv_timeout(Duration::from_millis(1)) == Err(chan::RecvTimeoutError::Timeout) {}
            drop(guard);
        }));
        let own = Arc::clone(&done);
        others.push(gort::spawn(move || {
            let last = gort::sync::RwLockReadGuard::map(of_hog.read(), |all| &all[3]);
            while !own.load(Relaxed) {}
            drop(last);
        }));
        let own = Arc::clone(&done);
        let thread = std::thread::spawn(move || {
            let guard = of_thread.read();
            while !own.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(guard);
        });
        for lock in [of_sleeper, of_hog, of_thread] {
            until("it is read", || lock.is_locked());
            others.push(writes(lock));
        }
        until_waiting("writes", "sync.RWMutex.Lock", 3);
        for _ in 0..common::amount(20, 500) {
            assert!(!listed("writes"), "{:?}", leaked());
            gort::yield_now();
        }
        done.store(true, Relaxed);
        drop((stop, stopped));
        thread.join().unwrap();
        join_all(others);
    });
}

#[test]
fn a_waiter_for_a_reader_that_goes_on_is_not_listed() {
    static LOCK: RwLock<()> = RwLock::new(());
    static OF_THREAD: RwLock<()> = RwLock::new(());
    static IMPATIENT: RwLock<()> = RwLock::new(());
    gort::run(|| {
        let (stop, stopped) = bounded::<()>(0);
        // This goroutine has read all three locks before. The readers below still do.
        let leaked_one = || {
            drop((LOCK.read(), OF_THREAD.read(), IMPATIENT.read()));
            chan::never::<()>().recv().is_ok()
        };
        named("reads no more", leaked_one);
        until_waiting("reads no more", "chan receive", 1);
        let reads = |lock: &'static RwLock<()>| {
            let stopped = stopped.clone();
            move || {
                let _guard = lock.read();
                while stopped.recv_timeout(Duration::from_millis(1)) == Err(chan::RecvTimeoutError::Timeout) {
                }
            }
        };
        let reader = gort::spawn(reads(&LOCK));
        let thread = std::thread::spawn(reads(&OF_THREAD));
        let impatient_reader = gort::spawn(reads(&IMPATIENT));
        until("they are held", || LOCK.is_locked() && OF_THREAD.is_locked() && IMPATIENT.is_locked());
        let writers = [&LOCK, &OF_THREAD].map(|lock| named("locks", || drop(lock.write())));
        // It waits with a timeout, so a reader behind it waits no longer than that.
        let impatient = named("impatient", || IMPATIENT.try_write_for(Duration::from_secs(3600)).is_some());
        until_waiting("locks", "sync.RWMutex.Lock", 2);
        until_waiting("impatient", "sync.RWMutex.Lock", 1);
        until("readers have to wait", || IMPATIENT.try_read().is_none());
        let behind = named("locks", || drop(IMPATIENT.read()));
        until_waiting("locks", "sync.RWMutex.RLock", 1);
        until("the leaked one is listed", || listed("reads no more"));

        for _ in 0..common::amount(20, 500) {
            assert!(!listed("locks") && !listed("impatient"), "{:?}", leaked());
            gort::yield_now();
        }

        drop(stop);
        drop(stopped);
        thread.join().unwrap();
        assert!(impatient.join().unwrap());
        for end in writers.into_iter().chain([reader, impatient_reader, behind]) {
            end.join().unwrap();
        }
    });
}

#[test]
fn reachable_goroutines_are_not_listed() {
    static HELD: Mutex<bool> = Mutex::new(true);
    static OTHER: RwLock<bool> = RwLock::new(true);
    static OF_THREAD: Mutex<bool> = Mutex::new(true);
    static KEPT: std::sync::Mutex<Vec<chan::Sender<u32>>> = std::sync::Mutex::new(Vec::new());
    gort::run(|| {
        // The goroutines below can be reached through: a static; this stack; the stack of a goroutine that
        // sleeps, of one that computes, and of a thread; a closure on the heap; a message in a channel; a
        // goroutine that can itself be reached.
        let mut ends: Vec<gort::JoinHandle<bool>> = Vec::new();
        let mut receive =
            |receiver: chan::Receiver<u32>| ends.push(named("alive", move || receiver.recv().is_ok()));
        let (kept, receiver) = unbounded();
        KEPT.lock().unwrap().push(kept);
        receive(receiver);
        let (own, receiver) = bounded(0);
        receive(receiver);
        let (stop, stopped) = bounded::<()>(0);
        let (sender, receiver) = bounded(0);
        let end = stopped.clone();
        let sleeper = named("sleeper", move || {
            while end.recv_timeout(Duration::from_millis(1)) == Err(chan::RecvTimeoutError::Timeout) {}
            sender.send(1).is_ok()
        });
        receive(receiver);
        let (sender, receiver) = bounded(0);
        let go_on = Arc::new(AtomicBool::new(true));
        let flag = go_on.clone();
        let hog = named("hog", move || {
            while flag.load(Relaxed) {}
            sender.send(1).is_ok()
        });
        receive(receiver);
        let (sender, receiver) = bounded(0);
        let end = stopped.clone();
        let thread = std::thread::spawn(move || {
            let _held = OF_THREAD.lock();
            let _ = end.recv();
            sender.send(1).is_ok()
        });
        receive(receiver);
        let (sender, receiver) = bounded(0);
        let boxed: Box<dyn Fn() -> bool + Send> = Box::new(move || sender.send(1).is_ok());
        receive(receiver);
        let (sender, receiver) = bounded(0);
        let (carrier, carried) = bounded(1);
        carrier.send(sender).unwrap();
        receive(receiver);
        let (sender, receiver) = bounded(0);
        let (first, last) = bounded::<u32>(0);
        ends.push(named("alive", move || last.recv().is_ok() && sender.send(1).is_ok()));
        ends.push(named("alive", move || receiver.recv().is_ok()));
        let held = HELD.lock();
        ends.push(named("locks", || {
            let _other = OTHER.write();
            *HELD.lock()
        }));
        until("others hold the locks", || OTHER.is_locked() && OF_THREAD.is_locked());
        ends.push(named("locks", || *OTHER.read()));
        ends.push(named("locks", || *OF_THREAD.lock()));
        until_waiting("alive", "chan receive", 9);
        until_waiting("locks", "sync.Mutex.Lock", 2);
        until_waiting("locks", "sync.RWMutex.RLock", 1);

        for _ in 0..common::amount(20, 500) {
            assert!(!listed("alive") && !listed("locks"), "{:?}", leaked());
            gort::yield_now();
        }

        drop(held);
        go_on.store(false, Relaxed);
        drop(stop);
        drop(stopped);
        KEPT.lock().unwrap().pop().unwrap().send(1).unwrap();
        assert!(own.send(1).is_ok() && boxed() && first.send(1).is_ok());
        carried.recv().unwrap().send(1).unwrap();
        assert!(hog.join().unwrap() && sleeper.join().unwrap() && thread.join().unwrap());
        assert!(ends.into_iter().all(|end| end.join().unwrap()));
    });
}

#[test]
fn traffic_is_not_disturbed_and_never_listed() {
    gort::run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Vec::new();
        for n in 0..8u64 {
            let ((ask, questions), (answer, answers)) = (bounded::<u64>(n as usize % 3), unbounded::<u64>());
            named("traffic", move || {
                for n in questions {
                    answer.send(n + 1).unwrap();
                }
            });
            let (stop, lock) = (stop.clone(), Arc::new(Mutex::new(0u64)));
            all.push(named("traffic", move || {
                let mut n = 0;
                while !stop.load(Relaxed) {
                    ask.send(n).unwrap();
                    n = answers.recv().unwrap();
                    let lock = lock.clone();
                    named("traffic", move || *lock.lock() += 1).join().unwrap();
                }
                (n, *lock.lock())
            }));
        }
        for _ in 0..common::amount(50, 2000) {
            let Some(found) = leaked() else { continue };
            let found: Vec<_> = found.goroutines().iter().filter(|g| g.name() == Some("traffic")).collect();
            assert!(found.is_empty(), "{found:?}");
        }
        stop.store(true, Relaxed);
        for one in all {
            let (asked, locked) = one.join().unwrap();
            assert!(asked == locked && asked > 0);
        }
    });
}
