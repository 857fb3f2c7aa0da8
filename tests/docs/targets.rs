//! On a target that gort does not support, the build fails with one message that says what gort needs.

use std::path::PathBuf;
use std::process::Command;

/// What the build script prints for a target.
fn build_script(name: &str, [system, processor, library]: [&str; 3]) -> String {
    let own = format!("build-script-for-{name}-{}", std::process::id());
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(own);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition", "2024", "-o"]).arg(&program).arg("build.rs");
    assert!(compile.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
    let mut run = Command::new(&program);
    run.env("TARGET", name).env("CARGO_CFG_TARGET_OS", system).env("CARGO_CFG_TARGET_ARCH", processor);
    let output = run.env("CARGO_CFG_TARGET_ENV", library).output().unwrap();
    std::fs::remove_file(program).unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_supported_target_passes() {
    let said = build_script("x86_64-unknown-linux-gnu", ["linux", "x86_64", "gnu"]);
    assert!(!said.contains("cargo::error"), "{said}");
}

#[test]
fn others_are_refused_by_name() {
    for (name, parts) in [
        ("x86_64-unknown-linux-musl", ["linux", "x86_64", "musl"]),
        ("aarch64-unknown-linux-gnu", ["linux", "aarch64", "gnu"]),
        ("x86_64-pc-windows-gnu", ["windows", "x86_64", "gnu"]),
        ("aarch64-apple-darwin", ["macos", "aarch64", ""]),
    ] {
        let said = build_script(name, parts);
        assert!(said.contains("cargo::error=gort needs Linux on x86-64 with glibc"), "{name}: {said}");
        assert!(said.contains(name), "{name}: {said}");
    }
}
