//! Thread-locals of libraries that are loaded while goroutines run.

#[path = "../common/mod.rs"]
mod common;

use std::ffi::{CStr, CString, c_int, c_void};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Procs, TempDir, amount, migrate, status_bytes, until};

/// A C library that was compiled for a test and loaded.
struct Library {
    handle: *mut c_void,
    _dir: TempDir,
}

impl Library {
    fn load(source: &str, flags: &[&str]) -> Library {
        let dir = TempDir::new();
        let (c, so) = (dir.path().join("lib.c"), dir.path().join("lib.so"));
        std::fs::write(&c, source).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1"]).args(flags).arg("-o").arg(&so).arg(&c);
        assert!(cc.status().unwrap().success());
        let path = CString::new(so.to_str().unwrap()).unwrap();
        // SAFETY: our own library; its constructors do nothing.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Library { handle, _dir: dir }
    }

    /// The function of that name, of type `int f(int)`.
    fn function(&self, name: &CStr) -> extern "C" fn(c_int) -> c_int {
        // SAFETY: the libraries of these tests have only functions of that type.
        unsafe {
            let symbol = libc::dlsym(self.handle, name.as_ptr());
            assert!(!symbol.is_null());
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(symbol)
        }
    }
}

const COUNTERS: &str = r#"
    static __thread int counter = 5;
    static __thread char large[20000];
    int add(int n) { large[n] += 1; return counter += n; }
    int use(int n) { for (int i = 0; i < 20000; i += 1000) large[i] += n; return large[0]; }
"#;

#[test]
fn thread_locals_of_a_loaded_library_are_the_goroutines_own() {
    let _procs = Procs::set(4);
    // TLS blocks that are older than the library.
    let before: Vec<_> = (0..50).map(|_| gort::spawn(gort::yield_now)).collect();
    let go_on = Arc::new(AtomicBool::new(false));
    let seen = go_on.clone();
    let living = gort::spawn(move || {
        until("the library is loaded", || seen.load(Ordering::Acquire));
    });
    for handle in before {
        handle.join().unwrap();
    }
    let library = Library::load(COUNTERS, &[]);
    go_on.store(true, Ordering::Release);
    living.join().unwrap();
    let (add, uses) = (library.function(c"add"), library.function(c"use"));
    for round in 0..amount(10, 200) {
        let handles: Vec<_> = (1..=50)
            .map(|n| {
                gort::spawn(move || {
                    assert_eq!(add(0), 5, "round {round}");
                    add(n);
                    assert_eq!(uses(1), 2);
                    migrate();
                    assert_eq!(add(1), 5 + n + 1);
                    assert_eq!(uses(1), 3);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    }
}

#[test]
fn a_goroutine_that_exists_can_use_a_library_loaded_later() {
    let _procs = Procs::set(4);
    gort::run(|| {
        let others: Vec<_> = (0..20).map(|_| gort::spawn(migrate)).collect();
        let library = Library::load(COUNTERS, &[]);
        let add = library.function(c"add");
        assert_eq!(add(1), 6);
        migrate();
        assert_eq!(add(1), 7);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(gort::spawn(move || add(1)).join().unwrap(), 6);
        // SAFETY: nothing calls it any more.
        assert_eq!(unsafe { libc::dlclose(library.handle) }, 0);
        assert_eq!(gort::spawn(|| 1).join().unwrap(), 1);
        let again = Library::load(COUNTERS, &[]);
        assert_eq!(again.function(c"add")(1), 6);
    });
}

#[test]
fn thread_locals_of_a_loaded_library_do_not_leak() {
    if !common::alone("thread_locals_of_a_loaded_library_do_not_leak") {
        return;
    }
    let library = Library::load(COUNTERS, &[]);
    let uses = library.function(c"use");
    let rounds = |n: usize| {
        for _ in 0..n {
            let handles: Vec<_> = (0..10).map(|_| gort::spawn(move || uses(1))).collect();
            for handle in handles {
                assert_eq!(handle.join().unwrap(), 1);
            }
        }
    };
    rounds(50);
    let before = status_bytes("VmRSS");
    rounds(amount(300, 10_000));
    let growth = status_bytes("VmRSS").saturating_sub(before);
    // Each goroutine used 20 kB, which would be 60 MB if they leaked.
    assert!(growth < 4 << 20, "{growth}");
}

/// A library with this number of bytes of static thread-locals.
fn load_static(bytes: usize) -> Library {
    let source = format!(
        "static __thread int counter = 5;
         static __thread char some[{bytes}];
         int add(int n) {{ for (int i = 0; i < {bytes}; i++) some[i] += n; return counter += n; }}"
    );
    Library::load(&source, &["-ftls-model=initial-exec"])
}

#[test]
fn a_loaded_library_may_have_static_thread_locals() {
    if !common::alone("a_loaded_library_may_have_static_thread_locals") {
        return;
    }
    gort::run(|| {});
    let library = load_static(100);
    let add = library.function(c"add");
    // Goroutines that wait keep the old blocks, so new goroutines get new ones.
    let (open, gate) = gort::chan::bounded::<()>(0);
    let others: Vec<_> = (0..100)
        .map(|_| {
            let gate = gate.clone();
            gort::spawn(move || assert!(gate.recv().is_err()))
        })
        .collect();
    for _ in 0..20 {
        let handles: Vec<_> = (0..100)
            .map(|n| {
                gort::spawn(move || {
                    let id = gort::current().id();
                    let first = add(n);
                    gort::yield_now();
                    assert_eq!(add(1), first + 1);
                    assert_eq!(gort::current().id(), id);
                    first - n
                })
            })
            .collect();
        for handle in handles {
            // Zero on a block that is older than the library.
            assert!([0, 5].contains(&handle.join().unwrap()));
        }
    }
    drop(open);
    for other in others {
        other.join().unwrap();
    }
}

#[test]
fn too_many_static_thread_locals_of_a_loaded_library_are_an_error() {
    if !common::alone("too_many_static_thread_locals_of_a_loaded_library_are_an_error") {
        return;
    }
    gort::run(|| {});
    let _library = load_static(600);
    let mut handles = Vec::new();
    let (open, gate) = gort::chan::bounded::<()>(0);
    let error = loop {
        let gate = gate.clone();
        match gort::Builder::new().spawn(move || assert!(gate.recv().is_err())) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
        assert!(handles.len() < 10_000, "nobody noticed");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("static thread-local storage"), "{error}");
    // The goroutines that exist go on.
    drop(open);
    for handle in handles {
        handle.join().unwrap();
    }
}

/// A library whose indirect functions are resolved slowly: the loader calls the resolver while the library is
/// loaded, with its locks held. Without these locks no thread can be started.
const SLOW_RESOLVER: &str = r#"
    static int three(int n) { return n + 3; }
    static int (*resolve(void))(int) {
        for (volatile long i = 0; i < 40000000; i++) {}
        return three;
    }
    int add_three(int n) __attribute__((ifunc("resolve")));
    int call(int n) { return add_three(n); }
"#;

#[test]
fn a_goroutine_that_is_preempted_in_a_resolver_keeps_its_thread() {
    let _procs = Procs::set(2);
    let dir = TempDir::new();
    let paths: Vec<CString> = (0..4)
        .map(|n| {
            let (c, so) = (dir.path().join("lib.c"), dir.path().join(format!("lib{n}.so")));
            std::fs::write(&c, SLOW_RESOLVER).unwrap();
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&so).arg(&c);
            assert!(cc.status().unwrap().success());
            CString::new(so.to_str().unwrap()).unwrap()
        })
        .collect();
    let paths = Arc::new(paths);
    // More than there are Ms: all of them wait for the loader's locks, one holds them and is preempted, and
    // it must run all the same.
    let all: Vec<_> = (0..60)
        .map(|n| {
            let paths = Arc::clone(&paths);
            gort::spawn(move || {
                // SAFETY: our own library; its constructors do nothing.
                let handle = unsafe { libc::dlopen(paths[n % paths.len()].as_ptr(), libc::RTLD_NOW) };
                assert!(!handle.is_null());
                gort::yield_now();
            })
        })
        .collect();
    for handle in all {
        handle.join().unwrap();
    }
}
