//! gRPC.

use gort::chan::{select, select_biased};

use crate::common::until;
use crate::rig::{Flag, Program, leak, mutex, stuck};

pub(crate) const PROGRAMS: &[Program] = &[
    // The loop is stopped, and its last call wants to say that it is done.
    Program {
        name: "Grpc660",
        leaks: &[leak("G2", "chan send", 1)],
        run: |rig| {
            let (stop, stopped) = (rig.chan::<()>(0), Flag::default());
            let (own, stops) = (rig.clone(), stop.clone());
            rig.go("G1", move || {
                let done = own.chan(0);
                let (call, gone) = (done.clone(), stopped.clone());
                own.go("G2", move || {
                    gone.wait();
                    call.send(true);
                });
                select! {
                    recv(stop.receiver()) -> _ => stopped.raise(),
                    recv(done.receiver()) -> _ => {}
                }
            });
            rig.go("helper", move || stops.send(()));
        },
    },
    // The second stop locks twice, and the server waits behind it.
    Program {
        name: "Grpc795",
        leaks: &[stuck("G1", "sync.Mutex.Lock", 1), stuck("G2", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let server = mutex();
            let stopped = Flag::default();
            let (serves, stops) = (server.clone(), stopped.clone());
            rig.go("G1", move || {
                drop(server.lock());
                let _drains = server.lock();
                stops.raise();
                drop(server.lock());
            });
            rig.go("G2", move || {
                stopped.wait();
                drop(serves.lock());
            });
        },
    },
    // A connection waits for the end of a context, and nobody has got the connection to close it.
    Program {
        name: "Grpc862",
        leaks: &[leak("G2", "chan receive", 1)],
        run: |rig| {
            let connection = rig.context();
            let own = rig.clone();
            rig.go("G1", move || {
                own.go("G2", move || {
                    let (address, close) = connection.0.with_cancel();
                    let _ = address.done().recv();
                    close.cancel();
                    connection.1.cancel();
                });
            });
        },
    },
    // A stream is closed without a word to its reader.
    Program {
        name: "Grpc1275",
        leaks: &[leak("G2", "chan receive", 1)],
        run: |rig| {
            let stream = rig.share(rig.chan::<bool>(0));
            let done = rig.chan::<()>(0);
            let (reads, ends) = (stream.clone(), done.clone());
            rig.go("G2", move || {
                reads.recv();
                ends.close();
            });
            rig.go("G1", move || {
                let _stream = stream;
                let _ = done.receiver().recv_timeout(std::time::Duration::from_nanos(300));
            });
        },
    },
    // The watcher ends without closing the channel that its starter waits for.
    Program {
        name: "Grpc1424",
        leaks: &[leak("G2", "chan receive", 1)],
        run: |rig| {
            let addresses = rig.chan::<bool>(0);
            let (own, notified) = (rig.clone(), addresses.clone());
            rig.go("G2", move || {
                let done = own.chan::<()>(0);
                let watcher = done.clone();
                own.go("G3", move || {
                    let _done = watcher;
                    while notified.recv().is_some() {}
                });
                done.recv();
            });
            rig.go("G1", move || addresses.close());
        },
    },
    // It waits to be awakened with the lock that the other one needs to do that.
    Program {
        name: "Grpc1460",
        leaks: &[leak("G1", "chan receive", 1), leak("G2", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let (client, awaken) = (mutex(), rig.chan::<()>(0));
            let (locks, awakens) = (client.clone(), awaken.clone());
            rig.go("G1", move || {
                let _client = client.lock();
                awaken.recv();
            });
            rig.go("G2", move || {
                until("it is locked", || locks.is_locked());
                let _client = locks.lock();
                select_biased! {
                    send(awakens.sender(), ()) -> _ => {}
                    default => {}
                }
            });
        },
    },
    // A timer's function returns with the lock, because its entry was taken back.
    Program {
        name: "Grpc3017",
        leaks: &[leak("G1", "chan receive", 1), stuck("G2", "sync.Mutex.Lock", 1)],
        run: |rig| {
            let (cache, done) = (mutex(), rig.chan::<()>(0));
            let (locks, ends) = (cache.clone(), done.clone());
            rig.go("G3", move || std::mem::forget(locks.lock()));
            rig.go("G2", move || {
                until("it is locked", || cache.is_locked());
                drop(cache.lock());
                ends.close();
            });
            rig.go("G1", move || {
                let _closed = done.recv();
            });
        },
    },
];
