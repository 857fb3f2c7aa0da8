//! Moby (Docker).

use gort::chan::select;
use gort::sync::{Condvar, Mutex};

use crate::common::until;
use crate::rig::{Flag, Program, leak, locks_twice, mutex, stuck};

pub(crate) const PROGRAMS: &[Program] = &[
    // Two delete the same device. Each unlocks the set for a while and keeps the device.
    Program {
        name: "Moby4951",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1), stuck("G2", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let (devices, device) = (mutex(), mutex());
            let both = (devices.clone(), device.clone());
            rig.go("G1", move || {
                let set = both.0.lock();
                let _device = both.1.lock();
                drop(set);
                until("the other one has the set", || both.0.is_locked());
                drop(both.0.lock());
            });
            rig.go("G2", move || {
                until("the other one has the device", || device.is_locked());
                let _set = devices.lock();
                drop(device.lock());
            });
        },
    },
    Program {
        name: "Moby7559",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1)],
        run: |rig| {
            rig.go("G1", || {
                let connections = Mutex::new(());
                for _failed in 0..2 {
                    std::mem::forget(connections.lock());
                }
            });
        },
    },
    // A function returns without unlocking.
    Program {
        name: "Moby17176",
        leaks: &[stuck("G2", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let (devices, done) = (mutex(), rig.chan::<()>(0));
            let cleans = devices.clone();
            rig.go("G1", move || std::mem::forget(cleans.lock()));
            rig.go("G2", move || {
                until("it is being cleaned", || devices.is_locked());
                let _devices = devices.lock();
                done.send(());
            });
        },
    },
    // The reader of the progress ends after the first message. Two watchers have more to tell, and the test
    // waits for the first of them.
    Program {
        name: "Moby21233",
        leaks: &[leak("G1", "chan receive", 1), leak("G2", "chan send", 2), leak("G2", "select", 1)],
        run: |rig| {
            let (progress, gone) = (rig.chan::<()>(0), Flag::default());
            let (reads, returns) = (progress.clone(), gone.clone());
            rig.go("G3", move || {
                reads.recv();
                returns.raise();
            });
            let own = rig.clone();
            rig.go("G1", move || {
                let watchers: Vec<_> =
                    (0..3).map(|_| [own.chan::<()>(0), own.chan(0), own.chan(0)]).collect();
                for (n, watcher) in watchers.iter().enumerate() {
                    let ([signal, release, running], progress) = (watcher.clone(), progress.clone());
                    let gone = gone.clone();
                    own.go("G2", move || {
                        if n == 0 {
                            progress.send(());
                        }
                        gone.wait();
                        if n == 1 {
                            progress.send(());
                        }
                        select! {
                            recv(signal.receiver()) -> _ => {}
                            recv(release.receiver()) -> _ => progress.send(()),
                        }
                        running.close();
                    });
                }
                for [_, release, running] in &watchers {
                    release.close();
                    running.recv();
                }
            });
        },
    },
    // It waits for all plugins after it has started the first one.
    Program {
        name: "Moby25348",
        leaks: &[leak("G1", "sync.WaitGroup.Wait", 1)],
        run: |rig| {
            let (own, plugins) = (rig.clone(), rig.group());
            rig.go("G1", move || {
                plugins.add(2);
                for _ in 0..2 {
                    let plugin = plugins.clone();
                    own.go("plugin", move || plugin.done());
                    plugins.wait();
                }
            });
        },
    },
    // A reader of the log waits to hear that its file is gone. The watcher waits for a reader of its events.
    Program {
        name: "Moby27782",
        leaks: &[leak("G2", "sync.Cond.Wait", 1), leak("G3", "select", 1)],
        run: |rig| {
            let (events, done, closed) = (rig.chan::<u32>(0), rig.chan::<()>(0), rig.chan::<()>(0));
            let removed = rig.share((Mutex::new(()), Condvar::new()));
            let watcher = rig.share((events, done));
            let writes = watcher.clone();
            rig.go("G3", move || {
                loop {
                    select! {
                        send(writes.0.sender(), 1) -> _ => {}
                        recv(writes.1.receiver()) -> _ => return,
                    }
                }
            });
            let closes = closed.clone();
            rig.go("G2", move || {
                closed.recv();
                removed.1.wait(&mut removed.0.lock());
                watcher.1.close();
            });
            rig.go("G1", move || closes.close());
        },
    },
    // It stops the monitor with the lock that the monitor needs for its next probe.
    Program {
        name: "Moby28462",
        leaks: &[leak("G1", "sync.Mutex.Lock", 1), leak("G2", "chan send", 1)],
        run: |rig| {
            let (container, stop) = (mutex(), rig.chan::<()>(0));
            let (probes, stopped) = (container.clone(), stop.clone());
            let not_stopped = Flag::default();
            let looked = not_stopped.clone();
            rig.go("G1", move || {
                while stopped.receiver().try_recv().is_err_and(|error| error.is_empty()) {
                    not_stopped.raise();
                    until("the state changes", || probes.is_locked());
                    drop(probes.lock());
                }
            });
            rig.go("G2", move || {
                looked.wait();
                let _container = container.lock();
                stop.send(());
            });
        },
    },
    // Nobody says that the plugin is active.
    Program {
        name: "Moby30408",
        leaks: &[leak("G1", "chan receive", 1), leak("G2", "sync.Cond.Wait", 1)],
        run: |rig| {
            let (plugin, done) = (rig.share((Mutex::new(false), Condvar::new())), rig.chan::<()>(0));
            let activated = done.clone();
            rig.go("G2", move || {
                plugin.1.wait_while(&mut plugin.0.lock(), |active| !*active);
                activated.close();
            });
            rig.go("G1", move || {
                let _closed = done.recv();
            });
        },
    },
    // The monitor is stopped while a probe wants to give its result.
    Program {
        name: "Moby33781",
        leaks: &[leak("G3", "chan send", 1)],
        run: |rig| {
            let (stop, stopped) = (rig.chan::<()>(0), Flag::default());
            let (own, stops) = (rig.clone(), stop.clone());
            rig.go("G1", move || {
                let results = own.chan::<bool>(0);
                let (result, gone) = (results.clone(), stopped.clone());
                own.go("G3", move || {
                    gone.wait();
                    result.send(true);
                    result.close();
                });
                select! {
                    recv(stop.receiver()) -> _ => stopped.raise(),
                    recv(results.receiver()) -> _ => {}
                }
            });
            rig.go("G2", move || stops.send(()));
        },
    },
    Program {
        name: "Moby36114",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1)],
        run: |rig| locks_twice(rig, "G1"),
    },
];
