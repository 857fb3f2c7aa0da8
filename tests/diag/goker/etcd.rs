//! etcd.

use gort::chan::select;
use gort::sync::RwLock;

use crate::common::until;
use crate::rig::{Chan, Flag, Program, leak, mutex, stuck};

pub(crate) const PROGRAMS: &[Program] = &[
    // A goroutine ends without unlocking what it has locked to read. A lock does not know its readers, but
    // nobody is left who could unlock it.
    Program {
        name: "Etcd5509",
        leaks: &[leak("G1", "sync.RWMutex.Lock", 1)],
        run: |rig| {
            let client = rig.share(RwLock::new(()));
            let closed = client.clone();
            rig.go("G2", move || std::mem::forget(closed.read()));
            rig.go("G1", move || {
                until("it has been read", || client.is_locked());
                drop(client.write());
            });
        },
    },
    // It wants to read what it has locked to write.
    Program {
        name: "Etcd6708",
        leaks: &[stuck("G1", "sync.RWMutex.RLock", 1)],
        run: |rig| {
            rig.go("G1", || {
                let client = RwLock::new(());
                let _sync = client.write();
                drop(client.read());
            });
        },
    },
    // The node stops, and somebody asks for its status afterwards.
    Program {
        name: "Etcd6857",
        leaks: &[leak("G2", "chan send", 1)],
        run: |rig| {
            let (status, stop, done) = (rig.chan::<Chan<()>>(0), rig.chan::<()>(0), rig.chan::<()>(0));
            {
                let (status, stop, done) = (status.clone(), stop.clone(), done.clone());
                rig.go("G1", move || {
                    loop {
                        select! {
                            recv(status.receiver()) -> asked => {
                                let Ok(asked) = asked else { return };
                                asked.send(());
                            }
                            recv(stop.receiver()) -> _ => {
                                done.close();
                                return;
                            }
                        }
                    }
                });
            }
            let (own, end) = (rig.clone(), done.clone());
            rig.go("G2", move || {
                end.recv();
                let answer = own.chan(0);
                status.send(answer.clone());
                answer.recv();
            });
            rig.go("G3", move || {
                stop.send(());
                done.recv();
            });
        },
    },
    // The stopper waits with the lock that the broadcaster needs for its last message.
    Program {
        name: "Etcd6873",
        leaks: &[leak("G2", "sync.Mutex.Lock", 1), leak("G3", "chan receive", 1)],
        run: |rig| {
            let (lock, updates, done) = (mutex(), rig.chan(1), rig.chan::<()>(0));
            updates.send(());
            {
                let (lock, updates, done) = (lock.clone(), updates.clone(), done.clone());
                rig.go("G2", move || {
                    while updates.recv().is_some() {
                        until("it is being stopped", || lock.is_locked());
                        drop(lock.lock());
                    }
                    done.close();
                });
            }
            rig.go("G3", move || {
                let _lock = lock.lock();
                updates.close();
                done.recv();
            });
        },
    },
    // Three add tokens under a lock. The keeper wants that lock to delete one, and takes no more meanwhile.
    Program {
        name: "Etcd7492",
        leaks: &[
            leak("G1", "sync.Mutex.Lock", 1),
            leak("G2", "chan send", 1),
            leak("main", "sync.WaitGroup.Wait", 1),
        ],
        run: |rig| {
            let (tokens, add, added) = (mutex(), rig.chan(1), Flag::default());
            {
                let (tokens, add, added) = (tokens.clone(), add.clone(), added.clone());
                rig.go("G1", move || {
                    while add.recv().is_some() {
                        added.wait_for(2);
                        until("the third one adds", || tokens.is_locked());
                        drop(tokens.lock());
                    }
                });
            }
            let all = rig.group();
            all.add(3);
            for _ in 0..3 {
                let (tokens, add, added, all) = (tokens.clone(), add.clone(), added.clone(), all.clone());
                rig.go("G2", move || {
                    let guard = tokens.lock();
                    add.send(());
                    drop(guard);
                    added.raise();
                    all.done();
                });
            }
            rig.go("main", move || all.wait());
        },
    },
    // A follower waits for the leader with the lock that the leader needs.
    Program {
        name: "Etcd7902",
        leaks: &[
            leak("G1", "sync.WaitGroup.Wait", 1),
            leak("G2", "chan receive", 1),
            leak("G2", "sync.Mutex.Lock", 2),
        ],
        run: |rig| {
            let (lock, next, all) = (mutex(), rig.chan::<()>(0), rig.group());
            let released = Flag::default();
            all.add(3);
            for n in 0..3 {
                let (lock, next, all, released) = (lock.clone(), next.clone(), all.clone(), released.clone());
                rig.go("G2", move || {
                    if n != 1 {
                        released.wait();
                    }
                    let guard = lock.lock();
                    released.raise();
                    if n == 0 {
                        next.close();
                    }
                    next.recv();
                    drop(guard);
                    all.done();
                });
            }
            rig.go("G1", move || all.wait());
        },
    },
    // It wants to write what it has locked to write.
    Program {
        name: "Etcd10492",
        leaks: &[stuck("G1", "sync.RWMutex.Lock", 1)],
        run: |rig| {
            rig.go("G1", || {
                let lessor = RwLock::new(());
                let _renew = lessor.write();
                drop(lessor.write());
            });
        },
    },
];
