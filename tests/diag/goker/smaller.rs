//! Hugo, Istio, Knative Serving, Syncthing.

use gort::chan::select;
use gort::sync::{Mutex, Once, RwLock};

use crate::common::until;
use crate::rig::{Flag, Program, leak, mutex, rwlock, stuck};

pub(crate) const PROGRAMS: &[Program] = &[
    // A lock for each URL, and a lock around the table of them. The first goroutine has the lock of the URL
    // and wants the table, the second has the table and wants the URL, the third wants the table.
    Program {
        name: "Hugo3251",
        leaks: &[
            leak("G1", "sync.WaitGroup.Wait", 1),
            stuck("G2", "sync.RWMutex.RLock", 1),
            stuck("G2", "sync.Mutex.Lock", 1),
            stuck("G2", "sync.RWMutex.Lock", 1),
        ],
        run: |rig| {
            let (table, url, all) = (rwlock(), mutex(), rig.group());
            all.add(3);
            let to_the_url = |table: &RwLock<()>, url: &Mutex<()>| {
                let table = table.write();
                std::mem::forget(url.lock());
                drop(table);
            };
            {
                let (table, url, all) = (table.clone(), url.clone(), all.clone());
                rig.go("G2", move || {
                    let url = url.lock();
                    until("the table is locked", || table.is_locked());
                    drop(table.read());
                    drop(url);
                    all.done();
                });
            }
            {
                let (table, url, all) = (table.clone(), url.clone(), all.clone());
                rig.go("G2", move || {
                    until("the URL is locked", || url.is_locked());
                    to_the_url(&table, &url);
                    all.done();
                });
            }
            let group = all.clone();
            rig.go("G2", move || {
                until("both are locked", || url.is_locked() && table.is_locked());
                to_the_url(&table, &url);
                all.done();
            });
            rig.go("G1", move || group.wait());
        },
    },
    // It locks twice, the second time inside a `Once`, for which the others wait.
    Program {
        name: "Hugo5379",
        leaks: &[
            leak("G1", "sync.WaitGroup.Wait", 1),
            stuck("G2", "sync.Mutex.Lock", 1),
            stuck("G3", "sync.Once.Do", 2),
        ],
        run: |rig| {
            let page = rig.share((Mutex::new(()), Once::new()));
            let inside = Flag::default();
            let (renders, is_inside) = (page.clone(), inside.clone());
            rig.go("G2", move || {
                let _content = renders.0.lock();
                renders.1.call_once(|| {
                    is_inside.raise();
                    drop(renders.0.lock());
                });
            });
            let all = rig.group();
            all.add(2);
            for _ in 0..2 {
                let (page, inside, all) = (page.clone(), inside.clone(), all.clone());
                rig.go("G3", move || {
                    inside.wait();
                    page.1.call_once(|| {});
                    all.done();
                });
            }
            rig.go("G1", move || all.wait());
        },
    },
    // The handler says that it is done with the lock that its listener takes first.
    Program {
        name: "Istio16224",
        leaks: &[leak("G1", "sync.Mutex.Lock", 1), leak("G2", "chan send", 1)],
        run: |rig| {
            let (lock, events, done) = (mutex(), rig.chan::<()>(0), rig.chan::<()>(0));
            let (locks, listens, says) = (lock.clone(), events.clone(), done.clone());
            rig.go("G2", move || {
                while listens.recv().is_some() {
                    let _lock = locks.lock();
                    says.send(());
                }
            });
            rig.go("G1", move || {
                events.send(());
                until("the handler has the lock", || lock.is_locked());
                drop(lock.lock());
                done.recv();
            });
        },
    },
    // The agent ends with its context. Two processes want to tell it how they ended.
    Program {
        name: "Istio17860",
        leaks: &[leak("G2", "chan send", 2)],
        run: |rig| {
            let (status, over) = (rig.chan::<u32>(0), Flag::default());
            let (context, cancel) = rig.context();
            let (agent, ended) = (status.clone(), over.clone());
            rig.go("G1", move || {
                select! {
                    recv(agent.receiver()) -> _ => {}
                    recv(context.done()) -> _ => ended.raise(),
                }
            });
            cancel.cancel();
            for epoch in 0..2 {
                let (status, over) = (status.clone(), over.clone());
                rig.go("G2", move || {
                    over.wait();
                    status.send(epoch);
                });
            }
        },
    },
    // The loop drains a timer that was drained before, and no more events get into the full buffer.
    Program {
        name: "Istio18454",
        leaks: &[leak("G2", "chan receive", 1), leak("G3", "chan send", 1)],
        run: |rig| {
            let (timer, reset) = (rig.chan::<()>(1), rig.chan::<()>(1));
            let strategy = rig.share((timer, reset));
            strategy.0.send(());
            let events = strategy.clone();
            rig.go("G2", move || {
                strategy.0.recv();
                strategy.1.recv();
                strategy.0.recv();
            });
            rig.go("G3", move || (0..3).for_each(|_| events.1.send(())));
        },
    },
    // One request is active and waits for a lock. The holder waits for the other request, which is pending.
    Program {
        name: "Serving2137",
        leaks: &[leak("G1", "chan receive", 1), leak("G2", "chan send", 1), leak("G3", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let (active, locks) = (rig.chan(1), [mutex(), mutex()]);
            let accepted = [rig.chan(1), rig.chan(1)];
            let held = Flag::default();
            for (n, role) in [(1, "G3"), (0, "G2")] {
                let (active, lock, accepted) = (active.clone(), locks[n].clone(), accepted[n].clone());
                let held = held.clone();
                rig.go(role, move || {
                    held.wait();
                    until("its turn has come", || n == 1 || active.receiver().is_full());
                    active.send(());
                    drop(lock.lock());
                    active.recv();
                    accepted.send(true);
                });
            }
            rig.go("G1", move || {
                let guards = [locks[0].lock(), locks[1].lock()];
                held.raise();
                for (guard, accepted) in guards.into_iter().zip(&accepted) {
                    drop(guard);
                    accepted.recv();
                }
            });
        },
    },
    // It wants to read what it has locked to write.
    Program {
        name: "Syncthing4829",
        leaks: &[stuck("G1", "sync.RWMutex.RLock", 1)],
        run: |rig| {
            rig.go("G1", || {
                let (service, mapping) = (RwLock::new(()), RwLock::new(()));
                let _service = service.write();
                let _mapping = mapping.write();
                drop(mapping.read());
            });
        },
    },
    // A handler closes the connection, and waits for the loop that called it.
    Program {
        name: "Syncthing5795",
        leaks: &[leak("G1", "chan receive", 1), leak("G2", "chan receive", 1)],
        run: |rig| {
            let (inbox, stopped, closed) = (rig.chan::<()>(0), rig.chan::<()>(0), rig.chan::<()>(0));
            let connection = rig.share((inbox, stopped, closed));
            let starts = connection.clone();
            rig.go("G2", move || {
                let (inbox, stopped, closed) = &*connection;
                select! {
                    recv(inbox.receiver()) -> _ => {
                        closed.close();
                        stopped.recv();
                    }
                    recv(closed.receiver()) -> _ => {}
                }
                stopped.close();
            });
            rig.go("G1", move || {
                starts.0.send(());
                starts.1.recv();
            });
        },
    },
];
