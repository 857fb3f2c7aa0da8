//! What a stack overflow looks like.

use std::process::Command;

#[test]
fn a_stack_overflow_names_the_goroutine_and_aborts() {
    if std::env::var_os("GORT_TEST_OVERFLOW").is_some() {
        gort::run(|| {
            gort::Builder::new()
                .name("deep".into())
                .stack_size(64 << 10)
                .spawn(|| println!("{}", recurse(1_000_000)))
                .unwrap()
                .join()
                .unwrap();
        });
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_stack_overflow_names_the_goroutine_and_aborts", "--nocapture"])
        .env("GORT_TEST_OVERFLOW", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("'deep' (spawned at tests/limits/stack_overflow.rs:"), "{text}");
    assert!(text.contains("has overflowed its stack of"), "{text}");
    assert!(text.contains("gort::Builder::stack_size"), "{text}");
}

#[inline(never)]
fn recurse(n: u64) -> u64 {
    let frame = std::hint::black_box([n; 32]);
    if n == 0 { 0 } else { recurse(n - 1) + frame[(n % 32) as usize] }
}
