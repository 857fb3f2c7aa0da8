//! The build script of the packages that run std's own tests. It finds the sources of std in Debian's package
//! rust-src. For each of std's test files it writes a copy, without the tests of [`LEFT_OUT`] and one other
//! line, and a file that includes the copy as a module. Without the package, it writes a test that only
//! reports that it was skipped.

mod left_out;

use std::path::PathBuf;
use std::{env, fs};

/// The tests that are left out: package, file, test, and the reason.
const LEFT_OUT: &[(&str, &str, &str, &str)] = &[
    ("std-net", "udp", "debug", "looks into a private field of std's type"),
    ("std-net", "unix", "test_send_vectored_fds_unix_stream", "SocketAncillary is unstable"),
    ("std-net", "unix", "test_send_vectored_with_ancillary_to_unix_datagram", "SocketAncillary is unstable"),
    ("std-net", "unix", "test_send_vectored_with_ancillary_unix_datagram", "SocketAncillary is unstable"),
    ("std-thread", "tcp", "linger", "unstable"),
    ("std-thread", "udp", "debug", "looks into a private field of std's type"),
    ("std-thread", "unix", "test_send_vectored_fds_unix_stream", "SocketAncillary is unstable"),
    (
        "std-thread",
        "unix",
        "test_send_vectored_with_ancillary_to_unix_datagram",
        "SocketAncillary is unstable",
    ),
    ("std-thread", "unix", "test_send_vectored_with_ancillary_unix_datagram", "SocketAncillary is unstable"),
    ("std-thread", "unix", "test_unix_stream_peek", "peek is unstable"),
    ("std-thread", "unix", "test_unix_datagram_peek", "peek is unstable"),
    ("std-thread", "unix", "test_unix_datagram_peek_from", "peek_from is unstable"),
    ("std-thread", "fs", "dir_entry_debug", "looks into a private field of std's type"),
    ("std-thread", "fs", "open_flavors", "expects an error message that std has changed since"),
    ("std-thread", "fs", "metadata_access_times", "names an error kind that is private to std"),
    ("std-thread", "thread", "test_invalid_named_thread", "a goroutine's name is no C string: it allows NUL"),
    ("std-thread", "once_lock", "get_or_try_init", "unstable, and uses a private method of std's type"),
    ("std-thread", "once_lock", "sync_once_cell_get_unchecked", "a private method of std's type"),
    ("std-sync", "once_lock", "get_or_try_init", "uses a private method of std's type"),
    ("std-sync", "once_lock", "sync_once_cell_get_unchecked", "a private method of std's type"),
    ("std-sync", "once_lock", "dropck", "needs may_dangle, which is unstable"),
    ("std-sync", "mutex", "test_into_inner_poison", POISON),
    ("std-sync", "mutex", "test_get_mut_poison", POISON),
    ("std-sync", "mutex", "test_arc_condvar_poison", POISON),
    ("std-sync", "mutex", "test_mutex_arc_poison", POISON),
    ("std-sync", "rwlock", "test_rw_arc_poison_wr", POISON),
    ("std-sync", "rwlock", "test_rw_arc_poison_ww", POISON),
    ("std-sync", "rwlock", "test_into_inner_poison", POISON),
    ("std-sync", "rwlock", "test_get_mut_poison", POISON),
    ("std-sync", "once", "poison_bad", POISON),
    ("std-sync", "once", "wait_for_force_to_finish", POISON),
    ("std-sync", "lazy_lock", "lazy_poisoning", "a test of LazyCell, which is std's"),
];

const POISON: &str = "gort's locks are not poisoned by a panic";

/// std's test files: the name in this repository, and the path below std's `src`.
const FILES: &[(&str, &str)] = &[
    ("barrier", "sync/barrier/tests.rs"),
    ("condvar", "sync/condvar/tests.rs"),
    ("lazy_lock", "sync/lazy_lock/tests.rs"),
    ("mpsc", "sync/mpsc/tests.rs"),
    ("mpsc_sync", "sync/mpsc/sync_tests.rs"),
    ("mutex", "sync/mutex/tests.rs"),
    ("once", "sync/once/tests.rs"),
    ("once_lock", "sync/once_lock/tests.rs"),
    ("rwlock", "sync/rwlock/tests.rs"),
    ("thread", "thread/tests.rs"),
    ("thread_local", "thread/local/tests.rs"),
    ("thread_local_dynamic", "thread/local/dynamic_tests.rs"),
    ("fs", "fs/tests.rs"),
    ("process", "process/tests.rs"),
    ("process_unix", "sys/unix/process/process_unix/tests.rs"),
    ("tcp", "net/tcp/tests.rs"),
    ("udp", "net/udp/tests.rs"),
    ("unix", "os/unix/net/tests.rs"),
    ("test", "net/test.rs"),
];

fn main() {
    println!("cargo:rerun-if-changed=../locate_std.rs");
    println!("cargo:rerun-if-changed=../left_out.rs");
    println!("cargo:rerun-if-changed=/usr/src");
    let package = env::var("CARGO_PKG_NAME").expect("cargo sets it");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let std = find_std();
    for (name, path) in FILES {
        let text = match &std {
            Some(std) => fs::read_to_string(std.join(path)).expect("the package contains std's tests"),
            None if *name == "test" => "pub fn next_test_ip4() {}\n".into(),
            None => SKIPPED.into(),
        };
        let body = out.join(format!("{name}-body.rs"));
        fs::write(&body, without_left_out(&package, name, &text)).expect("OUT_DIR can be written to");
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

/// `library/std/src` of the newest installed version.
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

fn without_left_out(package: &str, file: &str, text: &str) -> String {
    let tests = LEFT_OUT.iter().filter(|(to, of, _, _)| *to == package && *of == file);
    // Without Debian's package there are no tests to leave out.
    let text = left_out::without(text, tests.map(|(_, _, test, _)| format!("fn {test}(")), true);
    // One assertion allows an error kind that only std itself can name.
    let kept = text.lines().filter(|line| line.trim() != "|| e.kind() == ErrorKind::Uncategorized");
    kept.collect::<Vec<_>>().join("\n") + "\n"
}
