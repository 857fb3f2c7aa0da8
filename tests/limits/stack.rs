//! Stacks: sizes, memory, limits.

#[path = "../common/mod.rs"]
mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{amount, stack_bounds, status_bytes, threads, until};

#[test]
fn any_size_up_to_the_largest_works_and_beyond_is_an_error() {
    for size in [0, 1, 4095, 16 << 10, 100_000, 1 << 20, 64 << 20, 1 << 30] {
        let handle = gort::Builder::new().stack_size(size).spawn(move || size).unwrap();
        assert_eq!(handle.join().unwrap(), size);
    }
    for size in [(1 << 30) + 1, 1 << 40, usize::MAX] {
        let error = gort::Builder::new().stack_size(size).spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains(&size.to_string()) && text.contains("1073741824"), "{text}");
    }
}

/// Uses about `bytes` of stack.
#[inline(never)]
fn recurse(bytes: usize) -> usize {
    let frame = std::hint::black_box([1u8; 512]);
    let start = &raw const frame as usize;
    #[inline(never)]
    fn down(until: usize, depth: usize) -> usize {
        let frame = std::hint::black_box([1u8; 512]);
        if &raw const frame as usize <= until {
            return depth;
        }
        let depth = down(until, depth + usize::from(frame[3]));
        std::hint::black_box(&frame);
        depth
    }
    down(start - bytes, 0)
}

#[test]
fn all_of_the_stack_that_was_asked_for_can_be_used() {
    for size in [16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20] {
        // The frames above and below the function that measures need some of it, too.
        let usable = size - (4 << 10);
        let depth =
            gort::Builder::new().stack_size(size).spawn(move || recurse(usable)).unwrap().join().unwrap();
        assert!(depth > usable / 2048, "{depth}");
    }
}

#[test]
fn a_stack_grows_as_deep_as_the_code_goes() {
    for size in [200 << 10, 1 << 20, 8 << 20, 63 << 20] {
        assert!(gort::spawn(move || recurse(size)).join().unwrap() > size / 2048);
        assert!(gort::run(move || recurse(size)) > size / 2048, "the main goroutine");
    }
    gort::scope(|s| {
        s.spawn(|| recurse(8 << 20));
        gort::spawn(|| recurse(8 << 20)).join().unwrap();
    });
    let group = gort::sync::WaitGroup::new();
    group.go(|| assert!(recurse(8 << 20) > 0));
    group.wait();
}

#[test]
fn each_of_ten_thousand_can_grow_also_after_a_crowd() {
    if !common::alone("each_of_ten_thousand_can_grow_also_after_a_crowd") {
        return;
    }
    let grow = || {
        let n = 10_000;
        let (open, gate) = gort::chan::bounded::<()>(0);
        let here = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..n)
            .map(|number| {
                let (gate, here) = (gate.clone(), here.clone());
                gort::spawn(move || {
                    here.fetch_add(1, Ordering::Relaxed);
                    assert!(gate.recv().is_err());
                    // All at once would need 80 GB.
                    if number % 1000 == 0 {
                        recurse(8 << 20);
                    }
                    stack_bounds().1
                })
            })
            .collect();
        until("all are there", || here.load(Ordering::Relaxed) == n);
        drop(open);
        for handle in handles {
            assert!(handle.join().unwrap() >= 8 << 20);
        }
    };
    grow();
    with_parked(amount(15_000, 1_000_000), || {});
    grow();
}

#[test]
fn the_environment_and_the_program_choose_the_sizes() {
    const NAME: &str = "the_environment_and_the_program_choose_the_sizes";
    let usual = || gort::spawn(|| stack_bounds().1).join().unwrap();
    if common::is_child("by variables") {
        println!("usual: {}", usual());
        assert!(gort::run(|| stack_bounds().1) >= usual(), "the main goroutine has as much");
        assert!(gort::run(|| stack_bounds().1) >= (8 << 20) - (64 << 10));
        return;
    }
    if common::is_child("by the program") {
        gort::runtime::Config::new().stack_size(2 << 20).max_stack(0).start().unwrap();
        println!("usual: {}", usual());
        return;
    }
    let usual_with = |variables: &[(&str, &str)]| {
        let mut child = common::child(NAME, "by variables");
        child.envs(variables.iter().copied());
        let printed = common::run(child);
        let line = printed.stdout.lines().find_map(|line| line.split("usual: ").nth(1));
        line.and_then(|bytes| bytes.parse::<usize>().ok()).unwrap_or_else(|| panic!("{}", printed.stderr))
    };
    assert!((128 << 20..130 << 20).contains(&usual_with(&[("GORT_MAX_STACK", "128M")])));
    assert!((192 << 10..256 << 10).contains(&usual_with(&[("GORT_MAX_STACK", "0")])));
    assert!((1 << 20..2 << 20).contains(&usual_with(&[("GORT_MAX_STACK", "0"), ("GORT_STACK_SIZE", "1M")])));
    assert!((64 << 20..66 << 20).contains(&usual_with(&[("GORT_MAX_STACK", "lots")])));
    assert!((64 << 20..66 << 20).contains(&usual_with(&[("GORT_STACK_SIZE", "16M")])));
    let printed = common::run(common::child(NAME, "by the program"));
    let bytes: usize =
        printed.stdout.split("usual: ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!((2 << 20..4 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn stacks_of_all_sizes_are_reused() {
    for round in 0..amount(50, 2_000) {
        let handles: Vec<_> = [16 << 10, 200 << 10, 1 << 20, 20 << 20]
            .map(|size| {
                let use_it = move || recurse(size / 2);
                gort::Builder::new().stack_size(size).spawn(use_it).unwrap()
            })
            .into();
        for handle in handles {
            assert!(handle.join().unwrap() > 0, "round {round}");
        }
    }
}

/// How often tests wait for the housekeeper.
const ROUNDS: usize = 4;

/// Whether the housekeeper was in time once: it gives a page back in the second pass after it was used last,
/// and passes are a second apart. The kernel may let it wait on a busy machine, so the best of some rounds
/// counts. After the last one, a test fails.
fn are_in_time(given_back_after: &[Duration]) -> bool {
    let in_time = given_back_after.iter().any(|time| *time < Duration::from_millis(2_500));
    assert!(in_time || given_back_after.len() < ROUNDS, "given back after {given_back_after:?}");
    in_time
}

/// Resident memory and page tables.
fn memory() -> usize {
    status_bytes("VmRSS") + status_bytes("VmPTE")
}

/// Spawns `n` goroutines that wait, calls `meanwhile`, lets them end.
fn with_parked(n: usize, meanwhile: impl FnOnce()) {
    let (open, gate) = gort::chan::bounded::<()>(0);
    let (here, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let others = gort::runtime::num_goroutines();
    for _ in 0..n {
        let (gate, here, woken) = (gate.clone(), here.clone(), woken.clone());
        gort::spawn(move || {
            here.fetch_add(1, Ordering::Relaxed);
            assert!(gate.recv().is_err());
            woken.fetch_add(1, Ordering::Relaxed);
        });
    }
    until("all are there", || here.load(Ordering::Relaxed) == n);
    meanwhile();
    drop(open);
    until("all have woken up", || woken.load(Ordering::Relaxed) == n);
    until("all have ended", || gort::runtime::num_goroutines() <= others);
}

#[test]
fn parked_goroutines_cost_one_page_each_and_few_threads() {
    if !common::alone("parked_goroutines_cost_one_page_each_and_few_threads") {
        return;
    }
    let n = amount(20_000, 1_000_000);
    // The first ones have stacks that can grow, and more page tables.
    with_parked(GROWABLE, || parked_in_a_crowd(n));
}

/// The number of goroutines whose stacks can grow.
const GROWABLE: usize = 10_240;

fn parked_in_a_crowd(n: usize) {
    let before = memory();
    with_parked(n, || {
        let each = (memory() - before) / n;
        println!("{n} parked goroutines: {each} bytes each");
        // A debug build's frames may not fit into the first page.
        let limit = if cfg!(debug_assertions) { 10_000 } else { 5_600 };
        assert!(each <= limit, "{each} bytes each");
        // Three threads of the test, housekeeper, starter, sysmon, and GOMAXPROCS + 3 Ms. On a busy machine
        // there may be more for a while: sysmon takes the P of a thread that lost its CPU for long, and
        // another M runs it.
        let limit = 3 + 3 + gort::runtime::max_procs() + 3;
        until("there are few threads", || threads().len() <= limit);
    });
}

#[test]
fn memory_is_used_again() {
    if !common::alone("memory_is_used_again") {
        return;
    }
    let n = amount(10_000, 1_000_000);
    let mut peaks = Vec::new();
    for _ in 0..5 {
        with_parked(n, || peaks.push(memory()));
    }
    println!("memory with {n} goroutines, five times: {peaks:?}");
    let (least, most) = (*peaks.iter().min().unwrap(), *peaks.iter().max().unwrap());
    assert!(most - least < least / 10, "{peaks:?}");
}

#[test]
fn the_stacks_of_ended_goroutines_are_given_back() {
    if !common::alone("the_stacks_of_ended_goroutines_are_given_back") {
        return;
    }
    let use_stacks = || {
        let n = 500;
        let here = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..n)
            .map(|_| {
                let here = here.clone();
                gort::spawn(move || {
                    recurse(2 << 20);
                    here.fetch_add(1, Ordering::Relaxed);
                    until("all use their stacks", || here.load(Ordering::Relaxed) == n);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    };
    let before = memory();
    let mut given_back_after = Vec::new();
    while !are_in_time(&given_back_after) {
        use_stacks();
        let start = Instant::now();
        // 1 GB was in use.
        until("it is given back", || {
            std::thread::sleep(Duration::from_millis(20));
            memory() < before + (20 << 20)
        });
        given_back_after.push(start.elapsed());
    }
    use_stacks();
}

#[test]
fn a_p_that_is_never_idle_gives_stacks_back_too() {
    if !common::alone("a_p_that_is_never_idle_gives_stacks_back_too") {
        return;
    }
    let _procs = common::Procs::set(2);
    let over = Arc::new(AtomicBool::new(false));
    // No P is idle, and on none does a goroutine end.
    let busy: Vec<_> = (0..6)
        .map(|_| {
            let over = over.clone();
            gort::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    gort::yield_now();
                }
            })
        })
        .collect();
    let before = memory();
    let here = Arc::new(AtomicUsize::new(0));
    let deep: Vec<_> = (0..60)
        .map(|_| {
            let here = here.clone();
            gort::spawn(move || {
                recurse(2 << 20);
                here.fetch_add(1, Ordering::Relaxed);
                until("all use their stacks", || here.load(Ordering::Relaxed) == 60);
            })
        })
        .collect();
    common::join_all(deep);
    // 120 MB were in use.
    until("it is given back", || {
        std::thread::sleep(Duration::from_millis(20));
        memory() < before + (40 << 20)
    });
    over.store(true, Ordering::Relaxed);
    common::join_all(busy);
}

#[test]
fn a_parked_goroutines_stack_shrinks_and_keeps_what_is_in_use() {
    if !common::alone("a_parked_goroutines_stack_shrinks_and_keeps_what_is_in_use") {
        return;
    }
    let n = 300;
    let before = memory();
    let gates = [(); ROUNDS].map(|()| gort::chan::bounded::<()>(0));
    let here = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..n)
        .map(|id| {
            let (gates, here) = (gates.clone().map(|(_, gate)| gate), here.clone());
            gort::spawn(move || {
                let kept = std::hint::black_box([id as u8; 2_000]);
                for gate in gates {
                    recurse(200 << 10);
                    here.fetch_add(1, Ordering::Relaxed);
                    assert!(gate.recv().is_err());
                    assert_eq!(kept, [id as u8; 2_000]);
                }
                recurse(200 << 10)
            })
        })
        .collect();
    // Each goroutine waits several times.
    let mut shrunk_after = Vec::with_capacity(ROUNDS);
    for (time, (open, _)) in (1..).zip(gates) {
        until("all are there", || here.load(Ordering::Relaxed) == time * n);
        let start = Instant::now();
        // 60 MB are in use, of which each goroutine needs some kB.
        until("the stacks have shrunk", || {
            std::thread::sleep(Duration::from_millis(20));
            memory() < before + n * (40 << 10)
        });
        shrunk_after.push(start.elapsed());
        drop(open);
    }
    for handle in handles {
        assert!(handle.join().unwrap() > 0);
    }
    assert!(are_in_time(&shrunk_after));
}

#[test]
fn a_goroutine_parked_on_a_stack_of_its_own_making_is_left_alone() {
    if !common::alone("a_goroutine_parked_on_a_stack_of_its_own_making_is_left_alone") {
        return;
    }
    // Makes a hole above all stacks. The new stack will lie there.
    // SAFETY: our own mapping, which we unmap before anything uses it.
    let hole = unsafe {
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), 4 << 20, protection, flags, -1, 0).expose_provenance()
    };
    gort::run(|| {});
    let (open, gate) = gort::chan::bounded::<()>(0);
    let ready = Arc::new(AtomicBool::new(false));
    let seen = ready.clone();
    let handle = gort::spawn(move || {
        let kept = std::hint::black_box([7u8; 10_000]);
        // SAFETY: see above.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(hole), 4 << 20) };
        stacker::grow(1 << 20, || {
            let on_new_stack = std::hint::black_box([8u8; 10_000]);
            assert!((&raw const on_new_stack).addr() > (&raw const kept).addr(), "the test needs it above");
            seen.store(true, Ordering::Release);
            assert!(gate.recv().is_err());
            assert_eq!(on_new_stack, [8; 10_000]);
        });
        assert_eq!(kept, [7; 10_000]);
        gort::current().id()
    });
    until("it is parked", || ready.load(Ordering::Acquire));
    // The stacks of other goroutines, which shrink, show when the trimmer has come by.
    let before = status_bytes("VmRSS");
    let (open_other, gate_other) = gort::chan::bounded::<()>(0);
    let others: Vec<_> = (0..200)
        .map(|_| {
            let gate = gate_other.clone();
            gort::spawn(move || {
                recurse(200 << 10);
                assert!(gate.recv().is_err());
            })
        })
        .collect();
    until("they have used their stacks", || status_bytes("VmRSS") > before + 200 * (150 << 10));
    until("they have shrunk", || {
        std::thread::sleep(Duration::from_millis(20));
        status_bytes("VmRSS") < before + 200 * (40 << 10)
    });
    let id = handle.id();
    drop((open, open_other));
    assert_eq!(handle.join().unwrap(), id);
    for other in others {
        other.join().unwrap();
    }
}
