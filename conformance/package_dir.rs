//! Finds the directory into which cargo unpacked a crate. (Compiled with edition 2018, too.)

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the dependency `name` of the package that is being built. Of several versions, the one
/// that its manifest names must be the newest.
pub fn package_dir(name: &str) -> PathBuf {
    let output = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    // This workspace has packages with the names of the crates that they stand for: they have no source.
    let package = metadata["packages"]
        .as_array()
        .and_then(|packages| {
            packages.iter().rfind(|package| package["name"] == name && !package["source"].is_null())
        })
        .unwrap_or_else(|| panic!("{} is a dependency", name));
    let manifest = package["manifest_path"].as_str().expect("a path");
    Path::new(manifest).parent().expect("a directory").to_path_buf()
}
