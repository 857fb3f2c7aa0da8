//! Profiles: pprof's own tool reads each of them, they show what the program did, and making them does not
//! disturb the program.

#[path = "../common/mod.rs"]
mod common;

use std::hint::black_box;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use common::{Procs, TempDir, amount, child, cpu_time, go, is_child, join_all, named, run_ok, tid, until};
use gort::profile::{self, Cpu, Profile};

const TICK: Duration = Duration::from_millis(1);

/// The CPU profile and the rates belong to the process.
fn alone_in_process() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `go tool pprof` prints about the profile. `None`: there is no Go here.
#[track_caller]
fn pprof(profile: &Profile, arguments: &[&str]) -> Option<String> {
    let mut command = go(&["tool", "pprof"])?;
    let dir = TempDir::new();
    let file = dir.path().join("profile");
    let mut bytes = Vec::new();
    profile.write_to(&mut bytes).unwrap();
    std::fs::write(&file, bytes).unwrap();
    command.args(arguments).arg(&file).env("PPROF_TMPDIR", dir.path());
    let printed = run_ok(command);
    assert!(!printed.stderr.contains("error"), "{}", printed.stderr);
    Some(printed.stdout)
}

/// The functions of `pprof -top`, with the percentages of flat and cum.
fn top(printed: &str) -> Vec<(String, f64, f64)> {
    let lines = printed.lines().skip_while(|line| !line.trim_start().starts_with("flat ")).skip(1);
    let percent = |word: &str| word.trim_end_matches('%').parse::<f64>().unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[5..].join(" "), percent(words[1]), percent(words[4]))
    };
    lines.map(line).collect()
}

#[track_caller]
fn find(top: &[(String, f64, f64)], function: &str) -> (f64, f64) {
    match top.iter().find(|(name, ..)| name.contains(function)) {
        Some(&(_, flat, cum)) => (flat, cum),
        None => panic!("{function} is not among {top:#?}"),
    }
}

/// The stacks of a profile's text, with their first number.
fn stacks(profile: &Profile) -> Vec<(u64, String)> {
    let text = profile.text(1);
    let blocks = text.split("\n\n").map(|block| {
        let start = block.lines().position(|line| line.contains(" @"))?;
        let block: Vec<&str> = block.lines().skip(start).collect();
        Some((block[0].split(' ').next()?.parse().ok()?, block.join("\n")))
    });
    blocks.flatten().collect()
}

/// The part of the profile in stacks that have this word.
fn share(profile: &Profile, word: &str) -> f64 {
    let stacks = stacks(profile);
    let all: u64 = stacks.iter().map(|(count, _)| count).sum();
    let with: u64 = stacks.iter().filter(|(_, text)| text.contains(word)).map(|(count, _)| count).sum();
    with as f64 / all.max(1) as f64
}

#[inline(never)]
fn compute(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// Calls `work` until the process has used that much CPU time since the beginning.
fn use_cpu(millis: u64, mut work: impl FnMut()) {
    let start = cpu_time();
    while cpu_time() - start < Duration::from_millis(millis) {
        work();
    }
}

#[inline(never)]
fn hot_function() {
    compute(300_000);
    black_box(());
}

#[inline(never)]
fn warm_function() {
    compute(100_000);
    black_box(());
}

#[test]
fn the_hot_function_has_most_of_the_cpu_time() {
    let _alone = alone_in_process();
    // A kernel whose clock ticks late delivers less: not each time, though.
    let measured = |_| {
        let cpu = Cpu::start(100).unwrap();
        let start = cpu_time();
        gort::run(|| {
            use_cpu(1500, || {
                hot_function();
                warm_function();
            });
        });
        let used = cpu_time() - start;
        let profile = cpu.stop().unwrap();
        let sum = profile.time();
        let is_right = sum > used.mul_f64(0.8) && sum < used.mul_f64(1.2);
        if !is_right {
            println!("{sum:?} of {used:?}");
        }
        is_right.then_some(profile)
    };
    let profile = (0..5).find_map(measured).expect("the samples of five profiles are not the time used");
    assert_eq!(profile.name(), "cpu");
    let (hot, warm) = (share(&profile, "profile::hot_function"), share(&profile, "profile::warm_function"));
    assert!(hot > 0.55 && warm > 0.1 && warm < hot, "{hot} {warm}\n{}", profile.text(1));
    let Some(printed) = pprof(&profile, &["-top", "-cum"]) else { return };
    let top = top(&printed);
    let ((_, hot), (_, warm)) = (find(&top, "profile::hot_function"), find(&top, "profile::warm_function"));
    assert!(hot > 55.0 && warm > 10.0, "{printed}");
    assert!(find(&top, "profile::compute").1 > 70.0, "{printed}");
    assert!(printed.contains("Type: cpu") && printed.contains("Duration: "), "{printed}");
    let raw = pprof(&profile, &["-raw"]).unwrap();
    assert!(raw.contains("samples/count cpu/nanoseconds"), "{raw}");
    assert!(raw.contains("PeriodType: cpu nanoseconds") && raw.contains("Period: 10000000"), "{raw}");
    assert!(raw.contains("tests/diag/profile.rs:"), "{raw}");
}

#[test]
fn samples_have_the_labels_and_the_name_of_their_goroutine() {
    let _alone = alone_in_process();
    let cpu = Cpu::start(200).unwrap();
    let busy = gort::Builder::new().name("busy one".into()).label("tenant", "acme");
    let id = busy.spawn(|| {
        gort::with_labels([("route", "/pay")], || use_cpu(800, || compute(10_000)));
        gort::current().id()
    });
    let id = id.unwrap().join().unwrap();
    // A thread of the program.
    let thread = std::thread::Builder::new().name("plain-thread".into());
    thread.spawn(|| use_cpu(300, || compute(10_000))).unwrap().join().unwrap();
    let profile = cpu.stop().unwrap();
    for label in ["\"tenant\":\"acme\"", "\"route\":\"/pay\"", "\"goroutine name\":\"busy one\""] {
        assert!(share(&profile, label) > 0.4, "{label}\n{}", profile.text(1));
    }
    assert!(share(&profile, &format!("\"goroutine\":\"{id}\"")) > 0.4, "{}", profile.text(1));
    assert!(share(&profile, "\"thread\":\"plain-thread\"") > 0.1, "{}", profile.text(1));
    let Some(tags) = pprof(&profile, &["-tags"]) else { return };
    for word in ["acme", "/pay", "busy one", "plain-thread", "tenant: Total", "thread: Total"] {
        assert!(tags.contains(word), "{word}\n{tags}");
    }
    let top = top(&pprof(&profile, &["-top", "-cum", "-tagfocus=route=/pay"]).unwrap());
    assert!(find(&top, "profile::compute").1 > 60.0, "{top:#?}");
}

#[test]
fn samples_survive_storms_of_goroutines_threads_and_preemptions() {
    let _alone = alone_in_process();
    let _procs = Procs::set(4);
    let stop = Arc::new(AtomicBool::new(false));
    let start = cpu_time();
    let cpu = Cpu::start(1000).unwrap();
    let mut all = Vec::new();
    // More endless loops than there are Ps: signals preempt them.
    for _ in 0..8 {
        let stop = Arc::clone(&stop);
        all.push(gort::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                compute(1000);
            }
        }));
    }
    // Goroutines that start and end; allocation; other stacks; blocking calls that start threads.
    let count = amount(10_000, 100_000);
    all.push(gort::spawn(move || {
        for chunk in 0..10 {
            let small = (0..count / 10).map(|n| {
                gort::spawn(move || {
                    let text = format!("{n} {chunk}");
                    stacker::grow(64 << 10, || compute(black_box(text.len() as u64)));
                })
            });
            join_all(small.collect::<Vec<_>>());
        }
    }));
    all.push(gort::spawn(|| {
        for _ in 0..20 {
            let calls = (0..20).map(|_| gort::spawn(|| gort::blocking(|| std::thread::sleep(TICK))));
            join_all(calls.collect::<Vec<_>>());
            std::thread::spawn(|| compute(100_000)).join().unwrap();
        }
    }));
    let last = all.split_off(8);
    join_all(last);
    use_cpu(500, || std::thread::sleep(TICK));
    stop.store(true, Ordering::Relaxed);
    join_all(all);
    let profile = cpu.stop().unwrap();
    let used = cpu_time() - start;
    let sum = profile.time();
    assert!(sum > used.mul_f64(0.6) && sum < used.mul_f64(1.2), "{sum:?} of {used:?}");
    assert!(share(&profile, "profile::compute") > 0.2, "{}", profile.text(1));
    if let Some(printed) = pprof(&profile, &["-top", "-cum"]) {
        find(&top(&printed), "profile::compute");
    }
}

#[test]
fn code_on_a_stack_of_another_library_is_seen() {
    let _alone = alone_in_process();
    let cpu = Cpu::start(200).unwrap();
    named("elsewhere", || stacker::grow(1 << 20, || use_cpu(500, hot_function))).join().unwrap();
    let profile = cpu.stop().unwrap();
    let text = profile.text(1);
    let found = stacks(&profile).into_iter().filter(|(_, text)| text.contains("elsewhere"));
    let hot: u64 = found.filter(|(_, text)| text.contains("hot_function")).map(|(count, _)| count).sum();
    assert!(hot > 20, "{text}");
}

#[test]
fn system_calls_do_not_fail_because_of_a_profile() {
    let _alone = alone_in_process();
    let cpu = Cpu::start(1000).unwrap();
    type Call = fn() -> i64;
    let calls: [(&str, Call); 4] = [
        // SAFETY: without descriptors, the call waits.
        ("poll", || unsafe { libc::poll(std::ptr::null_mut(), 0, 100).into() }),
        ("nanosleep", || {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            // SAFETY: reads the time.
            unsafe { libc::nanosleep(&time, std::ptr::null_mut()).into() }
        }),
        ("epoll_wait", || {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: a descriptor of our own, and memory for one event.
            unsafe {
                let poller = libc::epoll_create1(libc::EPOLL_CLOEXEC);
                let result = libc::epoll_wait(poller, &raw mut event, 1, 100);
                let error = *libc::__errno_location();
                libc::close(poller);
                *libc::__errno_location() = error;
                result.into()
            }
        }),
        ("recv", || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            match socket.recv(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
                other => panic!("{other:?}"),
            }
        }),
    ];
    for (name, call) in calls {
        let (ready, thread) = mpsc::channel();
        let caller = gort::spawn(move || {
            ready.send(tid()).unwrap();
            if call() < 0 { std::io::Error::last_os_error().raw_os_error() } else { None }
        });
        let thread = thread.recv().unwrap();
        let state = || std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        until(name, || state().rsplit(')').next().unwrap().trim_start().starts_with('S'));
        for _ in 0..20 {
            // SAFETY: sends the profile's signal to a thread of this process, whose handler is gort's.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGPROF) };
            std::thread::sleep(TICK);
        }
        assert_eq!(caller.join().unwrap(), None, "{name}");
    }
    // As it happens in life: threads that compute and wait in turns.
    let waits = || {
        for n in 0..200 {
            compute(20_000 + n * 100);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::poll(std::ptr::null_mut(), 0, 1) }, 0);
        }
    };
    join_all((0..8).map(|_| gort::spawn(waits)).collect::<Vec<_>>());
    assert!(cpu.stop().unwrap().count() > 0);
}

#[test]
fn mistakes_are_named() {
    let _alone = alone_in_process();
    let refused = |rate| Cpu::start(rate).map(drop).unwrap_err().to_string();
    assert_eq!(refused(0), "a CPU profile with 0 samples a second: give 1 to 1000");
    assert_eq!(refused(1001), "a CPU profile with 1001 samples a second: give 1 to 1000");
    let cpu = Cpu::start(100).unwrap();
    let twice = "a CPU profile is being made already: call gort::profile::Cpu::stop on it first";
    assert_eq!(refused(100), twice);
    drop(cpu);
    let cpu = Cpu::start(100).unwrap();
    let mixed = profile::block().since(&profile::mutex()).unwrap_err();
    assert!(mixed.to_string().contains("take two of one kind"), "{mixed}");
    let cpu = cpu.stop().unwrap();
    let same = cpu.since(&cpu).unwrap_err();
    assert!(same.to_string().contains("begins anew"), "{same}");
    assert!(profile::lookup("cpu").is_none());
}

#[test]
fn a_program_that_uses_the_signal_itself_keeps_it() {
    extern "C" fn own(_: i32) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
    static SEEN: AtomicU64 = AtomicU64::new(0);
    if !is_child("own signal") {
        run_ok(child("a_program_that_uses_the_signal_itself_keeps_it", "own signal"));
        return;
    }
    let install = || {
        // SAFETY: the handler only counts.
        unsafe { libc::signal(libc::SIGPROF, own as *const () as usize) }
    };
    // SAFETY: as above; the kernel's default.
    let remove = || unsafe { libc::signal(libc::SIGPROF, libc::SIG_DFL) };
    install();
    let refused = Cpu::start(100).map(drop).unwrap_err().to_string();
    assert!(refused.contains("SIGPROF") && refused.contains("has a handler already"), "{refused}");
    remove();
    let cpu = Cpu::start(100).unwrap();
    install();
    gort::run(|| use_cpu(300, || compute(10_000)));
    let ended = cpu.stop().map(drop).unwrap_err().to_string();
    assert!(ended.contains("the program installed a handler for SIGPROF"), "{ended}");
    let seen = SEEN.load(Ordering::Relaxed);
    // SAFETY: sends a signal to this process, which has a handler.
    unsafe { libc::raise(libc::SIGPROF) };
    assert!(SEEN.load(Ordering::Relaxed) > seen);
    remove();
    drop(Cpu::start(100).unwrap().stop().unwrap());
    assert_eq!(remove(), libc::SIG_DFL);
}

#[test]
fn signals_that_wait_at_the_end_of_a_profile_do_no_harm() {
    let _alone = alone_in_process();
    let cpu = Cpu::start(100).unwrap();
    let (tell, told) = mpsc::channel();
    let (go_on, wait) = mpsc::channel();
    let blocked = std::thread::spawn(move || {
        let mask = |how| {
            // SAFETY: changes the mask of this thread.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGPROF);
                libc::pthread_sigmask(how, &set, std::ptr::null_mut());
            }
        };
        mask(libc::SIG_BLOCK);
        // Since Linux 6.13, those of the timer vanish with the timer. This one does not; it comes first,
        // because a second one is not kept. SAFETY: sends this thread a signal that it blocks.
        unsafe { libc::raise(libc::SIGPROF) };
        use_cpu(200, || compute(10_000));
        tell.send(()).unwrap();
        wait.recv().unwrap();
        mask(libc::SIG_UNBLOCK);
    });
    told.recv().unwrap();
    cpu.stop().unwrap();
    go_on.send(()).unwrap();
    blocked.join().unwrap();
}

/// A thread that is found late has used its first period already, so that its timer fires while it waits.
#[test]
fn the_end_of_a_profile_makes_no_call_fail() {
    let _one = alone_in_process();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::spawn(|| {
                        use_cpu(12, || compute(1000));
                        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
                        ours.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
                        let error = (&ours).read(&mut [0]).unwrap_err();
                        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                    })
                    .join()
                    .unwrap();
                }
            })
        })
        .collect();
    for _ in 0..amount(20, 500) {
        let cpu = Cpu::start(1000).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        drop(cpu.stop().unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[inline(never)]
fn waits_for_a_message(receiver: &gort::chan::Receiver<u64>) -> u64 {
    black_box(receiver.recv().unwrap())
}

#[inline(never)]
fn releases_late(lock: &gort::sync::Mutex<u64>, held: &AtomicBool, free: &AtomicBool) {
    let mut guard = lock.lock();
    held.store(true, Ordering::Relaxed);
    until("the others wait", || free.load(Ordering::Relaxed));
    gort::sleep(20 * TICK);
    *guard += 1;
    drop(guard);
    black_box(());
}

#[test]
fn the_block_profile_shows_where_goroutines_wait_and_how_long() {
    let _alone = alone_in_process();
    const WAITS: u32 = 20;
    profile::set_block_profile_rate(Duration::from_nanos(1)).unwrap();
    let before = profile::block();
    let (sender, receiver) = gort::chan::bounded(0);
    let start = std::time::Instant::now();
    let reader = gort::spawn(move || (0..WAITS).map(|_| waits_for_a_message(&receiver)).sum::<u64>());
    gort::run(move || {
        for _ in 0..WAITS {
            gort::sleep(5 * TICK);
            sender.send(1).unwrap();
        }
    });
    assert_eq!(reader.join().unwrap(), u64::from(WAITS));
    let took = start.elapsed();
    let profile = profile::block().since(&before).unwrap();
    profile::set_block_profile_rate(Duration::ZERO).unwrap();
    let found: Vec<_> =
        stacks(&profile).into_iter().filter(|(_, text)| text.contains("waits_for_a_message")).collect();
    let [(nanos, text)] = &found[..] else { panic!("{}", profile.text(1)) };
    let waited = Duration::from_nanos(*nanos);
    // The reader is fast, so it waits for nearly all messages; how long, depends on when it runs.
    assert!(waited > took / 4 && waited < took, "{waited:?} of {took:?}\n{text}");
    let count: u32 = text.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((WAITS / 2..=WAITS).contains(&count), "{text}");
    // Sleeping is no wait for another goroutine.
    assert!(!profile.text(1).contains("time::sleep::sleep"), "{}", profile.text(1));
    let Some(printed) = pprof(&profile, &["-top", "-cum"]) else { return };
    let top = top(&printed);
    find(&top, "profile::waits_for_a_message");
    find(&top, "gort::chan::receiver::Receiver<");
    assert!(printed.contains("Type: delay"), "{printed}");
    let raw = pprof(&profile, &["-raw"]).unwrap();
    assert!(raw.contains("contentions/count delay/nanoseconds"), "{raw}");
}

#[test]
fn sampling_does_not_change_the_sums_of_the_block_profile() {
    let _alone = alone_in_process();
    let _procs = Procs::set(1);
    let measure = |rate| {
        profile::set_block_profile_rate(rate).unwrap();
        let before = profile::block();
        gort::run(|| {
            let (sender, receiver) = gort::chan::bounded(0);
            let reader = gort::spawn(move || receiver.iter().sum::<u64>());
            for _ in 0..20_000 {
                compute(300);
                sender.send(1).unwrap();
            }
            drop(sender);
            reader.join().unwrap()
        });
        let profile = profile::block().since(&before).unwrap();
        profile::set_block_profile_rate(Duration::ZERO).unwrap();
        profile
    };
    let all = measure(Duration::from_nanos(1));
    // The reader's waits are some ten times as short as the rate.
    let typical = all.time() / all.count() as u32;
    let some = measure(typical * 10);
    let (all, some) = (all.count() as f64, some.count() as f64);
    assert!(some > all * 0.5 && some < all * 2.0, "{all} {some}");
}

#[test]
fn the_mutex_profile_shows_who_holds_locks_for_long() {
    let _alone = alone_in_process();
    assert_eq!(profile::set_mutex_profile_fraction(1).unwrap(), 0);
    let before = profile::mutex();
    let lock = Arc::new(gort::sync::Mutex::new(0u64));
    let (held, free) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let holder = {
        let (lock, held, free) = (Arc::clone(&lock), Arc::clone(&held), Arc::clone(&free));
        gort::spawn(move || releases_late(&lock, &held, &free))
    };
    until("the lock is held", || held.load(Ordering::Relaxed));
    let waiter = {
        let lock = Arc::clone(&lock);
        named("waits for the lock", move || *lock.lock())
    };
    let waits = |g: &gort::runtime::GoroutineTrace| {
        g.name() == Some("waits for the lock") && g.state() == "sync.Mutex.Lock"
    };
    until("the other one waits", || gort::runtime::dump().goroutines().iter().any(waits));
    free.store(true, Ordering::Relaxed);
    join_all([holder]);
    assert_eq!(waiter.join().unwrap(), 1);
    let profile = profile::mutex().since(&before).unwrap();
    assert_eq!(profile::set_mutex_profile_fraction(0).unwrap(), 1);
    let text = profile.text(1);
    assert!(text.starts_with("--- mutex:\ncycles/second=1000000000\nsampling period="), "{text}");
    let stacks = stacks(&profile);
    let found: Vec<_> = stacks.iter().filter(|(_, text)| text.contains("releases_late")).collect();
    let [(nanos, _)] = found[..] else { panic!("{text}") };
    assert!(Duration::from_nanos(*nanos) >= 15 * TICK, "{text}");
    let Some(printed) = pprof(&profile, &["-top", "-cum"]) else { return };
    find(&top(&printed), "profile::releases_late");
}

#[inline(never)]
fn sits_and_waits(receiver: &gort::chan::Receiver<()>) {
    black_box(receiver.recv().unwrap_err());
}

#[test]
fn the_goroutine_profile_counts_goroutines_by_stack_and_labels() {
    let _alone = alone_in_process();
    let before = profile::goroutine();
    let (sender, receiver) = gort::chan::bounded::<()>(0);
    let spawn = |shard: &str| {
        let receiver = receiver.clone();
        gort::Builder::new().label("shard", shard).spawn(move || sits_and_waits(&receiver)).unwrap()
    };
    let all: Vec<_> = (0..30).map(|n| spawn(if n < 20 { "one" } else { "two" })).collect();
    let waiting = || {
        let dump = gort::runtime::dump();
        dump.goroutines().iter().filter(|g| g.state() == "chan receive").count()
    };
    until("they wait", || waiting() >= 30);
    let profile = profile::lookup("goroutine").unwrap();
    let delta = profile.since(&before).unwrap();
    assert!(delta.count() >= 30, "{}", delta.text(1));
    for (shard, count) in [("one", 20), ("two", 10)] {
        let label = format!("\"shard\":\"{shard}\"");
        let of_shard = stacks(&delta).into_iter().filter(|(_, text)| text.contains(&label));
        let counts: Vec<u64> = of_shard.map(|(count, _)| count).collect();
        assert_eq!(counts, [count], "{}", delta.text(1));
    }
    let text = profile.text(1);
    assert!(text.starts_with("goroutine profile: total "), "{text}");
    assert!(!text.contains("gort::sched::"), "{text}");
    assert!(profile.text(2).contains("[chan receive]"), "{}", profile.text(2));
    if let Some(printed) = pprof(&delta, &["-top", "-cum"]) {
        assert!(find(&top(&printed), "profile::sits_and_waits").1 > 90.0, "{printed}");
        assert!(printed.contains("Type: goroutine"), "{printed}");
        let one = pprof(&delta, &["-top", "-cum", "-tagfocus=shard=one"]).unwrap();
        assert!(one.contains("20, "), "{one}");
    }
    drop(sender);
    join_all(all);
    assert_eq!(profile::goroutine().since(&profile).unwrap().count(), -30);
}

#[inline(never)]
fn never_ends(receiver: &gort::chan::Receiver<()>) {
    black_box(receiver.recv().unwrap_err());
}

#[test]
fn leaks_and_threads_have_profiles() {
    let _alone = alone_in_process();
    #[inline(never)]
    fn leak() {
        let (ask, questions) = gort::chan::bounded::<()>(0);
        let (answer, answers) = gort::chan::bounded::<()>(0);
        gort::spawn(move || (never_ends(&questions), answer));
        gort::spawn(move || (never_ends(&answers), ask));
    }
    gort::spawn(leak).join().unwrap();
    let mut leaks = None;
    until("the leaks are found", || {
        leaks = profile::goroutineleak().filter(|profile| profile.count() >= 2);
        leaks.is_some()
    });
    let leaks = leaks.unwrap();
    assert!(share(&leaks, "never_ends") > 0.9, "{}", leaks.text(1));
    let threads = profile::threadcreate();
    assert!(threads.count() >= 4, "{}", threads.text(1));
    for (profile, function) in [(leaks, "profile::never_ends"), (threads, "gort::sched::M")] {
        let Some(printed) = pprof(&profile, &["-top", "-cum"]) else { return };
        find(&top(&printed), function);
        assert!(printed.contains(&format!("Type: {}", profile.name())), "{printed}");
    }
}

#[test]
fn samples_are_part_of_a_trace_that_is_made_at_the_same_time() {
    let _alone = alone_in_process();
    let dir = TempDir::new();
    let file = dir.path().join("trace");
    gort::trace::start(std::fs::File::create(&file).unwrap()).unwrap();
    let cpu = Cpu::start(100).unwrap();
    let id = gort::spawn(|| {
        use_cpu(600, hot_function);
        gort::current().id()
    });
    let id = id.join().unwrap();
    let profile = cpu.stop().unwrap();
    let summary = gort::trace::stop().unwrap();
    assert_eq!((summary.repairs, summary.dropped_generations), (0, 0), "{summary:?}");
    let Some(mut parse) = go(&["tool", "trace", "-d=parsed"]) else { return };
    parse.arg(&file);
    let parsed = run_ok(parse).stdout;
    let of_goroutine = format!(" G={id} StackSample ");
    let samples = parsed.lines().filter(|line| line.contains(&of_goroutine)).count();
    let profiled =
        stacks(&profile).into_iter().filter(|(_, text)| text.contains(&format!("\"goroutine\":\"{id}\"")));
    let profiled: u64 = profiled.map(|(count, _)| count).sum();
    assert!(samples > 20 && samples as u64 <= profiled, "{samples} of {profiled}");
    assert!(parsed.contains("profile::hot_function"), "no function is shown");
}
