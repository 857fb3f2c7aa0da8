//! Writes a copy of the root of tiny_http's sources that can be included: with paths to its modules, and
//! without the attributes and the documentation of the whole crate. The conformance tests build the crate in
//! the same way, in a workspace that builds gort with other features.

#[path = "../../../../conformance/package_dir.rs"]
mod package_dir;

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    for file in ["build.rs", "../../../Cargo.lock", "../../../../conformance/package_dir.rs"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let source = package_dir::package_dir("tiny_http").join("src");
    let text = fs::read_to_string(source.join("lib.rs")).expect("a crate has a root");
    let mut root = String::new();
    for line in text.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#![")) {
        let declared = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        if let Some(name) = declared.and_then(|rest| rest.strip_suffix(';')) {
            let files = [source.join(format!("{name}.rs")), source.join(name).join("mod.rs")];
            let path = files.iter().find(|path| path.exists()).expect("a module has a file");
            root += &format!("#[path = {:?}]\n", path.display().to_string());
        }
        root += &format!("{line}\n");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("root.rs"), root).expect("OUT_DIR can be written to");
}
