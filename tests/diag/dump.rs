//! `runtime::dump` shows every goroutine in every state, while they run on.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Procs, amount, named, spin_until, until};
use gort::runtime::{Dump, GoroutineTrace, dump};

fn find<'a>(dump: &'a Dump, name: &str) -> Option<&'a GoroutineTrace> {
    dump.goroutines().iter().find(|g| g.name() == Some(name))
}

/// Dumps until the goroutine of that name is in that state and has a stack.
#[track_caller]
fn until_seen(name: &str, state: &str) -> GoroutineTrace {
    let mut found = None;
    until(&format!("{name} is seen in state {state}"), || {
        found = find(&dump(), name).filter(|g| g.state() == state && !g.addresses().is_empty()).cloned();
        found.is_some()
    });
    found.unwrap()
}

#[inline(never)]
fn receive_in_depth(receiver: &gort::chan::Receiver<()>, depth: usize) -> usize {
    if depth == 0 {
        let _ = receiver.recv();
        return std::hint::black_box(0);
    }
    receive_in_depth(receiver, depth - 1) + std::hint::black_box(1)
}

/// Neither how a goroutine stopped nor how it was started is shown.
#[track_caller]
fn assert_own_frames_are_hidden(text: &str) {
    for hidden in ["gort::sched", "gort::arch", "gort::diag", "ResultPlace", "catch_unwind", "do_call"] {
        assert!(!text.contains(hidden), "{hidden} is shown:\n{text}");
    }
}

#[test]
fn the_frames_of_the_runtime_are_shown_on_request() {
    const NAME: &str = "the_frames_of_the_runtime_are_shown_on_request";
    let assert_shown = |text: &str| {
        for shown in ["gort::sched", "ResultPlace"] {
            assert!(text.contains(shown), "{shown} is hidden:\n{text}");
        }
    };
    if !common::is_child("all frames") {
        let mut child = common::child(NAME, "all frames");
        child.env("GORT_DEBUG", "runtimeframes=1");
        common::run_ok(child);
    }
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let reader = named("reader", move || receive_in_depth(&receiver, 5));
    let seen = until_seen("reader", "chan receive");
    assert_shown(&format!("{seen:#}"));
    assert_shown(&format!("{:#}", dump()));
    if common::is_child("all frames") {
        assert_shown(&seen.to_string());
    } else {
        assert_own_frames_are_hidden(&seen.to_string());
    }
    drop(sender);
    reader.join().unwrap();
}

#[test]
fn a_waiting_goroutine_has_reason_name_site_and_stack() {
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let line = line!() + 1;
    let reader = named("reader in depth", move || receive_in_depth(&receiver, 5));
    let seen = until_seen("reader in depth", "chan receive");
    assert_eq!(seen.id(), reader.id());
    assert!(seen.waiting_for().is_some() && !seen.is_locked_to_thread());
    assert_eq!(seen.spawned_at().unwrap().line(), line);
    assert_eq!(seen.parent(), None);
    let text = seen.to_string();
    let head = format!("goroutine {} [chan receive] {{name: reader in depth}}:\n", reader.id());
    assert!(text.starts_with(&head), "{text}");
    assert_eq!(text.matches("dump::receive_in_depth\n").count(), 6, "{text}");
    assert!(text.contains("tests/diag/dump.rs:"), "{text}");
    assert!(text.contains("created by a thread outside of gort at tests/diag/dump.rs:"), "{text}");
    assert_own_frames_are_hidden(&text);
    drop(sender);
    assert_eq!(reader.join().unwrap(), 5);
}

#[test]
fn members_of_a_group_say_where_the_program_started_them() {
    let gate = Arc::new(gort::sync::RwLock::new(()));
    let closed = gate.write();
    let (all, group) = (gort::sync::WaitGroup::new(), gort::sync::Group::<()>::new());
    let pass = || {
        let gate = Arc::clone(&gate);
        move || drop(gate.read())
    };
    let pass_well = || {
        let pass = pass();
        move || {
            pass();
            Ok(())
        }
    };
    let first = line!() + 1;
    all.go(pass());
    group.go(pass_well());
    assert!(group.try_go(pass_well()).is_ok());
    let lines = || {
        let dump = dump();
        let sites = dump.goroutines().iter().filter_map(GoroutineTrace::spawned_at);
        let mut lines: Vec<_> = sites.filter(|site| site.file() == file!()).map(|site| site.line()).collect();
        lines.retain(|line| (first..first + 3).contains(line));
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(), [first, first + 1, first + 2]);
    drop(closed);
    all.wait();
    group.wait().unwrap();
}

#[test]
fn the_caller_comes_first_and_is_running() {
    let seen = gort::run(dump);
    let first = &seen.goroutines()[0];
    assert_eq!((first.state(), first.addresses().is_empty()), ("running", false));
    let seen = named("inner dumper", || (gort::current().id(), dump())).join().unwrap();
    assert_eq!(seen.1.goroutines()[0].id(), seen.0);
    let text = seen.1.goroutines()[0].to_string();
    assert!(text.contains("the_caller_comes_first_and_is_running"), "{text}");
    assert_own_frames_are_hidden(&text);
}

#[test]
fn the_holder_of_a_lock_is_named() {
    let mutex = Arc::new(gort::sync::Mutex::new(()));
    let lock = Arc::new(gort::sync::RwLock::new(()));
    let release = Arc::new(AtomicBool::new(false));
    let (held, held_lock, released) = (mutex.clone(), lock.clone(), release.clone());
    let holder = named("holder", move || {
        let _one = held.lock();
        let _two = held_lock.write();
        until("released", || released.load(Ordering::Relaxed));
    });
    until("held", || mutex.is_locked() && lock.is_locked());
    let wants = mutex.clone();
    let first = named("wants mutex", move || drop(wants.lock()));
    let second = named("wants lock", move || drop(lock.read()));
    for (name, reason) in [("wants mutex", "sync.Mutex.Lock"), ("wants lock", "sync.RWMutex.RLock")] {
        let seen = until_seen(name, reason);
        assert_eq!(seen.waits_for_goroutine(), Some(holder.id()), "{seen}");
        assert!(seen.to_string().contains(&format!("goroutine {} holds", holder.id())), "{seen}");
    }
    release.store(true, Ordering::Relaxed);
    for one in [holder, first, second] {
        one.join().unwrap();
    }
}

#[test]
fn readers_of_a_lock_are_named() {
    static LOCK: gort::sync::RwLock<()> = gort::sync::RwLock::new(());
    let (release, released) = gort::chan::bounded::<()>(0);
    let first = named("reads", {
        let released = released.clone();
        move || {
            let _guard = gort::sync::RwLockWriteGuard::downgrade(LOCK.write());
            released.recv().unwrap_err();
        }
    });
    until_seen("reads", "chan receive");
    let second = named("reads too", move || {
        let _guard = LOCK.read();
        released.recv().unwrap_err();
    });
    until_seen("reads too", "chan receive");
    let writer = named("wants to write", || drop(LOCK.write()));
    let seen = until_seen("wants to write", "sync.RWMutex.Lock");
    let both = [first.id(), second.id()];
    let said = |a: u64, b: u64| format!("waits for a lock that 2 readers hold: goroutines {a}, {b}\n");
    let text = seen.to_string();
    assert!(text.contains(&said(both[0], both[1])) || text.contains(&said(both[1], both[0])), "{text}");
    drop(release);
    for one in [first, second, writer] {
        one.join().unwrap();
    }
}

#[inline(never)]
fn spins_here(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
fn running_and_preempted_goroutines_say_where_they_are() {
    let _procs = Procs::set(1);
    let stop = Arc::new(AtomicBool::new(false));
    let hogs: Vec<_> = (0..3)
        .map(|i| {
            let stop = stop.clone();
            named(&format!("hog {i}"), move || spins_here(&stop))
        })
        .collect();
    let mut states = std::collections::HashSet::new();
    until("a hog was seen running and one preempted", || {
        let dump = dump();
        for i in 0..3 {
            let hog = find(&dump, &format!("hog {i}")).expect("a hog lives");
            if !hog.addresses().is_empty() && hog.to_string().contains("dump::spins_here") {
                states.insert(hog.state());
            }
        }
        states.contains("running") && states.contains("preempted")
    });
    stop.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}

#[inline(never)]
fn yields_here(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        gort::yield_now();
    }
}

#[test]
fn runnable_goroutines_have_stacks() {
    let _procs = Procs::set(1);
    let stop = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = (0..5)
        .map(|i| {
            let stop = stop.clone();
            named(&format!("yielder {i}"), move || yields_here(&stop))
        })
        .collect();
    let seen = gort::run(|| until_seen("yielder 3", "runnable"));
    assert!(seen.to_string().contains("dump::yields_here"), "{seen}");
    stop.store(true, Ordering::Relaxed);
    all.into_iter().for_each(|one| one.join().unwrap());
}

#[inline(never)]
fn blocks_here(stop: &AtomicBool) {
    gort::blocking(|| spin_until("released", || stop.load(Ordering::Relaxed)));
    // Not a tail call: this function stays on the stack.
    std::hint::black_box(stop);
}

#[test]
fn a_marked_blocking_call_shows_its_caller() {
    let stop = Arc::new(AtomicBool::new(false));
    let released = stop.clone();
    let blocked = named("blocked", move || blocks_here(&released));
    let seen = until_seen("blocked", "syscall");
    assert!(seen.to_string().contains("dump::blocks_here"), "{seen}");
    stop.store(true, Ordering::Relaxed);
    blocked.join().unwrap();
}

#[test]
fn a_bound_goroutine_is_marked() {
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let bound = named("bound", move || {
        let _bound = gort::runtime::os_thread_guard();
        receiver.recv().unwrap_err()
    });
    let seen = until_seen("bound", "chan receive");
    assert!(seen.is_locked_to_thread());
    assert!(seen.to_string().contains("[chan receive, locked to thread]"), "{seen}");
    drop(sender);
    bound.join().unwrap();
}

#[test]
fn an_unmarked_system_call_is_not_broken() {
    let start = Instant::now();
    let sleeper = named("sleeper", move || {
        // Computes at first, so that the dump asks for its stack while it enters the call.
        while start.elapsed() < Duration::from_millis(5) {}
        // A poll without descriptors fails with EINTR when a handler runs.
        // SAFETY: no descriptors are passed.
        let result = unsafe { libc::poll(std::ptr::null_mut(), 0, 300) };
        (result, std::io::Error::last_os_error())
    });
    let mut seen = 0;
    while start.elapsed() < Duration::from_millis(250) {
        seen += usize::from(find(&dump(), "sleeper").is_some());
    }
    let (result, error) = sleeper.join().unwrap();
    assert_eq!(result, 0, "{error}");
    assert!(seen > 0);
}

/// Goroutines come, go, wait, compute and block while others dump all the time: none hangs, and all work is
/// done.
#[test]
fn dumps_do_not_disturb() {
    // Alone, because the goroutines of other tests have other names.
    if !common::alone("dumps_do_not_disturb") {
        return;
    }
    let _procs = Procs::set(4);
    let rounds = amount(300, 5000);
    let done = Arc::new(AtomicUsize::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..8)
        .map(|i| {
            let done = done.clone();
            gort::spawn(move || {
                let (sender, receiver) = gort::chan::bounded::<usize>(i % 3);
                for round in 0..rounds {
                    let sender = sender.clone();
                    let child = named("short-lived", move || sender.send(round).unwrap());
                    assert_eq!(receiver.recv(), Ok(round));
                    child.join().unwrap();
                    match round % 50 {
                        0 => gort::blocking(|| std::thread::sleep(Duration::from_micros(50))),
                        1 => {
                            let start = Instant::now();
                            while start.elapsed() < Duration::from_millis(2) {}
                        }
                        2 => gort::sleep(Duration::from_micros(100)),
                        _ => gort::yield_now(),
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let stop = over.clone();
    let dumper = gort::spawn(move || {
        let mut dumps = 0;
        while !stop.load(Ordering::Relaxed) {
            assert!(dump().goroutines().iter().any(|g| g.id() == gort::current().id()));
            dumps += 1;
            gort::sleep(Duration::from_micros(100));
        }
        dumps
    });
    let stop = over.clone();
    let outside = std::thread::spawn(move || {
        let mut dumps = 0;
        while !stop.load(Ordering::Relaxed) {
            // A dump shows the name that was given or none, whenever the goroutine ended.
            assert!(dump().goroutines().iter().all(|g| matches!(g.name(), None | Some("short-lived"))));
            dumps += 1;
        }
        dumps
    });
    workers.into_iter().for_each(|one| one.join().unwrap());
    over.store(true, Ordering::Relaxed);
    assert!(dumper.join().unwrap() > 0);
    assert!(outside.join().unwrap() > 0);
    assert_eq!(done.load(Ordering::Relaxed), 8 * rounds);
}

#[test]
fn thousands_are_dumped_quickly_and_completely() {
    let count = amount(2000, 100_000);
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let all: Vec<_> = (0..count)
        .map(|_| {
            let receiver = receiver.clone();
            gort::spawn(move || receiver.recv().unwrap_err())
        })
        .collect();
    until("all wait", || gort::runtime::stats().goroutines.waiting >= count);
    let start = Instant::now();
    let dump = dump();
    println!("{count} goroutines: {:?}", start.elapsed());
    let ids: std::collections::HashSet<_> = dump.goroutines().iter().map(GoroutineTrace::id).collect();
    for one in &all {
        assert!(ids.contains(&one.id()));
    }
    let stacks =
        dump.goroutines().iter().filter(|g| g.state() == "chan receive" && !g.addresses().is_empty());
    assert!(stacks.count() >= count);
    drop(sender);
    for one in all {
        one.join().unwrap();
    }
}
