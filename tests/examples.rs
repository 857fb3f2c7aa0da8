//! Every example runs, ends by itself and prints exactly what it promises.

use std::process::Command;

/// Runs an example as a user does and compares what it prints.
#[track_caller]
fn prints(example: &str, expected: &str) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["run", "--quiet", "--example", example]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {}\n{errors}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{example}\n{errors}");
}

#[test]
fn hello() {
    prints("hello", "Hello, GOROUTINE!\n10000 goroutines add up to 50005000\nthe goroutine said: oops\n");
}

#[test]
fn worker_pool() {
    prints("worker_pool", "1000 jobs done; the longest way to 1 starts at 871: 178 steps\n");
}

#[test]
fn pipeline() {
    prints("pipeline", "squares of odd numbers: [1, 9, 25, 49, 81, 121, 169, 225]\nall stages have ended\n");
}

#[test]
fn file_hashing() {
    // The same hash, computed here without goroutines or files.
    let line = |n: u8| {
        let hash = (0..usize::from(n) * 10_000)
            .fold(0xcbf29ce484222325u64, |hash, _| (hash ^ u64::from(n)).wrapping_mul(0x100000001b3));
        format!("{hash:016x}  {n:02}.bin\n")
    };
    prints("file_hashing", &(0..20).map(line).collect::<String>());
}

#[test]
fn sleep_sort() {
    prints("sleep_sort", "1 3 5 8 10 12 15 17 20\n");
}

#[test]
fn prime_sieve() {
    prints("prime_sieve", "[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]\nthe 100th prime is 541\n");
}

#[test]
fn producer_consumer() {
    prints(
        "producer_consumer",
        "fast producer: sum 5050\n\
         slow producer: sum 55\n\
         the heart has beaten at least 3 times\n\
         nothing arrived within 30 ms\n\
         the deadline has ended an endless producer: true\n",
    );
}

#[test]
fn crawler() {
    let mut expected = String::new();
    for (depth, pages) in [1, 2, 3, 5, 11, 21, 37, 46, 46, 21, 7].iter().enumerate() {
        expected += &format!("depth {depth}: {pages} pages\n");
    }
    expected += "200 pages found, never more than 8 fetches at once: true\n";
    prints("crawler", &expected);
}
