//! Rejects unsupported targets with one clear message, before the compiler reports hundreds of errors.
//!
//! `links = "gort"`, which ensures that a program links only one runtime, requires a build script in any
//! case.

use std::env;

fn main() {
    // ThreadSanitizer calls dl_iterate_phdr before it is ready for instrumented code; then gort must not
    // define it (`src/sched/block/thread_state.rs`).
    println!("cargo::rustc-check-cfg=cfg(gort_tsan)");
    if env::var("CARGO_CFG_SANITIZE").is_ok_and(|kinds| kinds.split(',').any(|kind| kind == "thread")) {
        println!("cargo::rustc-cfg=gort_tsan");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let (system, processor, library) = (target("OS"), target("ARCH"), target("ENV"));
    if (system.as_str(), processor.as_str(), library.as_str()) != ("linux", "x86_64", "gnu") {
        println!(
            "cargo::error=gort needs Linux on x86-64 with glibc (x86_64-unknown-linux-gnu): it gives each \
             goroutine one of glibc's blocks of thread-local storage. This target is {} (system {system}, \
             processor {processor}, C library {}).",
            env::var("TARGET").unwrap_or_default(),
            if library.is_empty() { "unknown" } else { &library },
        );
    }
}
