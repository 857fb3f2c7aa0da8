//! CockroachDB.

use gort::chan::{select, select_biased};
use gort::sync::{Mutex, WaitGroup};

use crate::common::until;
use crate::rig::{
    Chan, Flag, Program, leak, locks_twice, mutex, opposite_orders, reads_twice, rwlock, stuck,
    until_readers_wait,
};

pub(crate) const PROGRAMS: &[Program] = &[
    // A loop is left with its lock held, and the next loop wants the lock.
    Program {
        name: "Cockroach584",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1)],
        run: |rig| {
            rig.go("G1", || {
                let lock = Mutex::new(());
                for _ in 0..2 {
                    std::mem::forget(lock.lock());
                }
            });
        },
    },
    // Two tasks wait to be stopped. The goroutine that would stop them first waits for the tasks to end.
    Program {
        name: "Cockroach1055",
        leaks: &[
            leak("G1", "chan receive", 1),
            leak("G2", "chan receive", 2),
            leak("G3", "sync.WaitGroup.Wait", 1),
        ],
        run: |rig| {
            let started = Flag::default();
            let stoppers: [(Chan<()>, WaitGroup); 2] = std::array::from_fn(|_| (rig.chan(0), rig.group()));
            for (stop, drain) in stoppers.clone() {
                let started = started.clone();
                rig.go("G2", move || {
                    drain.add(1);
                    started.raise();
                    stop.recv();
                    drain.done();
                });
            }
            let done = rig.chan::<()>(0);
            let all_done = done.clone();
            rig.go("G3", move || {
                started.wait_for(2);
                for (stop, drain) in stoppers {
                    drain.wait();
                    stop.close();
                }
                all_done.close();
            });
            rig.go("G1", move || {
                let _closed = done.recv();
            });
        },
    },
    // The consumer sees the stop before the producer does, and the producer sends once more.
    Program {
        name: "Cockroach1462",
        leaks: &[leak("G1", "sync.WaitGroup.Wait", 1), leak("G2", "chan send", 1)],
        run: |rig| {
            let (stop, events, workers) = (rig.chan::<()>(0), rig.chan::<u32>(0), rig.group());
            let (checked, gone) = (Flag::default(), Flag::default());
            workers.add(2);
            {
                let (stop, events, workers) = (stop.clone(), events.clone(), workers.clone());
                let (checked, gone) = (checked.clone(), gone.clone());
                rig.go("G2", move || {
                    while stop.receiver().try_recv().is_err_and(|error| error.is_empty()) {
                        checked.raise();
                        gone.wait();
                        events.send(0);
                    }
                    workers.done();
                });
            }
            {
                let (stop, workers) = (stop.clone(), workers.clone());
                rig.go("G3", move || {
                    while select_biased! {
                        recv(stop.receiver()) -> _ => false,
                        recv(events.receiver()) -> _ => true,
                    } {}
                    workers.done();
                    gone.raise();
                });
            }
            rig.go("G1", move || {
                checked.wait();
                stop.close();
                workers.wait();
            });
        },
    },
    // The one sends its next event, the other the answer to the last one.
    Program {
        name: "Cockroach2448",
        leaks: &[leak("G1", "select", 1), leak("G2", "select", 1)],
        run: |rig| {
            let (stop, events, callbacks) = (rig.chan::<()>(0), rig.chan::<u32>(0), rig.chan::<u32>(0));
            let looked = Flag::default();
            {
                let (stop, events, callbacks) = (stop.clone(), events.clone(), callbacks.clone());
                let looked = looked.clone();
                rig.go("G1", move || {
                    loop {
                        select! {
                            recv(events.receiver()) -> event => {
                                let Ok(event) = event else { return };
                                looked.wait_for(2);
                                select! {
                                    send(callbacks.sender(), event) -> _ => {}
                                    recv(stop.receiver()) -> _ => return,
                                }
                            }
                            recv(stop.receiver()) -> _ => return,
                        }
                    }
                });
            }
            rig.go("G2", move || {
                loop {
                    select! {
                        recv(stop.receiver()) -> _ => return,
                        recv(callbacks.receiver()) -> _ => {}
                        default => {
                            looked.raise();
                            select! {
                                send(events.sender(), 0) -> _ => {}
                                recv(stop.receiver()) -> _ => return,
                            }
                        }
                    }
                }
            });
        },
    },
    Program {
        name: "Cockroach3710",
        leaks: &[stuck("G1", "sync.RWMutex.RLock", 1), stuck("G2", "sync.RWMutex.Lock", 1)],
        run: |rig| reads_twice(rig, "G1", "G2"),
    },
    // Three look something up: they read twice, and then write.
    Program {
        name: "Cockroach6181",
        leaks: &[
            leak("G1", "sync.WaitGroup.Wait", 1),
            stuck("G2", "sync.RWMutex.RLock", 2),
            stuck("G2", "sync.RWMutex.Lock", 1),
        ],
        run: |rig| {
            let (cache, lookups) = (rwlock(), rig.group());
            let reads = Flag::default();
            lookups.add(3);
            {
                let (cache, lookups, reads) = (cache.clone(), lookups.clone(), reads.clone());
                rig.go("G2", move || {
                    let first = cache.read();
                    reads.raise();
                    until_readers_wait(&cache);
                    drop(cache.read());
                    drop(first);
                    lookups.done();
                });
            }
            {
                let (cache, lookups, reads) = (cache.clone(), lookups.clone(), reads.clone());
                rig.go("G2", move || {
                    reads.wait();
                    drop(cache.write());
                    lookups.done();
                });
            }
            let all = lookups.clone();
            rig.go("G2", move || {
                reads.wait();
                until_readers_wait(&cache);
                drop(cache.read());
                lookups.done();
            });
            rig.go("G1", move || all.wait());
        },
    },
    Program {
        name: "Cockroach7504",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1), stuck("G2", "sync.Mutex.Lock", 1)],
        run: |rig| opposite_orders(rig, ["G1", "G2"]),
    },
    Program {
        name: "Cockroach9935",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1)],
        run: |rig| locks_twice(rig, "G1"),
    },
    // In opposite orders, one of them with a third lock between.
    Program {
        name: "Cockroach10214",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1), stuck("G2", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let (coalesced, raft, own) = (mutex(), mutex(), mutex());
            {
                let (coalesced, raft) = (coalesced.clone(), raft.clone());
                rig.go("G1", move || {
                    let _coalesced = coalesced.lock();
                    until("the other one has its lock", || raft.is_locked());
                    drop(raft.lock());
                });
            }
            rig.go("G2", move || {
                let _raft = raft.lock();
                let _own = own.lock();
                until("the other one has its lock", || coalesced.is_locked());
                drop(coalesced.lock());
            });
        },
    },
    // The sender gives up when the context ends. The receiver starts others to drain the channels.
    Program {
        name: "Cockroach10790",
        leaks: &[leak("G3", "chan receive", 2)],
        run: |rig| {
            let chans: [Chan<bool>; 2] = std::array::from_fn(|_| rig.chan(0));
            let (context, cancel) = rig.context();
            cancel.cancel();
            {
                let (context, chans) = (context.clone(), chans.clone());
                rig.go("helper", move || {
                    for chan in &chans {
                        select_biased! {
                            recv(context.done()) -> _ => return,
                            send(chan.sender(), true) -> _ => {}
                        }
                    }
                });
            }
            let own = rig.clone();
            rig.go("G1", move || {
                for chan in &chans {
                    select! {
                        recv(chan.receiver()) -> _ => {}
                        recv(context.done()) -> _ => {
                            let chans = chans.clone();
                            let all = move || chans.iter().for_each(|chan| while chan.recv().is_some() {});
                            own.go("G3", all);
                        }
                    }
                }
            });
        },
    },
    // A transaction that nobody rolls back waits for the end of its context.
    Program {
        name: "Cockroach13197",
        leaks: &[leak("G2", "chan receive", 1)],
        run: |rig| {
            let transaction = rig.context();
            rig.go("G2", move || {
                let _ = transaction.0.done().recv();
                transaction.1.cancel();
            });
        },
    },
    // As before; the rows and the context that they wait for are two objects.
    Program {
        name: "Cockroach13755",
        leaks: &[leak("G2", "chan receive", 1)],
        run: |rig| {
            let (context, cancel) = rig.context();
            let rows = rig.share(cancel);
            rig.go("G2", move || {
                let _ = context.done().recv();
                rows.cancel();
            });
        },
    },
    Program {
        name: "Cockroach16167",
        leaks: &[stuck("G1", "sync.RWMutex.RLock", 1), stuck("G2", "sync.RWMutex.Lock", 1)],
        run: |rig| reads_twice(rig, "G1", "G2"),
    },
    // The receiver stops when its context ends, and the sender has more than the buffer holds.
    Program {
        name: "Cockroach18101",
        leaks: &[leak("G2", "chan send", 1)],
        run: |rig| {
            let (context, cancel) = rig.context();
            let ready = rig.chan(6);
            let spans = ready.clone();
            rig.go("G2", move || {
                for n in 0..8 {
                    spans.send(n);
                }
                spans.close();
            });
            rig.go("G1", move || {
                while ready.recv().is_some() {
                    if context.done().recv().is_err() {
                        return;
                    }
                }
            });
            rig.go("helper", move || cancel.cancel());
        },
    },
    // It sends to a full buffer, and would start the receiver afterwards.
    Program {
        name: "Cockroach24808",
        leaks: &[leak("G1", "chan send", 1)],
        run: |rig| {
            let work = rig.chan(1);
            let own = rig.clone();
            rig.go("G1", move || {
                work.send(());
                work.send(());
                own.go("worker", move || while work.recv().is_some() {});
            });
        },
    },
    // It waits for an end that it would cause itself.
    Program {
        name: "Cockroach25456",
        leaks: &[leak("G1", "chan receive", 1)],
        run: |rig| {
            let quiesce = rig.share(rig.chan::<()>(0));
            rig.go("G1", move || {
                quiesce.recv();
                quiesce.close();
            });
        },
    },
    // Two push into a full buffer that nobody reads.
    Program {
        name: "Cockroach35073",
        leaks: &[leak("G1", "chan send", 1), leak("G2", "chan send", 1)],
        run: |rig| {
            let rows = rig.chan(16);
            let own = rig.clone();
            rig.go("G1", move || {
                for n in 0..16 {
                    rows.send(n);
                }
                let (pushed, outbox) = (own.group(), rows.clone());
                pushed.add(1);
                own.go("G2", move || {
                    outbox.send(16);
                    pushed.done();
                });
                rows.send(17);
            });
        },
    },
    // The cancellation pushes into the stream that was not read.
    Program {
        name: "Cockroach35931",
        leaks: &[leak("G1", "chan send", 1)],
        run: |rig| {
            let streams = [rig.chan(1), rig.chan(1)];
            rig.go("G1", move || {
                streams[0].send(());
                for stream in &streams {
                    stream.send(());
                }
            });
        },
    },
];
