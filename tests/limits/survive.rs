//! Faults and loads that gort must survive: most rows of the second table in tests/README.md. With
//! `GORT_FULL=1` the amounts are those of a long run.

#[path = "../common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{
    Hogs, Printed, Procs, Watchdog, alone, amount, child, full, is_child, run_ok, spin_until, threads, until,
};
use gort::chan::{bounded, unbounded};
use gort::runtime::{Config, stats};

#[test]
fn sleepers_wake_up_among_four_times_as_many_hogs_as_processors() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let hogs = Hogs::start(8);
        let mut late: Vec<Duration> = (0..amount(100, 2_000))
            .map(|_| {
                let start = Instant::now();
                gort::sleep(Duration::from_millis(1));
                start.elapsed()
            })
            .collect();
        drop(hogs);
        late.sort();
        assert!(late[0] >= Duration::from_millis(1));
        // Only in a full run, on a machine that has nothing else to do.
        assert!(!full() || late[late.len() * 99 / 100] <= Duration::from_millis(50), "{late:?}");
    });
}

#[test]
fn hundreds_of_unmarked_blocking_calls_at_once_hold_nobody_up() {
    if !alone("hundreds_of_unmarked_blocking_calls_at_once_hold_nobody_up") {
        return;
    }
    let _procs = Procs::set(2);
    let n = amount(200, 500);
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut pipes = Vec::new();
    let all: Vec<_> = (0..n)
        .map(|_| {
            let (mut reader, writer) = std::io::pipe().unwrap();
            pipes.push(writer);
            let (begun, ended) = (begun.clone(), ended.clone());
            gort::spawn(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let mut byte = [0];
                // One system call, which must not be interrupted.
                assert_eq!(reader.read(&mut byte).unwrap(), 1);
                ended.fetch_add(1, Ordering::SeqCst);
                byte[0]
            })
        })
        .collect();
    gort::run(|| {
        until("all are blocked", || begun.load(Ordering::SeqCst) == n);
        // Other goroutines work, wait and sleep meanwhile.
        let (sender, receiver) = bounded(0);
        let other = gort::spawn(move || (0..1_000).for_each(|n| sender.send(n).unwrap()));
        assert_eq!(receiver.iter().sum::<u32>(), 499_500);
        other.join().unwrap();
        (0..20).for_each(|_| gort::sleep(Duration::from_millis(1)));
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        for (n, pipe) in pipes.iter_mut().enumerate() {
            pipe.write_all(&[n as u8]).unwrap();
        }
    });
    for (n, one) in all.into_iter().enumerate() {
        assert_eq!(one.join().unwrap(), n as u8);
    }
    // Each blocked goroutine had a thread. Those threads end.
    until("the threads have ended", || {
        std::thread::sleep(Duration::from_millis(20));
        threads().len() < 40
    });
}

#[test]
fn the_limit_of_threads_is_named_and_stops_nothing() {
    const TEST: &str = "the_limit_of_threads_is_named_and_stops_nothing";
    if !is_child(TEST) {
        let Printed { stderr, .. } = run_ok(child(TEST, TEST));
        assert!(stderr.contains("max_threads"), "{stderr}");
        assert_eq!(stderr.matches("max_threads").count(), 1, "{stderr}");
        return;
    }
    let _watchdog = Watchdog::start();
    Config::new().max_procs(2).max_threads(8).start().unwrap();
    let block = |n: usize| {
        gort::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            n
        })
    };
    let all: Vec<_> = (0..50).map(block).collect();
    assert_eq!(all.into_iter().map(|one| one.join().unwrap()).sum::<usize>(), 1225);
}

#[test]
fn bound_goroutines_run_when_they_hold_all_threads() {
    if !alone("bound_goroutines_run_when_they_hold_all_threads") {
        return;
    }
    const N: usize = 4;
    let _watchdog = Watchdog::start();
    Config::new().max_procs(2).max_threads(N).start().unwrap();
    // A ring of bound goroutines: each waits for a number, sleeps for some of them, and passes it on.
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..N).map(|_| bounded::<usize>(1)).unzip();
    let (done, end) = bounded(1);
    let bound = Arc::new(AtomicUsize::new(0));
    let all: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(n, receiver)| {
            let (next, done, bound) = (senders[(n + 1) % N].clone(), done.clone(), bound.clone());
            gort::spawn(move || {
                gort::runtime::lock_os_thread();
                // SAFETY: no preconditions.
                let thread = unsafe { libc::gettid() };
                bound.fetch_add(1, Ordering::SeqCst);
                for left in receiver {
                    // SAFETY: as above.
                    assert_eq!(unsafe { libc::gettid() }, thread);
                    match left {
                        0 => done.send(()).unwrap(),
                        left => {
                            if left % 50 == 0 {
                                gort::sleep(Duration::from_millis(1));
                            }
                            next.send(left - 1).unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    until("all are bound", || bound.load(Ordering::SeqCst) == N);
    // These have to wait until a thread is free, and the bound ones must not wait behind them.
    let others: Vec<_> = (0..100).map(|n| gort::spawn(move || n)).collect();
    // Two numbers go round at once.
    senders[0].send(200).unwrap();
    senders[N / 2].send(200).unwrap();
    (0..2).for_each(|_| end.recv().unwrap());
    senders.iter().for_each(|sender| {
        sender.close();
    });
    all.into_iter().for_each(|one| one.join().unwrap());
    assert_eq!(others.into_iter().map(|one| one.join().unwrap()).sum::<usize>(), 4950);
}

static URGENT: AtomicUsize = AtomicUsize::new(0);
static NOT_THE_USERS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_storm_of_the_preemption_signal_reaches_the_user_and_disturbs_nobody() {
    if !alone("a_storm_of_the_preemption_signal_reaches_the_user_and_disturbs_nobody") {
        return;
    }
    extern "C" fn urgent(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel passes it.
        let sent_by_kill = unsafe { (*info).si_code } == libc::SI_TKILL;
        if sent_by_kill { &URGENT } else { &NOT_THE_USERS }.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: a handler that counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = urgent as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()), 0);
    }
    let _procs = Procs::set(2);
    let stop = Arc::new(AtomicBool::new(false));
    let until_stopped = stop.clone();
    let storm = std::thread::spawn(move || {
        let own = std::process::id() as i32;
        let mut sent = 0;
        while !until_stopped.load(Ordering::Relaxed) {
            for tid in threads() {
                // SAFETY: no memory is passed; a thread that has ended does no harm.
                sent += i32::from(unsafe { libc::syscall(libc::SYS_tgkill, own, tid, libc::SIGURG) } == 0);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        sent
    });
    let before = stats().preempted_by_signal;
    gort::run(|| {
        let sums: Vec<_> = (0..6u64)
            .map(|seed| {
                gort::spawn(move || (0..amount(3, 60)).map(|n| checksum(seed + n as u64)).collect::<Vec<_>>())
            })
            .collect();
        // Calls that wait. None of them may be interrupted.
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let copied = gort::spawn(move || {
            let (mut byte, mut sum) = ([0], 0);
            while reader.read(&mut byte).unwrap() == 1 {
                sum += u64::from(byte[0]);
            }
            sum
        });
        for n in 0..200u8 {
            assert_eq!(writer.write(&[n]).unwrap(), 1);
            std::thread::sleep(Duration::from_micros(100));
            gort::sleep(Duration::from_micros(100));
        }
        drop(writer);
        assert_eq!(copied.join().unwrap(), 19_900);
        for (seed, sum) in sums.into_iter().enumerate() {
            let expected: Vec<_> = (0..amount(3, 60)).map(|n| checksum(seed as u64 + n as u64)).collect();
            assert_eq!(sum.join().unwrap(), expected);
        }
    });
    stop.store(true, Ordering::Relaxed);
    let sent = storm.join().unwrap();
    let seen = URGENT.load(Ordering::Relaxed);
    // When several signals come before a thread handles one, the kernel keeps one of them.
    assert!(seen > 100 && seen <= sent as usize, "{seen} of {sent}");
    assert_eq!(NOT_THE_USERS.load(Ordering::Relaxed), 0, "the user's handler saw signals of the runtime");
    assert!(stats().preempted_by_signal > before, "nobody was preempted");
}

/// Computes for some time without any call.
fn checksum(seed: u64) -> u64 {
    (0..2_000_000u64).fold(seed, |sum, n| (sum ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(13))
}

type Deed = fn(u64);

/// What goroutines do when signals stop them. Each deed checks itself.
const DEEDS: [(&str, Deed); 10] = [
    ("malloc", |n| {
        let all: Vec<Vec<u64>> = (0..8).map(|i| vec![n; 1 << i]).collect();
        assert!(all.iter().flatten().all(|&m| m == n));
    }),
    ("format", |n| {
        assert_eq!(format!("{n:>20}|{:e}", n as f64).trim_start().parse::<String>().unwrap().find('|'), {
            Some(n.to_string().len())
        })
    }),
    ("thread-locals", |n| {
        use std::cell::RefCell;
        thread_local!(static SUM: RefCell<(u64, Vec<u64>)> = const { RefCell::new((0, Vec::new())) });
        SUM.with_borrow_mut(|(sum, all)| {
            *sum += n;
            all.push(n);
            assert_eq!(all.iter().sum::<u64>(), *sum);
            if all.len() == 64 {
                (*sum, *all) = (0, Vec::new());
            }
        });
    }),
    ("unwinding", |n| {
        let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(n))).unwrap_err();
        assert_eq!(*caught.downcast::<u64>().unwrap(), n);
        assert!(!std::thread::panicking());
    }),
    ("backtraces", |n| {
        if n % 16 == 0 {
            let trace = std::backtrace::Backtrace::force_capture();
            assert_eq!(trace.status(), std::backtrace::BacktraceStatus::Captured);
        }
    }),
    ("printing", |n| {
        if n % 16 == 0 {
            println!("{n} {n:x}");
        }
    }),
    ("clocks", |_| {
        let (a, b) = (Instant::now(), Instant::now());
        assert!(b >= a && std::time::SystemTime::now() > std::time::UNIX_EPOCH);
    }),
    ("vectors", |n| {
        let vector: [f64; 32] = std::array::from_fn(|i| std::hint::black_box(n as f64 + i as f64));
        let sum: f64 = vector.iter().map(|x| x * 2.0 - n as f64).sum();
        assert_eq!(sum, 32.0 * n as f64 + 2.0 * 496.0);
    }),
    ("std's locks", |n| {
        static LOCK: std::sync::Mutex<(u64, u64)> = std::sync::Mutex::new((0, 0));
        let mut held = LOCK.lock().unwrap();
        assert_eq!(held.0, held.1);
        held.0 = n;
        held.1 = std::hint::black_box(n);
    }),
    ("channels of std", |n| {
        let (sender, receiver) = std::sync::mpsc::channel();
        sender.send(n).unwrap();
        assert_eq!(receiver.recv(), Ok(n));
    }),
];

#[test]
fn preemption_inside_anything_is_safe() {
    if !alone("preemption_inside_anything_is_safe") {
        return;
    }
    let _procs = Procs::set(1);
    let before = stats().preempted_by_signal;
    let (times, at_least) = (amount(2_000, 100_000) as u64, 30);
    gort::run(|| {
        let over = Arc::new(AtomicBool::new(false));
        let all: Vec<_> = DEEDS
            .iter()
            .map(|&(name, deed)| {
                let over = over.clone();
                let deeds = move || {
                    let mut n = 0;
                    while n < times || !over.load(Ordering::Relaxed) {
                        deed(n);
                        n += 1;
                    }
                };
                gort::Builder::new().name(name.into()).spawn(deeds).unwrap()
            })
            .collect();
        until("there were enough preemptions", || stats().preempted_by_signal >= before + at_least);
        over.store(true, Ordering::Relaxed);
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_registers(stop: &AtomicBool, rounds: &AtomicU64) -> bool {
    use std::arch::x86_64::*;
    // These values live only in the upper halves of wide registers during the loop.
    let (mut a, one) = (_mm256_set_epi64x(4, 3, 2, 1), _mm256_set1_epi64x(1));
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        a = _mm256_add_epi64(a, one);
        n += 1;
        rounds.store(n, Ordering::Relaxed);
    }
    let mut lanes = [0u64; 4];
    // SAFETY: the array has room for the register.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), a) };
    lanes == [1 + n, 2 + n, 3 + n, 4 + n]
}

#[test]
fn wide_registers_survive_preemption() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        println!("skipped: no AVX2 here");
        return;
    }
    let _procs = Procs::set(1);
    let stop = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = (0..4)
        .map(|_| {
            let (stop, rounds) = (stop.clone(), Arc::new(AtomicU64::new(0)));
            let seen = rounds.clone();
            // SAFETY: the CPU has AVX2.
            (seen, gort::spawn(move || unsafe { wide_registers(&stop, &rounds) }))
        })
        .collect();
    // With one P, all four come this far only if signals stop the others.
    for (rounds, _) in &all {
        spin_until("it runs again and again", || rounds.load(Ordering::Relaxed) > 1_000_000);
    }
    stop.store(true, Ordering::Relaxed);
    for (_, one) in all {
        assert!(one.join().unwrap());
    }
}

/// The signals that a process blocks, handles and ignores.
fn signals(status: &str) -> [u64; 3] {
    ["SigBlk:", "SigCgt:", "SigIgn:"].map(|field| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    })
}

#[test]
fn processes_start_under_load_with_default_signals() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let hogs = Hogs::start(4);
        let all: Vec<_> = (0..4)
            .map(|_| {
                gort::spawn(|| {
                    for _ in 0..amount(10, 250) {
                        let output = Command::new("cat").arg("/proc/self/status").output().unwrap();
                        let [blocked, caught, ignored] = signals(&String::from_utf8(output.stdout).unwrap());
                        assert_eq!((blocked, caught), (0, 0));
                        // The signals that this process was started with; but std ignores SIGPIPE here and
                        // not in children.
                        let [_, _, own] = signals(&std::fs::read_to_string("/proc/self/status").unwrap());
                        // Two signals belong to the C library, which starts the process.
                        let mine = !(1 << (libc::SIGPIPE - 1) | 0b11 << 31);
                        assert_eq!(ignored & mine, own & mine);
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        drop(hogs);
    });
}

#[test]
fn a_process_that_is_stopped_goes_on_where_it_was() {
    const TEST: &str = "a_process_that_is_stopped_goes_on_where_it_was";
    if !is_child(TEST) {
        let mut other = child(TEST, TEST).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = other.id() as i32;
        for n in 0..20 {
            std::thread::sleep(Duration::from_millis(n % 5 * 5));
            // SAFETY: our child, which has not been waited for.
            unsafe {
                assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(libc::kill(pid, libc::SIGCONT), 0);
            }
        }
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
        return;
    }
    let _procs = Procs::set(2);
    let stop = Arc::new(AtomicBool::new(false));
    gort::run(|| {
        let ticks = gort::chan::tick(Duration::from_millis(1));
        let start = Instant::now();
        let until_stopped = stop.clone();
        let ticker = gort::spawn(move || {
            let mut count = 0;
            while !until_stopped.load(Ordering::Relaxed) {
                ticks.recv().unwrap();
                count += 1;
            }
            count
        });
        let (sender, receiver) = unbounded::<u64>();
        let until_stopped = stop.clone();
        let traffic = gort::spawn(move || {
            let mut n = 0;
            while !until_stopped.load(Ordering::Relaxed) {
                sender.send(n).unwrap();
                n += 1;
                gort::sleep(Duration::from_micros(100));
            }
            n
        });
        let reader = gort::spawn(move || receiver.iter().zip(0..).all(|(received, n)| received == n));
        // An unmarked read, which lasts until the other process is done with us.
        assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 0);
        stop.store(true, Ordering::Relaxed);
        assert!(traffic.join().unwrap() > 0 && reader.join().unwrap());
        let count = ticker.join().unwrap();
        // Ticks that were missed do not come afterwards.
        assert!(count >= 1 && count <= start.elapsed().as_millis() + 2, "{count} in {:?}", start.elapsed());
    });
}

#[test]
fn odd_arguments_have_a_meaning() {
    use gort::chan::{RecvTimeoutError, Select, SendError, TrySendError};
    let _watchdog = Watchdog::start();
    gort::run(|| {
        // Durations: zero and the longest.
        gort::sleep(Duration::ZERO);
        let (sender, receiver) = bounded::<u32>(usize::MAX);
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        sender.send(1).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::MAX), Ok(1));
        assert!(gort::chan::after(Duration::MAX).try_recv().is_err());
        assert!(gort::time::timeout(Duration::MAX, || true).unwrap());
        // A channel that is closed twice.
        assert!(sender.close());
        assert!(!sender.close());
        assert_eq!(sender.send(2), Err(SendError(2)));
        assert_eq!(sender.try_send(2), Err(TrySendError::Disconnected(2)));
        assert!(receiver.recv().is_err());
        // A select of a thousand cases.
        let channels: Vec<_> = (0..1_000).map(|_| bounded::<usize>(1)).collect();
        let mut select = Select::new();
        channels.iter().for_each(|(_, receiver)| _ = select.recv(receiver));
        let last = channels[999].0.clone();
        let other = gort::spawn(move || last.send(7).unwrap());
        let chosen = select.select();
        assert_eq!((chosen.index(), chosen.recv(&channels[999].1)), (999, Ok(7)));
        other.join().unwrap();
        // Sizes of stacks.
        for size in [0, 1, 4096] {
            assert_eq!(gort::Builder::new().stack_size(size).spawn(|| 5).unwrap().join().unwrap(), 5);
        }
        assert!(gort::Builder::new().stack_size(usize::MAX).spawn(|| ()).is_err());
    });
    // The runtime can be used in thread-local destructors, of threads and of goroutines.
    struct Uses(gort::chan::Sender<u32>);
    impl Drop for Uses {
        fn drop(&mut self) {
            gort::yield_now();
            gort::sleep(Duration::from_micros(1));
            self.0.send(gort::spawn(|| 3).join().unwrap()).unwrap();
        }
    }
    thread_local!(static USES: std::cell::RefCell<Option<Uses>> = const { std::cell::RefCell::new(None) });
    let (sender, receiver) = unbounded();
    let uses = sender.clone();
    std::thread::spawn(move || USES.set(Some(Uses(uses)))).join().unwrap();
    gort::spawn(move || USES.set(Some(Uses(sender)))).join().unwrap();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn the_goroutine_in_runnext_runs_although_its_parent_computes_or_blocks() {
    for procs in [1, 2] {
        let _procs = Procs::set(procs);
        gort::run(|| {
            for _ in 0..amount(5, 100) {
                let ran = Arc::new(AtomicBool::new(false));
                let flag = ran.clone();
                let next = gort::spawn(move || flag.store(true, Ordering::Relaxed));
                spin_until("the next one ran", || ran.load(Ordering::Relaxed));
                next.join().unwrap();
                let (mut reader, mut writer) = std::io::pipe().unwrap();
                let next = gort::spawn(move || writer.write_all(&[1]).unwrap());
                // An unmarked read.
                assert_eq!(reader.read(&mut [0]).unwrap(), 1);
                next.join().unwrap();
            }
        });
    }
}

#[test]
fn loops_without_a_frame_are_preempted() {
    fn spin(stop: &AtomicBool) {
        // SAFETY: reads the flag again and again, and touches nothing else.
        unsafe {
            std::arch::asm!(
                "2:",
                "cmp byte ptr [{stop}], 0",
                "je 2b",
                stop = in(reg) stop.as_ptr(),
                options(nostack, readonly),
            );
        }
    }
    let _procs = Procs::set(1);
    gort::run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let loops: Vec<_> = (0..2)
            .map(|_| {
                let stop = stop.clone();
                gort::spawn(move || spin(&stop))
            })
            .collect();
        // With one P this goroutine runs again only if signals stop the loops.
        (0..amount(5, 100)).for_each(|_| gort::yield_now());
        stop.store(true, Ordering::Relaxed);
        loops.into_iter().for_each(|one| one.join().unwrap());
    });
}
