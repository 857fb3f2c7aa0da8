//! The build script of the packages that run crossbeam-channel's tests. For each test file of that crate it
//! writes a file that includes the original as a module, by its path in the directory into which cargo
//! unpacked the crate. Of a file that has tests of [`LEFT_OUT`], it includes a copy without them.

mod left_out;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The tests that are left out: file, test, and the reason.
const LEFT_OUT: &[(&str, &str, &str)] = &[(
    "array.rs",
    "panic_on_drop",
    "asserts that messages behind one whose drop panics are leaked; gort drops them, as Vec and VecDeque do",
)];

fn main() {
    println!("cargo:rerun-if-changed=../locate.rs");
    println!("cargo:rerun-if-changed=../left_out.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");
    println!("cargo:rustc-check-cfg=cfg(miri)");
    println!("cargo:rustc-check-cfg=cfg(crossbeam_sanitize)");
    let tests = package_dir("crossbeam-channel").join("tests");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for entry in fs::read_dir(&tests).expect("the crate ships its tests") {
        let file = entry.expect("a directory entry").path();
        let name = file.file_name().expect("a file");
        assert!(Path::new("tests").join(name).exists(), "tests/{} is missing here", name.display());
        let left_out = LEFT_OUT.iter().filter(|(of, _, _)| name == *of).map(|(_, test, _)| *test);
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

fn package_dir(name: &str) -> PathBuf {
    let output = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let package = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == name))
        .unwrap_or_else(|| panic!("{name} is a dependency"));
    let manifest = package["manifest_path"].as_str().expect("a path");
    Path::new(manifest).parent().expect("a directory").to_path_buf()
}
