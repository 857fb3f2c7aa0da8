//! Finds the sources of std in Debian's package rust-src, and writes for each of its socket tests a file with a module
//! whose body they are. Some tests are left out, and one line: see below. Without the package, a test that says
//! so takes their place.

use std::path::PathBuf;
use std::{env, fs};

/// What is left out: test, and why.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("udp", "debug", "looks into a private field of std's type"),
    ("unix", "test_send_vectored_fds_unix_stream", "SocketAncillary is unstable"),
    ("unix", "test_send_vectored_with_ancillary_to_unix_datagram", "SocketAncillary is unstable"),
    ("unix", "test_send_vectored_with_ancillary_unix_datagram", "SocketAncillary is unstable"),
];

const FILES: &[(&str, &str)] = &[
    ("tcp", "net/tcp/tests.rs"),
    ("udp", "net/udp/tests.rs"),
    ("unix", "os/unix/net/tests.rs"),
    ("test", "net/test.rs"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=/usr/src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let std = find_std();
    for (name, path) in FILES {
        let text = match &std {
            Some(std) => fs::read_to_string(std.join(path)).expect("the package contains std's tests"),
            None if *name == "test" => "pub fn next_test_ip4() {}\n".into(),
            None => SKIPPED.into(),
        };
        fs::write(out.join(format!("{name}-body.rs")), without_left_out(name, &text)).expect("OUT_DIR can be written to");
        let body = out.join(format!("{name}-body.rs"));
        let module = format!("#[path = {:?}]\npub mod body;\n", body.display().to_string());
        fs::write(out.join(format!("{name}.rs")), module).expect("OUT_DIR can be written to");
    }
}

const SKIPPED: &str = r#"
#[test]
fn skipped() {
    println!("skipped: std's sources are not here; Debian has them in the package rust-src");
}
"#;

/// `library/std/src` of the newest version there is.
fn find_std() -> Option<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir("/usr/src")
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("library/std/src"))
        .filter(|path| path.join("net/tcp/tests.rs").exists())
        .collect();
    all.sort();
    all.pop()
}

/// The text without the functions that are left out: from the attributes before each to the closing brace at the
/// beginning of a line.
fn without_left_out(file: &str, text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for (_, test, _) in LEFT_OUT.iter().filter(|(of, _, _)| *of == file) {
        let head = format!("fn {test}() {{");
        let Some(at) = lines.iter().position(|line| *line == head) else { continue };
        let start = (0..at).rev().find(|&i| !lines[i].starts_with("#[")).map_or(0, |i| i + 1);
        let length = lines[at..].iter().position(|line| *line == "}").expect("a function ends") + 1;
        lines.drain(start..at + length);
    }
    // A kind of error that one assertion allows, and that only std can name.
    lines.retain(|line| line.trim() != "|| e.kind() == ErrorKind::Uncategorized");
    lines.join("\n") + "\n"
}
