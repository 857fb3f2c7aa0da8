//! Exists because `links = "gort"` (one runtime in a process) requires a build script.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
