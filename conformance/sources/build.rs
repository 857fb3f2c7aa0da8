//! The build script of packages that build a crate from elsewhere with goroutines for threads. It writes a copy
//! of the crate's root that can be included: with paths to its modules, and without the attributes and the
//! documentation of the whole crate.

#[path = "../package_dir.rs"]
mod package_dir;

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    for file in ["sources/build.rs", "package_dir.rs", "Cargo.lock"] {
        println!("cargo:rerun-if-changed=../../{file}");
    }
    println!("cargo:rustc-check-cfg=cfg(tsan_enabled)");
    let package = env::var("CARGO_PKG_NAME").expect("cargo sets it");
    let name = package.strip_suffix("-in-goroutines").expect("the packages are named like that");
    let source = package_dir::package_dir(name).join("src");
    let text = fs::read_to_string(source.join("lib.rs")).expect("a crate has a root");
    let mut root = String::new();
    let mut lines = text.lines().filter(|line| !line.starts_with("//!"));
    while let Some(line) = lines.next() {
        if line.starts_with("#![") {
            // An attribute may have several lines.
            let mut last = line;
            while !last.ends_with(']') {
                last = lines.next().expect("an attribute ends");
            }
        } else {
            root += &with_path(line, &source);
            root.push('\n');
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("root.rs"), root).expect("OUT_DIR can be written to");
}

/// The line, with the path of its module if it declares one.
fn with_path(line: &str, source: &Path) -> String {
    let declared = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
    let Some(name) = declared.and_then(|rest| rest.strip_suffix(';')) else { return line.to_string() };
    let files = [source.join(format!("{name}.rs")), source.join(name).join("mod.rs")];
    let path = files.iter().find(|path| path.exists()).expect("a module has a file");
    format!("#[path = {:?}]\n{line}", path.display().to_string())
}
