//! The stall watchdog, and the list of the longest unmarked calls: what is stuck is reported once, with the
//! stack that it had meanwhile; what is not, is not.

#[path = "../common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Hogs, Printed, alone, child, is_child, join_all, named, run_ok, threads, tid, until};
use gort::runtime::{Config, Stall, StallKind, longest_blocking_calls, stats};

/// The stalls that were reported in this process.
static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());

fn watch(config: Config, limit: Duration) {
    let keep = |stall: &Stall| STALLS.lock().unwrap().push(stall.clone());
    config.stall_after(limit).on_stall(keep).start().unwrap();
}

/// The stalls of the goroutine with that name.
fn stalls_of(name: &str) -> Vec<Stall> {
    let stalls = STALLS.lock().unwrap();
    stalls.iter().filter(|stall| stall.goroutine().name() == Some(name)).cloned().collect()
}

/// A pipe. Dropping the writing end lets those go on that read.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are ours.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// Blocks its thread until the other end is closed, without marking the call.
#[inline(never)]
fn read_unmarked(end: &OwnedFd) {
    let mut byte = 0u8;
    // SAFETY: room for one byte.
    assert_eq!(unsafe { libc::read(end.as_raw_fd(), (&raw mut byte).cast(), 1) }, 0);
}

/// Computes until it may end; the runtime is not called.
#[inline(never)]
fn compute_without_end(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// What the child printed about stalls: how often for each goroutine.
fn reports(printed: &Printed) -> BTreeMap<String, usize> {
    let mut reports = BTreeMap::new();
    for line in printed.stderr.lines().filter(|line| line.starts_with("gort: stall: ")) {
        let id = line.split(' ').nth(3).unwrap().to_owned();
        *reports.entry(id).or_default() += 1;
    }
    reports
}

#[test]
fn an_unmarked_call_is_reported_once_with_its_stack() {
    const TEST: &str = "an_unmarked_call_is_reported_once_with_its_stack";
    if !is_child("blocks") {
        let printed = run_ok(child(TEST, "blocks"));
        let reports = reports(&printed);
        assert_eq!(reports.len(), 2, "{}", printed.stderr);
        assert!(reports.values().all(|&times| times == 1), "{}", printed.stderr);
        assert!(printed.stderr.contains("{name: first}"), "{}", printed.stderr);
        assert!(printed.stderr.contains("stall::read_unmarked"), "{}", printed.stderr);
        assert!(printed.stderr.contains("created by"), "{}", printed.stderr);
        return;
    }
    watch(Config::new().max_procs(2), Duration::from_millis(50));
    let (end, close) = pipe();
    let (other_end, other_close) = pipe();
    let first = named("first", move || read_unmarked(&end));
    until("it is reported", || stalls_of("first").len() == 1);
    // A marked call is nobody's business; and until the second stall is reported, the limit of the first one
    // has passed again.
    let marked = named("marked", || gort::blocking(|| until("both", || stalls_of("second").len() == 1)));
    let second = named("second", move || read_unmarked(&other_end));
    until("the second is reported", || stalls_of("second").len() == 1);
    drop((close, other_close));
    join_all([first, second, marked]);
    let stalls = STALLS.lock().unwrap();
    assert_eq!(stalls.len(), 2, "{stalls:?}");
    for stall in stalls.iter() {
        assert_eq!(stall.kind(), StallKind::UnmarkedCall);
        assert!(stall.lasted() >= Duration::from_millis(50));
        assert!(stall.to_string().contains("stall::read_unmarked"), "{stall}");
        assert!(stall.goroutine().spawned_at().unwrap().file().ends_with("stall.rs"));
    }
    assert_eq!(stats().stalls, 2);
}

#[test]
fn a_starved_goroutine_and_the_one_that_does_not_let_go_are_reported_once() {
    const TEST: &str = "a_starved_goroutine_and_the_one_that_does_not_let_go_are_reported_once";
    if !is_child("starves") {
        let printed = run_ok(child(TEST, "starves"));
        let reports = reports(&printed);
        assert_eq!(reports.len(), 2, "{}", printed.stderr);
        assert!(reports.values().all(|&times| times == 1), "{}", printed.stderr);
        return;
    }
    #[inline(never)]
    fn wait_for_message(receiver: &gort::chan::Receiver<()>) {
        receiver.recv().unwrap();
    }
    // Without signals a loop that does not call the runtime keeps its P.
    watch(Config::new().max_procs(1).preempt_by_signal(false), Duration::from_millis(50));
    let (sender, receiver) = gort::chan::bounded(1);
    let starved = named("starved", move || wait_for_message(&receiver));
    until("it waits", || stats().goroutines.waiting == 1);
    let (stop, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (may_end, started) = (stop.clone(), runs.clone());
    let hog = named("hog", move || {
        started.store(true, Ordering::Relaxed);
        compute_without_end(&may_end);
    });
    until("the hog runs", || runs.load(Ordering::Relaxed));
    sender.send(()).unwrap();
    until("both are reported", || stalls_of("starved").len() == 1 && stalls_of("hog").len() == 1);
    // The stalls last; as long as it took to report them, nothing more is reported.
    let start = Instant::now();
    until("some more looks", || start.elapsed() > Duration::from_millis(200));
    stop.store(true, Ordering::Relaxed);
    join_all([starved, hog]);
    let [starved, hog] = [stalls_of("starved").remove(0), stalls_of("hog").remove(0)];
    assert_eq!((starved.kind(), hog.kind()), (StallKind::Runnable, StallKind::ProcessorStuck));
    assert!(starved.to_string().contains("wait_for_message"), "{starved}");
    assert_eq!(STALLS.lock().unwrap().len(), 2);
}

#[test]
fn goroutines_in_the_queue_of_endless_loops_are_reported_with_their_stacks() {
    if !alone("goroutines_in_the_queue_of_endless_loops_are_reported_with_their_stacks") {
        return;
    }
    watch(Config::new().max_procs(1), Duration::from_millis(30));
    // Each runs for 10 ms and waits for a second: all Ps are busy all the time.
    let stop = Arc::new(AtomicBool::new(false));
    let loops: Vec<_> = (0..100)
        .map(|_| {
            let stop = stop.clone();
            named("loop", move || compute_without_end(&stop))
        })
        .collect();
    until("loops that a signal stopped are reported", || {
        let found = stalls_of("loop");
        found.iter().any(|stall| {
            stall.kind() == StallKind::Runnable && stall.to_string().contains("stall::compute_without_end")
        })
    });
    stop.store(true, Ordering::Relaxed);
    join_all(loops);
}

/// The thread of this process with that name.
fn thread_named(name: &str) -> Option<i32> {
    let is_it = |tid: &i32| {
        std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    threads().into_iter().find(is_it)
}

/// Counts the allocations of one thread.
struct Counting;

static COUNTED_THREAD: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn count() {
    let counted = COUNTED_THREAD.load(Ordering::Relaxed);
    if counted != 0 && counted == tid() {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_looks_of_the_watchdog_allocate_nothing() {
    if !alone("the_looks_of_the_watchdog_allocate_nothing") {
        return;
    }
    // Nothing is reported: the limit is long. The looks are a second apart.
    watch(Config::new().max_procs(1).preempt_by_signal(false), Duration::from_secs(1000));
    gort::run(|| ());
    until("the watchdog has its name", || thread_named("gort-watchdog").is_some());
    let watchdog = thread_named("gort-watchdog").unwrap();
    COUNTED_THREAD.store(watchdog, Ordering::Relaxed);
    // Goroutines are followed, and no longer followed.
    let (end, close) = pipe();
    let blocked = named("blocked", move || read_unmarked(&end));
    let stop = Arc::new(AtomicBool::new(false));
    let may_end = stop.clone();
    let hog = named("hog", move || compute_without_end(&may_end));
    let wait = || {
        let before = voluntary_switches(watchdog);
        until("the watchdog has looked", || voluntary_switches(watchdog) > before);
    };
    for _ in 0..2 {
        let queued: Vec<_> = (0..50).map(|_| gort::spawn(|| ())).collect();
        wait();
        drop(queued);
    }
    stop.store(true, Ordering::Relaxed);
    hog.join().unwrap();
    wait();
    assert_eq!(COUNT.load(Ordering::Relaxed), 0);
    drop(close);
    blocked.join().unwrap();
}

/// How many times the thread has gone to sleep.
fn voluntary_switches(tid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// sysmon took its P in a short call. After that it computes, on a thread that gets no CPU.
#[test]
fn a_goroutine_that_gets_no_cpu_is_not_in_a_blocking_call() {
    if !alone("a_goroutine_that_gets_no_cpu_is_not_in_a_blocking_call") {
        return;
    }
    /// Gives the calling thread only the time that no other one wants.
    fn be_last() {
        // SAFETY: the kernel reads the struct.
        unsafe {
            let parameters: libc::sched_param = std::mem::zeroed();
            assert_eq!(libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters), 0);
        }
    }
    // All threads that begin from here on share one CPU.
    // SAFETY: the kernel reads and writes the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
    watch(Config::new().max_procs(1), Duration::from_millis(200));
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || compute_without_end(&stop))
        })
        .collect();
    let may_end = stop.clone();
    let starved = named("starved", move || {
        let _thread = gort::runtime::os_thread_guard();
        be_last();
        std::thread::sleep(Duration::from_millis(60));
        compute_without_end(&may_end);
    });
    // It waits for the P, so sysmon looks whether that is used.
    let may_end = stop.clone();
    let waits = gort::spawn(move || {
        while !may_end.load(Ordering::Relaxed) {
            gort::yield_now();
        }
    });
    let start = Instant::now();
    until("many looks", || start.elapsed() > Duration::from_secs(3));
    stop.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    join_all([starved, waits]);
    let wrong: Vec<_> = stalls_of("starved");
    assert!(wrong.iter().all(|stall| stall.kind() != StallKind::UnmarkedCall), "{wrong:?}");
}

#[test]
fn the_watchdog_goes_on_after_a_panic_in_the_function_for_stalls() {
    const TEST: &str = "the_watchdog_goes_on_after_a_panic_in_the_function_for_stalls";
    if !is_child("panics") {
        let printed = run_ok(child(TEST, "panics"));
        for word in ["no luck with first", "no luck with second", "on_stall panicked", "the watchdog goes on"]
        {
            assert!(printed.stderr.contains(word), "no {word:?}: {}", printed.stderr);
        }
        return;
    }
    let limit = Duration::from_millis(50);
    let panics = |stall: &Stall| {
        STALLS.lock().unwrap().push(stall.clone());
        panic!("no luck with {}", stall.goroutine().name().unwrap());
    };
    Config::new().max_procs(2).stall_after(limit).on_stall(panics).start().unwrap();
    for name in ["first", "second"] {
        let (end, close) = pipe();
        let stalled = named(name, move || read_unmarked(&end));
        until("it is reported", || stalls_of(name).len() == 1);
        drop(close);
        stalled.join().unwrap();
    }
}

#[test]
fn a_function_for_stalls_without_a_limit_gives_a_warning() {
    const TEST: &str = "a_function_for_stalls_without_a_limit_gives_a_warning";
    if is_child("no limit") {
        Config::new().on_stall(|stall| panic!("{stall}")).start().unwrap();
        return gort::run(|| ());
    }
    let printed = run_ok(child(TEST, "no limit"));
    assert!(printed.stderr.contains("call Config::stall_after"), "{}", printed.stderr);
}

#[test]
fn a_healthy_program_is_not_reported() {
    const TEST: &str = "a_healthy_program_is_not_reported";
    if !is_child("healthy") {
        let printed = run_ok(child(TEST, "healthy"));
        assert!(!printed.stderr.contains("stall"), "{}", printed.stderr);
        return;
    }
    // Long, because the tests beside this one may keep all cores busy.
    const LIMIT: Duration = Duration::from_secs(2);
    watch(Config::new().max_procs(2), LIMIT);
    let start = Instant::now();
    let lasts = move || start.elapsed() < 2 * LIMIT;
    // Some wait for long, one is in a marked call, two yield, two exchange messages, two loops compute.
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let waits = gort::spawn(move || receiver.recv().unwrap_err());
    let marked = gort::spawn(move || gort::blocking(|| std::thread::sleep(2 * LIMIT)));
    let asleep = gort::spawn(|| gort::sleep(2 * LIMIT));
    let yields: Vec<_> = (0..2)
        .map(|_| {
            gort::spawn(move || {
                while lasts() {
                    gort::yield_now();
                }
            })
        })
        .collect();
    let (ping, pong) = (gort::chan::bounded::<u64>(0), gort::chan::bounded::<u64>(0));
    let answers = gort::spawn(move || ping.1.iter().try_for_each(|n| pong.0.send(n)));
    let asks = gort::spawn(move || {
        while lasts() {
            ping.0.send(1).unwrap();
            pong.1.recv().unwrap();
        }
    });
    let hogs = Hogs::start(2);
    // Short unmarked calls, one after the other, without a call into the runtime.
    let calls = gort::spawn(move || {
        while lasts() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    join_all([marked, asleep, asks, calls]);
    join_all(yields);
    drop((hogs, sender));
    let _nobody_sends = waits.join().unwrap();
    let _nobody_asks = answers.join().unwrap();
    assert!(STALLS.lock().unwrap().is_empty(), "{:?}", STALLS.lock().unwrap());
    assert_eq!(stats().stalls, 0);
}

#[test]
fn the_longest_unmarked_calls_are_listed_with_their_stacks() {
    if !alone("the_longest_unmarked_calls_are_listed_with_their_stacks") {
        return;
    }
    const CALLS: usize = 20;
    let of = |name: &str| {
        longest_blocking_calls().into_iter().find(move |call| call.goroutine().name() == Some(name))
    };
    let (end, close) = pipe();
    let longest = named("longest", move || read_unmarked(&end));
    until("the call is seen while it lasts", || of("longest").is_some_and(|call| !call.is_over()));
    let seen = of("longest").unwrap();
    assert!(seen.to_string().contains("stall::read_unmarked"), "{seen}");
    assert!(seen.goroutine().spawned_at().unwrap().file().ends_with("stall.rs"));
    assert_eq!(seen.goroutine().state(), "syscall");
    // A marked one is not listed.
    named("marked", || gort::blocking(|| std::thread::sleep(Duration::from_millis(50)))).join().unwrap();

    let ends: Vec<_> = (0..CALLS).map(|_| pipe()).collect();
    let (reads, writes): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let others: Vec<_> = reads.into_iter().map(|end| named("other", move || read_unmarked(&end))).collect();
    until("as many as are listed", || longest_blocking_calls().len() == 16);
    drop(writes);
    join_all(others);
    drop(close);
    longest.join().unwrap();
    until("all are over", || longest_blocking_calls().iter().all(|call| call.is_over()));
    let listed = longest_blocking_calls();
    assert!(listed.is_sorted_by_key(|call| std::cmp::Reverse(call.duration())), "{listed:?}");
    assert_eq!(listed[0].goroutine().name(), Some("longest"), "{listed:?}");
    assert!(listed[0].duration() >= seen.duration());
    assert!(of("marked").is_none());
    let now = listed[0].duration();
    assert_eq!(longest_blocking_calls()[0].duration(), now, "it grows after its end");
    let counted = stats();
    assert!(counted.unmarked_calls >= 16 && counted.unmarked_time >= now, "{counted:?}");
}
