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

#[inline(never)]
fn recurse(n: u64) -> u64 {
    let frame = std::hint::black_box([n; 32]);
    if n == 0 { 0 } else { recurse(n - 1) + frame[(n % 32) as usize] }
}
