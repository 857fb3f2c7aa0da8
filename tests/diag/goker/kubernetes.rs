//! Kubernetes.

use gort::chan::select;
use gort::sync::{Condvar, Mutex};

use crate::common::until;
use crate::rig::{
    Flag, Program, leak, mutex, opposite_orders, reads_twice, rwlock, stuck, until_readers_wait,
};

pub(crate) const PROGRAMS: &[Program] = &[
    // It sends to a watcher with the lock that the watcher needs to stop.
    Program {
        name: "Kubernetes1321",
        leaks: &[leak("G1", "sync.Mutex.Lock", 1), leak("G2", "chan send", 1)],
        run: |rig| {
            let (lock, result) = (mutex(), rig.chan(0));
            let (mux, watcher) = (lock.clone(), result.clone());
            rig.go("G2", move || {
                let _lock = mux.lock();
                watcher.send(());
            });
            rig.go("G1", move || {
                until("it distributes", || lock.is_locked());
                let _lock = lock.lock();
                result.close();
            });
        },
    },
    // The request takes longer than its caller waits.
    Program {
        name: "Kubernetes5316",
        leaks: &[leak("G2", "chan send", 1)],
        run: |rig| {
            let (answers, errors, gone) = (rig.chan::<bool>(0), rig.chan::<u32>(0), Flag::default());
            let (answer, error, late) = (answers.clone(), errors.clone(), gone.clone());
            rig.go("G2", move || {
                late.wait();
                if error.receiver().is_empty() {
                    answer.send(true);
                }
            });
            rig.go("G1", move || {
                select! {
                    recv(answers.receiver()) -> _ => {}
                    recv(errors.receiver()) -> _ => {}
                    default(std::time::Duration::from_micros(1)) => gone.raise(),
                }
            });
        },
    },
    // It writes to a full channel with the lock that its reader takes first.
    Program {
        name: "Kubernetes6632",
        leaks: &[leak("G1", "sync.Mutex.Lock", 1), leak("G2", "chan send", 1)],
        run: |rig| {
            let (write, reset, close) = (mutex(), rig.chan::<bool>(0), rig.chan::<bool>(0));
            let closes = close.clone();
            rig.go("helper", move || closes.send(true));
            let (monitor, resets) = (write.clone(), reset.clone());
            rig.go("G1", move || {
                close.recv();
                until("it is written", || monitor.is_locked());
                let _write = monitor.lock();
                resets.close();
            });
            rig.go("G2", move || {
                let _write = write.lock();
                reset.send(true);
            });
        },
    },
    // Two set a status with a lock, and the receiver takes that lock after the first one.
    Program {
        name: "Kubernetes10182",
        leaks: &[leak("G1", "sync.RWMutex.Lock", 1), leak("G3", "chan send", 1)],
        run: |rig| {
            let (lock, status, first) = (rwlock(), rig.chan::<bool>(0), Flag::default());
            {
                let (lock, status, first) = (lock.clone(), status.clone(), first.clone());
                rig.go("G1", move || {
                    for _ in 0..2 {
                        status.recv();
                        first.wait();
                        until("the second one has the lock", || lock.is_locked());
                        drop(lock.write());
                    }
                });
            }
            {
                let (lock, status, first) = (lock.clone(), status.clone(), first.clone());
                rig.go("G2", move || {
                    let guard = lock.write();
                    status.send(true);
                    drop(guard);
                    first.raise();
                });
            }
            rig.go("G3", move || {
                first.wait();
                let _guard = lock.write();
                status.send(true);
            });
        },
    },
    // The notification comes before the goroutine that waits for it.
    Program {
        name: "Kubernetes11298",
        leaks: &[
            leak("G1", "chan receive", 1),
            leak("notifier", "chan receive", 1),
            leak("waiter", "sync.Cond.Wait", 1),
        ],
        run: |rig| {
            let notifier = rig.share((Mutex::new(()), Condvar::new()));
            let (notified, woken, done) = (Flag::default(), rig.chan::<()>(0), rig.chan::<()>(0));
            let (waits, before, wakes) = (notifier.clone(), notified.clone(), woken.clone());
            rig.go("waiter", move || {
                before.wait();
                waits.1.wait(&mut waits.0.lock());
                wakes.close();
            });
            let ends = done.clone();
            rig.go("notifier", move || {
                notifier.1.notify_one();
                notified.raise();
                woken.recv();
                ends.close();
            });
            rig.go("G1", move || {
                let _closed = done.recv();
            });
        },
    },
    // A cache and its watcher call each other, each with its lock.
    Program {
        name: "Kubernetes13135",
        leaks: &[stuck("G2", "sync.Mutex.Lock", 1), stuck("G3", "sync.Mutex.Lock", 1)],
        run: |rig| opposite_orders(rig, ["G2", "G3"]),
    },
    // Nobody closes the channel of results, and nobody reads it.
    Program {
        name: "Kubernetes25331",
        leaks: &[leak("G1", "chan send", 1)],
        run: |rig| {
            let (errors, results) = (rig.chan::<u32>(0), rig.chan::<bool>(0));
            let (context, cancel) = rig.context();
            let fails = errors.clone();
            rig.go("G1", move || {
                select! {
                    recv(errors.receiver()) -> error => {
                        cancel.cancel();
                        results.send(error.is_ok());
                    }
                    recv(context.done()) -> _ => {}
                }
            });
            rig.go("G2", move || fails.send(1));
        },
    },
    // It waits to be stopped with the lock that others need before they stop it.
    Program {
        name: "Kubernetes26980",
        leaks: &[
            leak("G1", "chan receive", 1),
            leak("G2", "sync.Mutex.Lock", 1),
            leak("pop", "chan receive", 1),
        ],
        run: |rig| {
            let (lock, stop, result) = (mutex(), rig.chan::<()>(0), rig.chan::<()>(0));
            let (pops, stops) = (lock.clone(), stop.clone());
            rig.go("pop", move || {
                let _lock = pops.lock();
                stops.recv();
            });
            let results = result.clone();
            rig.go("G2", move || {
                until("it pops", || lock.is_locked());
                drop(lock.lock());
                results.close();
            });
            rig.go("G1", move || {
                result.recv();
                stop.close();
            });
        },
    },
    // A queue and an informer call each other, each with its lock. A third goroutine wants to stop them.
    Program {
        name: "Kubernetes30872",
        leaks: &[
            stuck("G2", "sync.Mutex.Lock", 1),
            stuck("G3", "sync.Mutex.Lock", 1),
            stuck("G4", "sync.RWMutex.Lock", 1),
        ],
        run: |rig| {
            let (informer, queue, stop) = (mutex(), rwlock(), rig.chan::<()>(0));
            let both = (informer.clone(), queue.clone());
            rig.go("G2", move || {
                let _queue = both.1.write();
                until("the informer is locked", || both.0.is_locked());
                drop(both.0.lock());
            });
            let (ends, stopped) = (informer.clone(), stop.clone());
            rig.go("G3", move || {
                stopped.recv();
                drop(ends.lock());
            });
            rig.go("G4", move || {
                let _informer = informer.lock();
                until("the queue is locked", || queue.is_locked());
                stop.close();
                drop(queue.write());
            });
        },
    },
    // The watcher is stopped before anybody reads its first events.
    Program {
        name: "Kubernetes38669",
        leaks: &[leak("G2", "chan send", 1)],
        run: |rig| {
            let watcher = rig.share((rig.chan::<u32>(0), rig.chan::<u32>(0)));
            let stops = watcher.clone();
            rig.go("G2", move || {
                let (input, result) = &*watcher;
                for event in 0..2 {
                    result.send(event);
                }
                while input.recv().is_some() {}
                result.close();
            });
            rig.go("G1", move || stops.0.close());
        },
    },
    // A worker waits for its queue with a read lock, a writer for the worker, another worker for the writer.
    Program {
        name: "Kubernetes58107",
        leaks: &[
            leak("G3", "sync.Cond.Wait", 1),
            leak("G4", "sync.RWMutex.RLock", 1),
            leak("G5", "sync.RWMutex.Lock", 1),
        ],
        run: |rig| {
            let (workers, queue) = (rwlock(), rig.share((Mutex::new(()), Condvar::new())));
            let works = workers.clone();
            rig.go("G3", move || {
                let _worker = works.read();
                queue.1.wait(&mut queue.0.lock());
            });
            let behind = workers.clone();
            rig.go("G4", move || {
                until("the writer waits", || behind.is_locked());
                until_readers_wait(&behind);
                drop(behind.read());
            });
            rig.go("G5", move || {
                until("a worker works", || workers.is_locked());
                drop(workers.write());
            });
        },
    },
    Program {
        name: "Kubernetes62464",
        leaks: &[stuck("G1", "sync.RWMutex.RLock", 1), stuck("G2", "sync.RWMutex.Lock", 1)],
        run: |rig| reads_twice(rig, "G1", "G2"),
    },
    // It waits for a channel that it closes itself afterwards.
    Program {
        name: "Kubernetes70277",
        leaks: &[leak("G1", "chan receive", 1)],
        run: |rig| {
            let (stop, polled) = (rig.chan::<()>(0), rig.chan::<()>(0));
            let (done, polls) = (stop.clone(), polled.clone());
            rig.go("poller", move || {
                let _ = done.receiver().recv_timeout(std::time::Duration::from_millis(1));
                polls.close();
            });
            rig.go("G1", move || {
                polled.recv();
                stop.recv();
                stop.close();
            });
        },
    },
];
