//! With `gort::transparent::enable`, crates that know nothing of gort wait as goroutines do: unmodified, over
//! std's sockets and locks, and in C libraries. Several hundred goroutines wait at once in each of them, and
//! the process has few OS threads meanwhile.
//!
//! Each test runs in a process of its own, so that the threads it counts are its own. The servers that it
//! needs are children of the process that starts it: they end also if the test hangs or crashes.

#[path = "../../../tests/common/mod.rs"]
mod common;
mod servers;

mod curl;
mod http;
mod libpq;
mod postgres;
mod rayon;
mod redis;
mod sqlite;
mod tls;
mod websocket;

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How many goroutines wait at once in each test.
const MANY: usize = 200;

/// How many threads the process may have beside two for each P, one of which is idle: two of the test
/// harness, one of the watchdog, three of the runtime, and two more.
const MORE: usize = 8;

/// Enables the hooks for this process, and makes room for the descriptors of `MANY` clients and servers.
fn enable() -> common::Watchdog {
    common::set_soft_limit(libc::RLIMIT_NOFILE, 4096);
    gort::transparent::enable().unwrap();
    common::Watchdog::start()
}

/// Waits until the process has no more than a few threads and those that the crate starts itself. That is so
/// at once, or some seconds later: the runtime starts more when threads sleep for a moment in the kernel, for
/// memory say, and ends those that it has not needed for five seconds. One that holds a goroutine stays.
#[track_caller]
fn until_few_threads(what: &str, of_the_crate: usize) {
    let most = 2 * gort::runtime::max_procs() + MORE + of_the_crate;
    let (start, before) = (Instant::now(), common::threads().len());
    let mut threads = before;
    while threads > most {
        assert!(start.elapsed() < common::patience(), "{what}: {threads} threads, more than {most}");
        gort::sleep(Duration::from_millis(20));
        threads = common::threads().len();
    }
    let time = start.elapsed().as_secs_f32();
    println!("{what}: {MANY} goroutines wait, {before} threads, after {time:.1} s {threads}");
}

/// The results of the goroutines, in their order.
#[track_caller]
fn results<T>(handles: Vec<gort::JoinHandle<T>>) -> Vec<T> {
    handles.into_iter().map(|handle| handle.join().unwrap()).collect()
}

const SERVER: &str = "GORT_TEST_SERVER";
const CLIENT: &str = "client";

/// Runs the test again in a process of its own, where [`server`] is what this one passes.
#[track_caller]
fn client_of(server: &str, test: &str) {
    let mut client = common::child(test, CLIENT);
    client.env(SERVER, server);
    print!("{}", common::run_ok(client).stdout);
}

/// The server, in a process that [`client_of`] has started.
fn server() -> Option<String> {
    common::is_child(CLIENT).then(|| std::env::var(SERVER).expect("it is there for a client"))
}

/// A gate made of std's parts: goroutines that know nothing of gort wait at it.
struct Gate {
    state: Mutex<(usize, bool)>,
    opened: Condvar,
}

impl Gate {
    const fn new() -> Gate {
        Gate { state: Mutex::new((0, false)), opened: Condvar::new() }
    }

    /// Waits until the gate is open.
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        while !state.1 {
            state = self.opened.wait(state).unwrap();
        }
    }

    /// How many have come to the gate.
    fn arrived(&self) -> usize {
        self.state.lock().unwrap().0
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.opened.notify_all();
    }
}
