//! The build script of the packages that run crossbeam-channel's tests. For each test file of that crate it
//! writes a file that includes the original as a module, by its path in the directory into which cargo
//! unpacked the crate. Of a file that has tests of [`LEFT_OUT`], it includes a copy without them.

mod left_out;
mod package_dir;

use std::path::{Path, PathBuf};
use std::{env, fs};

use package_dir::package_dir;

/// The tests that are left out: file, test, and the reason.
const LEFT_OUT: &[(&str, &str, &str)] = &[(
    "array.rs",
    "panic_on_drop",
    "asserts that messages behind one whose drop panics are leaked; gort drops them, as Vec and VecDeque do",
)];

fn main() {
    println!("cargo:rerun-if-changed=../locate.rs");
    println!("cargo:rerun-if-changed=../left_out.rs");
    println!("cargo:rerun-if-changed=../package_dir.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");
    println!("cargo:rustc-check-cfg=cfg(miri)");
    println!("cargo:rustc-check-cfg=cfg(crossbeam_sanitize)");
    let tests = package_dir("crossbeam-channel").join("tests");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for entry in fs::read_dir(&tests).expect("the crate ships its tests") {
        let file = entry.expect("a directory entry").path();
        let name = file.file_name().expect("a file");
        assert!(Path::new("tests").join(name).exists(), "tests/{} is missing here", name.display());
        let left_out = LEFT_OUT.iter().filter(|(of, _, _)| name == *of);
        let left_out = left_out.map(|(_, test, _)| format!("fn {test}("));
        let body = if left_out.clone().next().is_none() {
            file.clone()
        } else {
            let text = fs::read_to_string(&file).expect("a readable file");
            let copy = out.join(format!("without-left-out-{}", name.display()));
            fs::write(&copy, left_out::without(&text, left_out, false)).expect("OUT_DIR can be written to");
            copy
        };
        let module = format!("#[path = {:?}]\nmod body;\n", body.display().to_string());
        fs::write(out.join(name), module).expect("OUT_DIR can be written to");
    }
}
