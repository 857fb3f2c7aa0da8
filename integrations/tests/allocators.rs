//! Tests `gort::alloc::OnThread`: with it, mimalloc and jemalloc keep no cache for each goroutine, so that a
//! goroutine costs no more than with the system's allocator. Without it, everything still works.

use std::process::Command;

#[track_caller]
fn bytes(allocator: &str) -> usize {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["run", "--quiet", "--example", allocator]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{allocator}: {}", String::from_utf8_lossy(&output.stderr));
    let bytes = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    println!("{allocator}: {bytes} bytes for each parked goroutine");
    bytes
}

/// How far two runs of the same program may be apart, in bytes.
const NOISE: usize = 256;

/// The additional memory allowed with jemalloc, in bytes. Every goroutine has room for the program's static
/// thread-locals, and jemalloc has 2.6 kB of them: one page more, or two where frames cross into the next.
const TWO_PAGES: usize = 2 * 4096;

#[test]
fn allocators_with_caches_for_threads_keep_none_for_goroutines() {
    let system = bytes("allocator_system");
    for (allocator, more) in [("allocator_mimalloc", NOISE), ("allocator_jemalloc", TWO_PAGES)] {
        let other = bytes(allocator);
        assert!(other <= system + more, "{allocator}: {other} bytes, the system's: {system}");
    }
    // Without the wrapper, any cost is accepted.
    assert!(bytes("allocator_unwrapped") > 0);
}
