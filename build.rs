//! Rejects unsupported targets with one clear message, before the compiler reports hundreds of errors.
//!
//! Also writes the pictures of the guide as text, which rustdoc includes.
//!
//! `links = "gort"`, which ensures that a program links only one runtime, requires a build script in any
//! case.

use std::path::Path;
use std::{env, fs};

fn main() {
    write_pictures();
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

/// Writes `page-light.md` and `viewer.md` to the output directory: Markdown with the picture of that name in
/// `docs/images`, as a data URL, so that the documentation has it wherever it is built and shown. The package
/// on crates.io has no pictures; there the files are empty.
fn write_pictures() {
    let out = env::var("OUT_DIR").unwrap_or_default();
    for (name, says) in [
        (
            "page-light",
            "The live page: each processor with its thread, the goroutine that it runs and its queue",
        ),
        ("viewer", "The viewer of a trace: what each processor did, and a goroutine that is selected"),
    ] {
        let file = format!("docs/images/{name}.png");
        println!("cargo::rerun-if-changed={file}");
        let picture =
            fs::read(file).map(|bytes| format!("![{says}](data:image/png;base64,{})\n", base64(&bytes)));
        let text = picture.unwrap_or_default();
        if let Err(error) = fs::write(Path::new(&out).join(format!("{name}.md")), text) {
            println!("cargo::error=cannot write to {out}: {error}");
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, i| number << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}
