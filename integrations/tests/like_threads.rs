//! Crates that need much stack, or C locks that know their owner: in goroutines they work as on threads.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, ffi};

/// Runs `f` in a goroutine whose stack is the usual one, and in the main goroutine.
fn in_goroutines(f: fn()) {
    gort::spawn(f).join().unwrap();
    gort::run(f);
}

#[test]
fn flate2_round_trips() {
    in_goroutines(|| {
        let text: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&text).unwrap();
        let packed = packed.finish().unwrap();
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert!(packed.len() < text.len() && unpacked == text);
    });
}

#[test]
fn syn_parses_what_is_deeply_nested() {
    in_goroutines(|| {
        let text = format!("{}1{}", "(".repeat(200), ")".repeat(200));
        let mut expression = syn::parse_str::<syn::Expr>(&text).unwrap();
        let mut depth = 0;
        while let syn::Expr::Paren(inner) = expression {
            (expression, depth) = (*inner.expr, depth + 1);
        }
        assert_eq!(depth, 200);
    });
}

#[test]
fn rhai_recurses() {
    in_goroutines(|| {
        let mut engine = rhai::Engine::new();
        engine.set_max_call_levels(2_000);
        let sum = engine.eval::<i64>("fn f(n) { if n == 0 { 0 } else { 1 + f(n - 1) } } f(1000)");
        assert_eq!(sum.unwrap(), 1_000);
    });
}

#[test]
fn sqlite_evaluates_what_is_deeply_nested() {
    in_goroutines(|| {
        let database = Connection::open_in_memory().unwrap();
        let query = format!("SELECT {}-1{}", "abs(".repeat(300), ")".repeat(300));
        assert_eq!(database.query_row(&query, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    });
}

/// SQLite holds a recursive mutex while it calls the function, and the function waits.
#[test]
fn goroutines_share_a_connection_of_sqlite_whose_function_waits() {
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let flags = OpenFlags::SQLITE_OPEN_FULL_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let database = Connection::open_in_memory_with_flags(flags).unwrap();
    let wait = |_: &rusqlite::functions::Context<'_>| {
        assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0, "two goroutines are inside the mutex");
        gort::sleep(Duration::from_micros(200));
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        CALLS.fetch_add(1, Ordering::SeqCst);
        Ok(1i64)
    };
    database.create_scalar_function("wait", 0, FunctionFlags::SQLITE_UTF8, wait).unwrap();
    // SAFETY: the connection outlives the goroutines.
    let handle = unsafe { database.handle() } as usize;
    let handles: Vec<_> = (0..50)
        .map(|_| {
            gort::spawn(move || {
                for _ in 0..5 {
                    let (database, none) = (handle as *mut ffi::sqlite3, std::ptr::null_mut());
                    // SAFETY: FULL_MUTEX makes SQLite serialise all calls on the connection.
                    let result = unsafe {
                        ffi::sqlite3_exec(database, c"SELECT wait()".as_ptr(), None, none, none.cast())
                    };
                    assert_eq!(result, ffi::SQLITE_OK);
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(CALLS.load(Ordering::SeqCst), 250);
}

/// findshlibs calls the closure while it holds the loader's lock.
#[test]
fn goroutines_wait_while_they_list_the_loaded_libraries() {
    use findshlibs::{SharedLibrary, TargetSharedLibrary};
    let inside = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..20)
        .map(|_| {
            let inside = inside.clone();
            gort::spawn(move || {
                let mut count = 0;
                TargetSharedLibrary::each(|_| {
                    assert_eq!(
                        inside.fetch_add(1, Ordering::SeqCst),
                        0,
                        "two goroutines are inside the loader"
                    );
                    gort::sleep(Duration::from_micros(100));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    count += 1;
                });
                count
            })
        })
        .collect();
    assert!(handles.into_iter().all(|handle| handle.join().unwrap() > 1));
}
