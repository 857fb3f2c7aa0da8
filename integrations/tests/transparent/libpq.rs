//! libpq, PostgreSQL's client library in C, loaded with dlopen: it waits in poll and recv, which it finds in
//! the program, because the dynamic linker prefers the program's functions to libc's also for such a library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use libloading::Library;

use super::common::until;
use super::servers::Postgres;
use super::{MANY, client_of, results, server, until_few_threads};

/// Some functions of libpq.
struct Libpq {
    connect: extern "C" fn(*const c_char) -> *mut c_void,
    status: extern "C" fn(*const c_void) -> c_int,
    error: extern "C" fn(*const c_void) -> *const c_char,
    exec: extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
    rows: extern "C" fn(*const c_void) -> c_int,
    value: extern "C" fn(*const c_void, c_int, c_int) -> *const c_char,
    clear: extern "C" fn(*mut c_void),
    finish: extern "C" fn(*mut c_void),
}

impl Libpq {
    fn load() -> Option<&'static Libpq> {
        // SAFETY: the library's initialisers run; the functions have these types. It is never unloaded.
        unsafe {
            let library = match Library::new("libpq.so.5") {
                Ok(library) => Box::leak(Box::new(library)),
                Err(error) => {
                    println!("skipped: there is no libpq (Debian's package libpq5): {error}");
                    return None;
                }
            };
            Some(Box::leak(Box::new(Libpq {
                connect: *library.get(c"PQconnectdb").unwrap(),
                status: *library.get(c"PQstatus").unwrap(),
                error: *library.get(c"PQerrorMessage").unwrap(),
                exec: *library.get(c"PQexec").unwrap(),
                rows: *library.get(c"PQntuples").unwrap(),
                value: *library.get(c"PQgetvalue").unwrap(),
                clear: *library.get(c"PQclear").unwrap(),
                finish: *library.get(c"PQfinish").unwrap(),
            })))
        }
    }
}

struct Connection {
    libpq: &'static Libpq,
    connection: *mut c_void,
}

impl Connection {
    fn open(libpq: &'static Libpq, server: &str) -> Connection {
        let server = CString::new(server).unwrap();
        let connection = Connection { libpq, connection: (libpq.connect)(server.as_ptr()) };
        assert_eq!((libpq.status)(connection.connection), 0, "{}", connection.error());
        connection
    }

    fn error(&self) -> String {
        // SAFETY: a string of libpq's, valid until the next call.
        unsafe { CStr::from_ptr((self.libpq.error)(self.connection)) }.to_string_lossy().into_owned()
    }

    /// Runs a query that gives one row, and returns its first column.
    fn query(&self, query: &str) -> String {
        let query = CString::new(query).unwrap();
        let result = (self.libpq.exec)(self.connection, query.as_ptr());
        assert_eq!((self.libpq.rows)(result), 1, "{}", self.error());
        // SAFETY: a string in the result, which is cleared afterwards.
        let value = unsafe { CStr::from_ptr((self.libpq.value)(result, 0, 0)) }.to_str().unwrap().to_owned();
        (self.libpq.clear)(result);
        value
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        (self.libpq.finish)(self.connection);
    }
}

#[test]
fn a_c_library_that_waits_holds_no_threads() {
    if let Some(server) = server() {
        return wait_in_libpq(server);
    }
    if Libpq::load().is_none() {
        return;
    }
    let Some(server) = Postgres::start() else { return };
    client_of(&server.url(), "libpq::a_c_library_that_waits_holds_no_threads");
}

fn wait_in_libpq(server: String) {
    let _watchdog = super::enable();
    gort::run(move || {
        let libpq = Libpq::load().unwrap();
        let control = Connection::open(libpq, &server);
        control.query("SELECT pg_advisory_lock(1)");
        let waiting: Vec<_> = (0..MANY)
            .map(|n| {
                let server = server.clone();
                gort::spawn(move || {
                    let connection = Connection::open(libpq, &server);
                    let lock = format!("SELECT {n} * 2 FROM pg_advisory_lock_shared(1)");
                    let double: usize = connection.query(&lock).parse().unwrap();
                    let text = n.to_string().repeat(100_000);
                    assert!(connection.query(&format!("SELECT reverse(reverse('{text}'))")) == text);
                    double
                })
            })
            .collect();

        let ungranted = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        until("all wait for the lock", || control.query(ungranted) == MANY.to_string());
        until_few_threads("libpq", 0);
        control.query("SELECT pg_advisory_unlock(1)");
        for (n, double) in results(waiting).into_iter().enumerate() {
            assert_eq!(double, 2 * n);
        }
    });
}
