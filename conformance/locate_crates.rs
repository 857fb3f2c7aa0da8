//! The build script of the package `crates`, which runs the tests of crates that wait by means of std. It
//! finds the crates in the directories into which cargo unpacked them. For each crate it writes a file that
//! includes copies of its test files as modules, without the tests of [`LEFT_OUT`].

mod left_out;
mod package_dir;

use std::path::{Path, PathBuf};
use std::{env, fs};

use package_dir::package_dir;

/// The crates and their files.
const FILES: &[(&str, &[&str])] = &[
    (
        "crossbeam-channel",
        &[
            "tests/after.rs",
            "tests/array.rs",
            "tests/golang.rs",
            "tests/iter.rs",
            "tests/list.rs",
            "tests/mpsc.rs",
            "tests/never.rs",
            "tests/ready.rs",
            "tests/same_channel.rs",
            "tests/select.rs",
            "tests/select_macro.rs",
            "tests/thread_locals.rs",
            "tests/tick.rs",
            "tests/zero.rs",
        ],
    ),
    (
        "crossbeam-utils",
        &[
            "tests/atomic_cell.rs",
            "tests/cache_padded.rs",
            "tests/parker.rs",
            "tests/sharded_lock.rs",
            "tests/thread.rs",
            "tests/wait_group.rs",
        ],
    ),
    (
        "flume",
        &[
            "tests/array.rs",
            "tests/basic.rs",
            "tests/check_same_channel.rs",
            "tests/iter.rs",
            "tests/list.rs",
            "tests/mpsc.rs",
            "tests/zero.rs",
        ],
    ),
    ("parking_lot", &["tests/issue_203.rs", "tests/issue_392.rs"]),
    (
        "tiny_http",
        &[
            "tests/input-tests.rs",
            "tests/network.rs",
            "tests/non-chunked-buffering.rs",
            "tests/promptness.rs",
            "tests/simple-test.rs",
            "tests/unblock-test.rs",
            "tests/unix-test.rs",
        ],
    ),
];

/// The tests that are left out: crate, file, test, and the reason.
const LEFT_OUT: &[(&str, &str, &str, &str)] =
    &[("crossbeam-utils", "tests/thread.rs", "as_pthread_t", "a goroutine has no pthread")];

fn main() {
    for file in ["locate_crates.rs", "left_out.rs", "package_dir.rs", "Cargo.lock"] {
        println!("cargo:rerun-if-changed=../{file}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (krate, files) in FILES {
        let directory = package_dir(krate);
        let mut modules = String::new();
        for file in *files {
            let name = file.replace(['/', '-'], "_");
            let copy = out.join(format!("{krate}-{name}"));
            fs::write(&copy, tests_of(krate, &directory, file)).expect("OUT_DIR can be written to");
            modules +=
                &format!("#[path = {:?}]\nmod {};\n", copy.display().to_string(), &name[..name.len() - 3]);
        }
        fs::write(out.join(format!("{krate}.rs")), modules).expect("OUT_DIR can be written to");
    }
}

/// The tests of a file, to be included as a module.
fn tests_of(krate: &str, directory: &Path, file: &str) -> String {
    let text = fs::read_to_string(directory.join(file)).expect("the crate ships its tests");
    let left_out = LEFT_OUT.iter().filter(|(of, at, _, _)| *of == krate && *at == file);
    let text = left_out::without(&text, left_out.map(|(_, _, test, _)| format!("fn {test}(")), false);
    let support = directory.join("tests/support/mod.rs");
    let lines = text.lines().map(|line| match line.trim() {
        // `extern crate` with macros can only stand in the root, where this package has it.
        "#[macro_use]" => String::new(),
        line if line.starts_with("extern crate") => String::new(),
        "mod support;" => format!("#[path = {:?}] mod support;", support.display().to_string()),
        _ => line.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}
