//! The build script of packages that build a crate from elsewhere with goroutines for threads. It copies the
//! crate's sources without what [`LEFT_OUT`] names, and writes the crate's root such that it can be included:
//! with paths to its modules, and without the attributes and the documentation of the whole crate.

#[path = "../left_out.rs"]
mod left_out;
#[path = "../package_dir.rs"]
mod package_dir;

use std::path::Path;
use std::{env, fs, path::PathBuf};

/// What is left out: crate, file, the beginning of the item's first line, and the reason.
const LEFT_OUT: &[(&str, &str, &str, &str)] = &[
    ("crossbeam-utils", "thread.rs", "mod unix", "the pthread of a handle: a goroutine has none"),
    ("ureq", "lib.rs", "fn connect_http_google(", "asks a server in the internet"),
    ("ureq", "test/agent_test.rs", "fn socket_addr_fail_over(", "needs an address that never answers"),
];

fn main() {
    for file in ["sources/build.rs", "left_out.rs", "package_dir.rs", "Cargo.lock"] {
        println!("cargo:rerun-if-changed=../../{file}");
    }
    for cfg in ["tsan_enabled", "crossbeam_loom", "crossbeam_sanitize", "crossbeam_no_atomic"] {
        println!("cargo:rustc-check-cfg=cfg({cfg})");
    }
    let package = env::var("CARGO_PKG_NAME").expect("cargo sets it");
    let name = package.strip_suffix("-in-goroutines").expect("the packages are named like that");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let source = out.join("src");
    // Files of an earlier version must not stay.
    let _there_is_none_at_first = fs::remove_dir_all(&source);
    copy(&package_dir::package_dir(name).join("src"), &source);
    for (_, file, item, _) in LEFT_OUT.iter().filter(|(of, ..)| *of == name) {
        let text = fs::read_to_string(source.join(file)).expect("the crate has this file");
        let text = left_out::without(&text, std::iter::once(item.to_string()), false);
        fs::write(source.join(file), text).expect("OUT_DIR can be written to");
    }
    let text = fs::read_to_string(source.join("lib.rs")).expect("a crate has a root");
    fs::write(out.join("root.rs"), root(&text, &source)).expect("OUT_DIR can be written to");
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("OUT_DIR can be written to");
    for entry in fs::read_dir(from).expect("a readable directory") {
        let entry = entry.expect("a directory entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            let content = fs::read(&from).expect("a readable file");
            fs::write(&to, content).expect("OUT_DIR can be written to");
        }
    }
}

/// The crate's root, to be included.
fn root(text: &str, source: &Path) -> String {
    let mut root = String::new();
    let mut lines = text.lines().filter(|line| !line.starts_with("//!"));
    while let Some(line) = lines.next() {
        if line.starts_with("#![") {
            // An attribute may have several lines.
            let mut last = line;
            while !last.ends_with(']') {
                last = lines.next().expect("an attribute ends");
            }
            continue;
        }
        root += &match line {
            // `root.rs` has one, with goroutines. An attribute of this line stays, and needs an item.
            "extern crate std;" => "use std as _;".to_string(),
            _ => with_path(line, source),
        };
        root.push('\n');
    }
    root
}

/// The line, with the path of its module if it declares one.
fn with_path(line: &str, source: &Path) -> String {
    let visible = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    let declared = visible.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
    let Some(name) = declared else { return line.to_string() };
    let files = [source.join(format!("{name}.rs")), source.join(name).join("mod.rs")];
    let path = files.iter().find(|path| path.exists()).expect("a module has a file");
    format!("#[path = {:?}]\n{line}", path.display().to_string())
}
