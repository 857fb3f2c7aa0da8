//! What a program prints whose goroutine overflows its stack.

#[path = "../common/mod.rs"]
mod common;

#[test]
fn a_stack_overflow_names_the_goroutine_and_aborts() {
    const NAME: &str = "a_stack_overflow_names_the_goroutine_and_aborts";
    if common::is_child("overflow") {
        let deep = gort::Builder::new().name("deep".into()).stack_size(64 << 10);
        let sum = deep.spawn(|| recurse(1_000_000)).unwrap().join().unwrap();
        println!("no overflow: {sum}");
        return;
    }
    use std::os::unix::process::ExitStatusExt;
    let printed = common::run(common::child(NAME, "overflow"));
    let text = &printed.stderr;
    assert_eq!(printed.status.signal(), Some(libc::SIGABRT), "{} {text}", printed.stdout);
    assert!(text.contains("'deep' (spawned at tests/limits/stack_overflow.rs:"), "{text}");
    assert!(text.contains("has overflowed its stack of"), "{text}");
    assert!(text.contains("gort::Builder::stack_size"), "{text}");
}

/// Runs this test again with `variables`, in a child that overflows a stack, and returns what it prints.
fn overflow(name: &str, variables: &[(&str, &str)]) -> String {
    use std::os::unix::process::ExitStatusExt;
    let mut child = common::child(name, "overflow");
    child.envs(variables.iter().copied());
    let printed = common::run(child);
    assert_eq!(printed.status.signal(), Some(libc::SIGABRT), "{} {}", printed.stdout, printed.stderr);
    printed.stderr
}

#[test]
fn beyond_the_limit_the_report_names_the_setting() {
    const NAME: &str = "beyond_the_limit_the_report_names_the_setting";
    if common::is_child("overflow") {
        let sum = gort::spawn(|| recurse(1_000_000)).join().unwrap();
        println!("no overflow: {sum}");
        return;
    }
    let text = overflow(NAME, &[("GORT_MAX_STACK", "1M")]);
    let size = text.split("has overflowed its stack of ").nth(1).and_then(|rest| rest.split(' ').next());
    let size: usize = size.and_then(|size| size.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    assert!((1024..=2048).contains(&size), "{text}");
    assert!(text.contains("GORT_MAX_STACK or gort::runtime::Config::max_stack"), "{text}");
    let text = overflow(NAME, &[("GORT_MAX_STACK", "0"), ("GORT_STACK_SIZE", "64K")]);
    assert!(text.contains("GORT_MAX_STACK or gort::runtime::Config::max_stack"), "{text}");
}

#[test]
fn in_a_crowd_the_report_says_why_it_could_not_grow() {
    const NAME: &str = "in_a_crowd_the_report_says_why_it_could_not_grow";
    if common::is_child("overflow") {
        let (_open, gate) = gort::chan::bounded::<()>(0);
        for _ in 0..10_300 {
            let gate = gate.clone();
            gort::go!(gate.recv());
        }
        let sum = gort::spawn(|| recurse(1_000_000)).join().unwrap();
        println!("no overflow: {sum}");
        return;
    }
    let text = overflow(NAME, &[]);
    assert!(text.contains("while thousands of other goroutines were alive"), "{text}");
    assert!(text.contains("GORT_STACK_SIZE or gort::runtime::Config::stack_size"), "{text}");
}

/// C code without stack probes: a frame of `bytes` whose lowest byte is the first to be touched.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn unprobed_frame(bytes: usize) {
    // SAFETY: the stack pointer is put back; whether the memory is there is what the test is about.
    unsafe {
        std::arch::asm!(
            "mov {saved}, rsp",
            "sub rsp, {bytes}",
            "mov byte ptr [rsp], 1",
            "mov rsp, {saved}",
            bytes = in(reg) bytes,
            saved = out(reg) _,
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_frame_that_is_not_probed_is_caught_by_the_guard() {
    const NAME: &str = "a_frame_that_is_not_probed_is_caught_by_the_guard";
    if common::is_child("overflow") {
        // Of a stack that grows, such a frame is part.
        gort::spawn(|| unprobed_frame(300_000)).join().unwrap();
        gort::Builder::new()
            .stack_size(1 << 20)
            .spawn(|| (0..300).for_each(|n| unprobed_frame(n * 15_000)))
            .unwrap()
            .join()
            .unwrap();
        println!("no overflow");
        return;
    }
    for limit in ["0", "2M"] {
        let text = overflow(NAME, &[("GORT_MAX_STACK", limit), ("GORT_STACK_SIZE", "512K")]);
        assert!(text.contains("has overflowed its stack of"), "{text}");
    }
}

#[inline(never)]
fn recurse(n: u64) -> u64 {
    let frame = std::hint::black_box([n; 32]);
    if n == 0 { 0 } else { recurse(n - 1) + frame[(n % 32) as usize] }
}
