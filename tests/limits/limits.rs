//! When the kernel refuses memory, mappings or threads, spawning fails with an error that names the limit,
//! and everything else goes on.

#[path = "../common/mod.rs"]
mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{set_soft_limit, until};

/// As many waiting goroutines as the kernel allows, and one that yields all the time.
struct Many {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
    handles: Vec<gort::JoinHandle<()>>,
    gate: Option<gort::chan::Sender<()>>,
}

impl Many {
    /// Spawns until the kernel refuses. `handles` has room for all, so that only spawning needs memory.
    fn spawn_until_refused(room: usize) -> (Many, io::Error) {
        let (open, gate) = gort::chan::bounded(0);
        let mut many = Many {
            stop: Arc::new(AtomicBool::new(false)),
            turns: Arc::new(AtomicUsize::new(0)),
            handles: Vec::with_capacity(room),
            gate: Some(open),
        };
        // The goroutine that runs all the time.
        let (stop, turns) = (many.stop.clone(), many.turns.clone());
        many.handles.push(gort::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
                gort::yield_now();
            }
        }));
        loop {
            assert!(many.handles.len() < room, "the kernel refuses nothing");
            let gate: gort::chan::Receiver<()> = gate.clone();
            match gort::Builder::new().spawn(move || assert!(gate.recv().is_err())) {
                Ok(handle) => many.handles.push(handle),
                Err(error) => return (many, error),
            }
        }
    }

    /// Checks that the goroutines still run.
    fn go_on(&self) {
        let before = self.turns.load(Ordering::Relaxed);
        until("the one that runs has run", || self.turns.load(Ordering::Relaxed) > before + 100);
    }

    /// Ends all goroutines.
    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.gate.take());
        for handle in self.handles {
            handle.join().unwrap();
        }
    }
}

fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn exhausted_address_space_is_an_error_that_says_so() {
    if !common::alone("exhausted_address_space_is_an_error_that_says_so") {
        return;
    }
    gort::run(|| gort::spawn(|| ()).join().unwrap());
    set_soft_limit(libc::RLIMIT_AS, address_space() + (200 << 20));
    for _ in 0..3 {
        let (many, error) = Many::spawn_until_refused(10_000);
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
        let text = error.to_string();
        for limit in ["ulimit -v", "vm.overcommit_memory", "cgroup"] {
            assert!(text.contains(limit), "no {limit} in {text:?}");
        }
        assert!(many.handles.len() > 100, "{}", many.handles.len());
        many.go_on();
        // A size of stack that no slot has is refused, too.
        let inside = gort::Builder::new().stack_size(512 << 20).spawn(|| ()).unwrap_err();
        assert_eq!(inside.kind(), io::ErrorKind::OutOfMemory);
        many.go_on();
        many.end();
        // Their stacks are free again: at once, or when the P that keeps some of them is idle.
        let handles: Vec<_> = (0..100)
            .map(|n| {
                let mut handle = None;
                until("a stack is free", || {
                    handle = gort::Builder::new().spawn(move || n).ok();
                    handle.is_some()
                });
                handle.unwrap()
            })
            .collect();
        assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>(), 4950);
    }
}

#[test]
fn timers_functions_wait_for_memory() {
    if !common::alone("timers_functions_wait_for_memory") {
        return;
    }
    let ran = Arc::new(AtomicUsize::new(0));
    let function = || {
        let ran = ran.clone();
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    };
    let timers: Vec<_> =
        (0..50).map(|_| gort::time::after_func(Duration::from_secs(3600), function())).collect();
    set_soft_limit(libc::RLIMIT_AS, address_space() + (200 << 20));
    let (many, _) = Many::spawn_until_refused(10_000);
    for timer in &timers {
        assert!(timer.reset(Duration::ZERO));
    }
    // A later timer has fired, so these have too. But there is no goroutine to run their functions.
    gort::chan::after(Duration::from_millis(1)).recv().unwrap();
    many.go_on();
    // A thread that has ended may have given back enough address space for one goroutine. Then there is still
    // room for one.
    let no_room = gort::Builder::new().spawn(|| ()).is_err();
    assert!(!no_room || ran.load(Ordering::Relaxed) == 0);
    many.end();
    until("all have run", || ran.load(Ordering::Relaxed) == timers.len());
}

#[test]
fn spawn_panics_with_the_same_message() {
    if !common::alone("spawn_panics_with_the_same_message") {
        return;
    }
    // Starts the runtime. No goroutine has ended, so no P keeps a stack.
    gort::runtime::max_procs();
    set_soft_limit(libc::RLIMIT_AS, address_space() + (200 << 20));
    let (many, _) = Many::spawn_until_refused(10_000);
    let payload = std::panic::catch_unwind(|| gort::spawn(|| ())).unwrap_err();
    let text = payload.downcast::<String>().unwrap();
    assert!(text.contains("failed to spawn a goroutine") && text.contains("ulimit -v"), "{text}");
    let in_scope = std::panic::catch_unwind(|| {
        gort::scope(|s| {
            s.spawn(|| ());
        })
    });
    assert!(in_scope.is_err());
    many.go_on();
    many.end();
}

#[test]
fn exhausted_mappings_are_an_error_that_names_the_sysctl() {
    if !common::alone_with(
        "exhausted_mappings_are_an_error_that_names_the_sysctl",
        &[("GORT_GUARD", "mprotect")],
    ) {
        return;
    }
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 200_000 {
        println!("vm.max_map_count is {limit} here: too many to try");
        return;
    }
    let (many, error) = Many::spawn_until_refused(limit);
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    // A goroutine has two mappings, and gort leaves some for the rest of the process.
    assert!(many.handles.len() > limit / 2 - limit / 16, "{}", many.handles.len());
    std::thread::spawn(|| std::hint::black_box(vec![1u8; 10 << 20])).join().unwrap();
    many.go_on();
    many.end();
    let handles: Vec<_> = (0..100).map(|n| gort::Builder::new().spawn(move || n).unwrap()).collect();
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>(), 4950);
}

#[test]
fn refused_threads_slow_down_but_stop_nothing() {
    if !common::alone_with("refused_threads_slow_down_but_stop_nothing", &[("GOMAXPROCS", "4")]) {
        return;
    }
    gort::run(|| gort::spawn(|| ()).join().unwrap());
    // The limit does not apply to root.
    // SAFETY: changes only this process.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setresuid(65_534, 65_534, 65_534), 0);
        }
    }
    set_soft_limit(libc::RLIMIT_NPROC, 0);
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads can still be started");
    let handles: Vec<_> = (0..40)
        .map(|n| {
            gort::spawn(move || {
                // Blocks its thread. The others would need another thread, which they do not get.
                std::thread::sleep(Duration::from_millis(2));
                gort::yield_now();
                n
            })
        })
        .collect();
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<usize>(), 780);
    // Without another thread no signal can stop a hog, but it stops when it calls the runtime.
    gort::runtime::set_max_procs(1);
    let handles: Vec<_> = (0..4)
        .map(|_| {
            gort::spawn(|| {
                for _ in 0..1_000 {
                    std::hint::black_box((0..1_000).sum::<usize>());
                    gort::checkpoint();
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    set_soft_limit(libc::RLIMIT_NPROC, 10_000);
    gort::runtime::set_max_procs(8);
    let here = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..8)
        .map(|_| {
            let here = here.clone();
            gort::spawn(move || {
                here.fetch_add(1, Ordering::Relaxed);
                common::spin_until("all run at once", || here.load(Ordering::Relaxed) == 8);
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
}
