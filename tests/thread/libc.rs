//! What the C library keeps for each thread belongs to the goroutine: errno, locale, keys, stack bounds.

#[path = "../common/mod.rs"]
mod common;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use common::{Procs, amount, migrate, stack_bounds, until};

unsafe extern "C" {
    fn isalpha(c: c_int) -> c_int;
    fn toupper(c: c_int) -> c_int;
    fn strtod(text: *const c_char, end: *mut *mut c_char) -> f64;
    #[link_name = "__h_errno_location"]
    fn h_errno() -> *mut c_int;
}

fn errno() -> i32 {
    // SAFETY: errno has an address in every thread.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

#[test]
fn errno_stays_with_the_goroutine() {
    let _procs = Procs::set(4);
    let handles: Vec<_> = (1..=100)
        .map(|n| {
            gort::spawn(move || {
                assert_eq!(errno(), 0, "a new goroutine starts without an error");
                set_errno(n);
                migrate();
                assert_eq!(errno(), n);
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(n));
                gort::spawn(|| assert_eq!(errno(), 0)).join().unwrap();
                assert_eq!(errno(), n);
                // SAFETY: as for errno.
                unsafe {
                    assert_eq!(*h_errno(), 0);
                    *h_errno() = n;
                    migrate();
                    assert_eq!(*h_errno(), n);
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
}

#[test]
fn a_locale_stays_with_the_goroutine() {
    let _procs = Procs::set(4);
    let global = || {
        // SAFETY: a null argument only asks.
        unsafe { libc::uselocale(ptr::null_mut()) }.addr()
    };
    let of_threads = std::thread::spawn(global).join().unwrap();
    let handles: Vec<_> = (0..50)
        .map(|_| {
            gort::spawn(move || {
                assert_eq!(global(), of_threads, "a new goroutine starts with the global locale");
                // SAFETY: the locale is made, used and, when no longer in use, freed by this goroutine alone.
                unsafe {
                    let own = libc::newlocale(libc::LC_ALL_MASK, c"C.UTF-8".as_ptr(), ptr::null_mut());
                    assert!(!own.is_null());
                    libc::uselocale(own);
                    migrate();
                    assert_eq!(libc::uselocale(ptr::null_mut()), own);
                    let codeset = CStr::from_ptr(libc::nl_langinfo(libc::CODESET));
                    assert_eq!(codeset, c"UTF-8");
                    gort::spawn(move || assert_eq!(global(), of_threads)).join().unwrap();
                    assert_eq!(libc::uselocale(ptr::null_mut()), own);
                    // The locale stays in use: the next goroutine on this block must not see it.
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    for _ in 0..100 {
        assert_eq!(gort::spawn(global).join().unwrap(), of_threads);
    }
}

#[test]
fn functions_that_depend_on_the_locale_work() {
    let _procs = Procs::set(4);
    let check = || {
        // SAFETY: plain functions of values and C strings.
        unsafe {
            assert!(isalpha(c_int::from(b'x')) != 0 && isalpha(c_int::from(b'1')) == 0);
            assert_eq!(toupper(c_int::from(b'g')), c_int::from(b'G'));
            assert_eq!(strtod(c"2.5".as_ptr(), ptr::null_mut()), 2.5);
        }
    };
    for _ in 0..20 {
        gort::spawn(move || {
            check();
            migrate();
            check();
        })
        .join()
        .unwrap();
    }
}

#[test]
fn pthread_getattr_np_tells_the_goroutines_stack() {
    let _procs = Procs::set(4);
    for wanted in [16 << 10, 256 << 10, 1 << 20] {
        gort::Builder::new()
            .stack_size(wanted)
            .spawn(move || {
                let (start, size) = stack_bounds();
                let here = ptr::from_ref(&std::hint::black_box(0u8)).addr();
                assert!((start..start + size).contains(&here));
                assert!(size >= wanted, "{size} of {wanted}");
                migrate();
                assert_eq!(stack_bounds(), (start, size));
            })
            .unwrap()
            .join()
            .unwrap();
    }
}

#[test]
fn pthread_self_is_the_goroutine() {
    let _procs = Procs::set(4);
    const ALL: usize = 50;
    let here = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..ALL)
        .map(|_| {
            let here = here.clone();
            gort::spawn(move || {
                // SAFETY: no preconditions.
                let own = unsafe { libc::pthread_self() };
                migrate();
                // SAFETY: as above.
                assert_eq!(own, unsafe { libc::pthread_self() });
                // The next goroutine gets the block of one that has ended: so none ends before all have
                // theirs.
                here.fetch_add(1, Ordering::AcqRel);
                until("all goroutines have asked", || here.load(Ordering::Acquire) == ALL);
                own
            })
        })
        .collect();
    let mut all: Vec<_> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), ALL, "two goroutines were the same pthread");
}

/// A pthread key.
fn new_key(destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> libc::pthread_key_t {
    let mut key = 0;
    // SAFETY: writes the key.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, destructor) }, 0);
    key
}

fn set_key(key: libc::pthread_key_t, value: usize) {
    // SAFETY: the key exists; values are never dereferenced.
    assert_eq!(unsafe { libc::pthread_setspecific(key, ptr::without_provenance(value)) }, 0);
}

fn get_key(key: libc::pthread_key_t) -> usize {
    // SAFETY: any key may be asked for.
    unsafe { libc::pthread_getspecific(key) }.addr()
}

#[test]
fn values_of_pthread_keys_are_the_goroutines_own_and_destroyed_before_join() {
    static SUM: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn add(value: *mut c_void) {
        SUM.fetch_add(value.addr(), Ordering::Relaxed);
    }
    let _procs = Procs::set(4);
    let (with, without) = (new_key(Some(add)), new_key(None));
    let mut expected = 0;
    for round in 1..=100 {
        let handle = gort::spawn(move || {
            assert_eq!((get_key(with), get_key(without)), (0, 0));
            set_key(with, round);
            set_key(without, 1_000_000);
            migrate();
            assert_eq!((get_key(with), get_key(without)), (round, 1_000_000));
        });
        handle.join().unwrap();
        expected += round;
        assert_eq!(SUM.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn there_may_be_hundreds_of_pthread_keys() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn count(_: *mut c_void) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    let keys: Arc<Vec<_>> = Arc::new((0..300).map(|_| new_key(Some(count))).collect());
    for round in 1..=50 {
        let keys = keys.clone();
        gort::spawn(move || {
            for (n, key) in keys.iter().enumerate() {
                assert_eq!(get_key(*key), 0);
                set_key(*key, n + 1);
            }
        })
        .join()
        .unwrap();
        assert_eq!(COUNT.load(Ordering::Relaxed), 300 * round);
    }
    for key in keys.iter() {
        // SAFETY: no goroutine uses it any more.
        unsafe { libc::pthread_key_delete(*key) };
    }
}

#[test]
fn a_destructor_that_sets_its_key_again_is_repeated_but_not_for_ever() {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn again(value: *mut c_void) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        set_key(KEY.get().copied().unwrap(), value.addr());
    }
    let key = *KEY.get_or_init(|| new_key(Some(again)));
    for _ in 0..100 {
        let before = CALLS.load(Ordering::Relaxed);
        gort::spawn(move || {
            assert_eq!(get_key(key), 0, "the last goroutine's value is still there");
            set_key(key, 5);
        })
        .join()
        .unwrap();
        // Before `join` returns, at least as often as POSIX says, and not endlessly.
        let calls = CALLS.load(Ordering::Relaxed) - before;
        assert!((4..=8).contains(&calls), "{calls}");
    }
}

#[test]
fn the_value_of_a_deleted_key_is_not_destroyed_by_its_successors_destructor() {
    static WRONG: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn never(_: *mut c_void) {
        WRONG.fetch_add(1, Ordering::Relaxed);
    }
    for _ in 0..50 {
        gort::spawn(|| {
            let old = new_key(None);
            set_key(old, 1);
            // SAFETY: only this goroutine uses it.
            unsafe { libc::pthread_key_delete(old) };
            // The C library gives the same number to the next key.
            let new = new_key(Some(never));
            assert_eq!(get_key(new), 0);
            new
        })
        .join()
        .map(|key| {
            assert_eq!(gort::spawn(move || get_key(key)).join().unwrap(), 0);
            // SAFETY: nothing uses it any more.
            unsafe { libc::pthread_key_delete(key) }
        })
        .unwrap();
    }
    assert_eq!(WRONG.load(Ordering::Relaxed), 0);
}

#[test]
fn errors_are_not_seen_by_the_next_goroutine() {
    for _ in 0..100 {
        gort::spawn(|| {
            assert_eq!(errno(), 0);
            set_errno(7);
            // SAFETY: as for errno.
            unsafe {
                assert_eq!(*h_errno(), 0);
                *h_errno() = 7;
            }
            // SAFETY: opening a library that does not exist; asking for the error.
            unsafe {
                assert!(libc::dlerror().is_null(), "the last goroutine's error is still there");
                assert!(libc::dlopen(c"/there/is/no/such.so".as_ptr(), libc::RTLD_NOW).is_null());
            }
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_goroutine_may_fork() {
    let _procs = Procs::set(4);
    let handles: Vec<_> = (0..amount(20, 500))
        .map(|n| {
            gort::spawn(move || {
                if n % 2 == 0 {
                    migrate();
                }
                let text = format!("goroutine {n}");
                // SAFETY: the child does only what a child of a process with threads may do, and ends.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(i32::from(text.len() > 3) * 40 + 2) };
                }
                assert!(pid > 0);
                let mut status = 0;
                // SAFETY: our own child.
                assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                assert!(libc::WIFEXITED(status));
                assert_eq!(libc::WEXITSTATUS(status), 42);
                assert_eq!(text, format!("goroutine {n}"));
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
}

#[test]
fn user_and_group_ids_can_be_set_while_goroutines_run() {
    let _procs = Procs::set(4);
    // To the ids that the process has: every process may.
    // SAFETY: plain calls.
    let set = || unsafe { (libc::setgid(libc::getgid()), libc::setuid(libc::getuid())) };
    let stop = Arc::new(AtomicBool::new(false));
    let others = [
        |stop: &AtomicBool| while !stop.load(Ordering::Relaxed) {},
        |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                gort::yield_now()
            }
        },
        |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        },
    ];
    let others: Vec<_> = others
        .into_iter()
        .map(|run| {
            let stop = stop.clone();
            gort::spawn(move || run(&stop))
        })
        .collect();
    let callers: Vec<_> = (0..4)
        .map(|_| {
            gort::spawn(move || {
                for _ in 0..amount(50, 1000) {
                    assert_eq!(set(), (0, 0));
                    gort::yield_now();
                }
            })
        })
        .collect();
    (0..amount(50, 1000)).for_each(|_| assert_eq!(set(), (0, 0)));
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn an_ordinary_mutex_of_c_may_be_held_across_migrations() {
    let _procs = Procs::set(4);
    struct Shared(std::cell::UnsafeCell<libc::pthread_mutex_t>, AtomicUsize);
    // SAFETY: the mutex is made for this.
    unsafe impl Sync for Shared {}
    let shared = &Shared(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), AtomicUsize::new(0));
    gort::scope(|s| {
        for _ in 0..10 {
            s.spawn(move || {
                let shared: &Shared = shared;
                // SAFETY: initialised, and outlives all users.
                unsafe { assert_eq!(libc::pthread_mutex_lock(shared.0.get()), 0) };
                let before = shared.1.fetch_add(1, Ordering::Relaxed);
                migrate();
                assert_eq!(shared.1.load(Ordering::Relaxed), before + 1);
                // SAFETY: held by us.
                unsafe { assert_eq!(libc::pthread_mutex_unlock(shared.0.get()), 0) };
            });
        }
    });
}

/// The runtime's threads do not exist in the child. The child is told so, instead of waiting for them.
#[test]
fn a_forked_child_that_uses_the_runtime_is_told_that_it_cannot() {
    if !common::alone("a_forked_child_that_uses_the_runtime_is_told_that_it_cannot") {
        return;
    }
    gort::run(|| ());
    // SAFETY: no other thread of this process allocates or prints now.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        std::panic::set_hook(Box::new(|_| ()));
        let refused = std::panic::catch_unwind(|| gort::run(|| ())).unwrap_err();
        let text = refused.downcast::<&str>().unwrap();
        // SAFETY: ends the child.
        unsafe { libc::_exit(if text.contains("forked") { 42 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 42));
    gort::run(|| ());
}

/// A library that needs a large signal stack replaces a thread's if that is too small. gort goes on to use
/// its own, so it makes it large enough.
#[test]
fn signal_stacks_are_large_enough_for_others() {
    let size = gort::spawn(|| {
        // SAFETY: fills in the record.
        unsafe {
            let mut stack: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(ptr::null(), &mut stack), 0);
            stack.ss_size
        }
    });
    assert!(size.join().unwrap() >= 256 << 10);
}
