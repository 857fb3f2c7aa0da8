//! Thread-locals belong to the goroutine: fresh at its start, the same across yields and migrations,
//! destroyed at its end. `libc.rs` tests what libc keeps for each thread, `like_a_thread.rs` what std builds
//! on threads.

#[path = "../common/mod.rs"]
mod common;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use common::{Procs, amount, migrate, tid, until};

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(7) };
    static WORDS: RefCell<Vec<String>> = RefCell::new(vec!["first".into()]);
}

/// Tells TLS blocks apart, by the address of a thread-local.
fn block() -> usize {
    NUMBER.with(|number| std::ptr::from_ref(number).addr())
}

#[test]
fn every_goroutine_starts_with_fresh_values_even_on_a_used_block() {
    let mut blocks = HashSet::new();
    let mut reused = 0;
    for n in 0..amount(2_000, 100_000) as u64 {
        let block = gort::spawn(move || {
            assert_eq!(NUMBER.replace(n), 7);
            WORDS.with_borrow_mut(|words| {
                assert_eq!(*words, ["first"]);
                words.push(n.to_string());
            });
            gort::yield_now();
            assert_eq!(NUMBER.get(), n);
            WORDS.with_borrow(|words| assert_eq!(*words, ["first".to_string(), n.to_string()]));
            block()
        })
        .join()
        .unwrap();
        reused += usize::from(!blocks.insert(block));
    }
    assert!(reused > 0, "no block was used twice");
}

#[test]
fn a_panicking_goroutine_leaves_fresh_values_too() {
    for _ in 0..500 {
        let failed = gort::spawn(|| {
            assert_eq!(NUMBER.replace(1), 7);
            resume_unwind(Box::new(()));
        });
        assert!(failed.join().is_err());
        assert_eq!(gort::spawn(|| NUMBER.get()).join().unwrap(), 7);
    }
}

#[test]
fn threads_and_goroutines_do_not_see_each_others_values() {
    NUMBER.set(1);
    gort::run(|| {
        assert_eq!(NUMBER.replace(2), 7);
        std::thread::spawn(|| assert_eq!(NUMBER.replace(3), 7)).join().unwrap();
        gort::spawn(|| assert_eq!(NUMBER.replace(4), 7)).join().unwrap();
        assert_eq!(NUMBER.get(), 2);
    });
    assert_eq!(NUMBER.get(), 1);
}

#[test]
fn borrows_of_thread_locals_may_be_held_across_migrations() {
    let _procs = Procs::set(4);
    let moves = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..amount(60, 2_000) as u64)
        .map(|n| {
            let moves = moves.clone();
            gort::spawn(move || {
                WORDS.with(|words| {
                    let mut held = words.borrow_mut();
                    NUMBER.set(n);
                    for step in 0..5 {
                        held.push(format!("{n}/{step}"));
                        let before = tid();
                        migrate();
                        assert_ne!(before, tid());
                        moves.fetch_add(1, Ordering::Relaxed);
                        // No other goroutine can have borrowed or changed this cell.
                        assert!(words.try_borrow().is_err());
                        assert_eq!(held.len(), step + 2);
                        assert_eq!(held[step + 1], format!("{n}/{step}"));
                        assert_eq!(NUMBER.get(), n);
                    }
                });
                assert!(WORDS.with(|words| words.try_borrow_mut().is_ok()));
            })
        })
        .collect();
    let n = handles.len();
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(moves.load(Ordering::Relaxed), 5 * n);
}

#[test]
fn a_thread_local_keeps_its_address_across_migrations() {
    let _procs = Procs::set(2);
    gort::run(|| {
        let before = block();
        NUMBER.with(|number| {
            for n in 0..20 {
                number.set(n);
                migrate();
                assert_eq!(NUMBER.get(), n);
                assert_eq!(std::ptr::from_ref(number).addr(), block());
            }
        });
        assert_eq!(before, block());
    });
}

#[test]
fn thread_ids_are_the_goroutines_own_and_stable_across_migrations() {
    let _procs = Procs::set(4);
    let id = || std::thread::current().id();
    let mut ids: HashSet<ThreadId> = HashSet::from([id()]);
    // First one after the other, on used blocks; then many at once.
    for _ in 0..500 {
        assert!(ids.insert(gort::spawn(id).join().unwrap()));
    }
    let handles: Vec<_> = (0..100)
        .map(|_| {
            gort::spawn(move || {
                let (thread, first) = (std::thread::current(), id());
                migrate();
                assert_eq!((id(), thread.id()), (first, first));
                let of_thread = std::thread::spawn(id).join().unwrap();
                assert_ne!(of_thread, first);
                first
            })
        })
        .collect();
    for handle in handles {
        assert!(ids.insert(handle.join().unwrap()));
    }
}

/// Logs its drop.
struct Witness {
    what: &'static str,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.log.lock().unwrap().push(self.what);
    }
}

thread_local! {
    static FIRST: RefCell<Option<Witness>> = const { RefCell::new(None) };
    static SECOND: RefCell<Option<Witness>> = const { RefCell::new(None) };
    static THIRD: RefCell<Option<Witness>> = const { RefCell::new(None) };
}

fn set_witnesses(log: &Arc<Mutex<Vec<&'static str>>>) {
    let witness = |what| Some(Witness { what, log: log.clone() });
    FIRST.set(witness("first"));
    SECOND.set(witness("second"));
    THIRD.set(witness("third"));
}

#[test]
fn destructors_run_before_join_returns_in_the_order_of_threads() {
    let in_thread = Arc::new(Mutex::new(Vec::new()));
    let log = in_thread.clone();
    std::thread::spawn(move || set_witnesses(&log)).join().unwrap();
    let expected = in_thread.lock().unwrap().clone();
    assert_eq!(expected.len(), 3);

    for panics in [false, true] {
        for round in 0..300 {
            let log = Arc::new(Mutex::new(Vec::new()));
            let of_goroutine = log.clone();
            let handle = gort::spawn(move || {
                set_witnesses(&of_goroutine);
                of_goroutine.lock().unwrap().clear();
                if round % 2 == 0 {
                    gort::yield_now();
                }
                if panics {
                    resume_unwind(Box::new(()));
                }
            });
            assert_eq!(handle.join().is_err(), panics);
            assert_eq!(*log.lock().unwrap(), expected);
        }
    }
}

#[test]
fn destructors_of_detached_goroutines_run_too() {
    let log = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..100 {
        let log = log.clone();
        drop(gort::spawn(move || set_witnesses(&log)));
    }
    until("all destructors have run", || log.lock().unwrap().len() == 300);
}

#[test]
fn destructors_may_block_migrate_and_use_other_thread_locals() {
    thread_local! {
        static LATE: Late = const { Late(RefCell::new(None)) };
    }
    struct Late(RefCell<Option<Arc<AtomicUsize>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let count = self.0.take().unwrap();
            let id = gort::current().id();
            assert_ne!(id, 0);
            migrate();
            assert_eq!(gort::current().id(), id);
            // The thread-local was made anew or is still there: it is usable either way.
            assert_eq!(NUMBER.replace(8), 9);
            let inner = count.clone();
            gort::spawn(move || inner.fetch_add(1, Ordering::Relaxed)).join().unwrap();
            gort::scope(|s| {
                s.spawn(|| count.fetch_add(1, Ordering::Relaxed));
            });
            std::thread::sleep(std::time::Duration::from_micros(100));
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    let _procs = Procs::set(4);
    let count = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..50)
        .map(|_| {
            let count = count.clone();
            gort::spawn(move || {
                NUMBER.set(9);
                LATE.with(|late| late.0.replace(Some(count)));
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 150);
    assert_eq!(gort::spawn(|| NUMBER.get()).join().unwrap(), 7);
}

#[test]
fn a_result_dropped_by_its_goroutine_may_use_thread_locals_and_they_are_destroyed() {
    struct UsesLocals(Arc<Mutex<Vec<&'static str>>>);
    impl Drop for UsesLocals {
        fn drop(&mut self) {
            // These are the goroutine's own thread-locals, before and after their destructors ran.
            NUMBER.set(NUMBER.get() + 1);
            gort::yield_now();
            self.0.lock().unwrap().push("result");
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    for round in 1..=300 {
        let result = UsesLocals(log.clone());
        let go_on = Arc::new(AtomicBool::new(false));
        let seen = go_on.clone();
        let handle = gort::spawn(move || {
            set_witnesses(&result.0);
            if round % 3 == 0 {
                until("the handle is gone", || seen.load(Ordering::Acquire));
            }
            result
        });
        drop(handle);
        go_on.store(true, Ordering::Release);
        until("everything was dropped", || log.lock().unwrap().len() == 4 * round);
        assert_eq!(gort::spawn(|| NUMBER.get()).join().unwrap(), 7);
    }
}

#[test]
fn random_numbers_are_the_goroutines_own() {
    use rand::RngExt;
    let _procs = Procs::set(4);
    let handles: Vec<_> = (0..100)
        .map(|_| {
            gort::spawn(|| {
                let mut rng = rand::rng();
                let first: u64 = rng.random();
                gort::yield_now();
                let second: u64 = rng.random();
                migrate();
                let third: u64 = rand::rng().random();
                drop(rng);
                [first, second, third]
            })
        })
        .collect();
    let numbers: Vec<u64> = handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect();
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "a generator was shared");
}

#[test]
fn stacker_sees_the_goroutines_stack() {
    let _procs = Procs::set(4);
    for size in [64 << 10, 256 << 10, 4 << 20] {
        let remaining = gort::Builder::new()
            .stack_size(size)
            .spawn(move || {
                let before = stacker::remaining_stack().unwrap();
                migrate();
                let after = stacker::remaining_stack().unwrap();
                assert!(before.abs_diff(after) < 1_000, "{before} {after}");
                before
            })
            .unwrap()
            .join()
            .unwrap();
        // From the usual size on, a stack can grow.
        let most = if size < 256 << 10 { 4 * size } else { 70 << 20 };
        assert!(remaining > size - (8 << 10) && remaining < most, "{remaining} of {size}");
    }
}

#[test]
fn stacker_grows_the_stack_and_goroutines_may_stop_on_the_new_one() {
    fn deep(depth: u64) -> u64 {
        stacker::maybe_grow(32 << 10, 256 << 10, || {
            let frame = std::hint::black_box([depth; 128]);
            if depth == 0 {
                migrate();
                return 0;
            }
            if depth.is_multiple_of(512) {
                gort::yield_now();
                gort::spawn(|| ()).join().unwrap();
            }
            deep(depth - 1) + frame[100] / depth
        })
    }
    let _procs = Procs::set(4);
    let handles: Vec<_> = (0..8).map(|_| gort::spawn(|| deep(5_000))).collect();
    for handle in handles {
        assert_eq!(handle.join().unwrap(), 5_000);
    }
    let failed = gort::spawn(|| stacker::grow(64 << 10, || resume_unwind(Box::new("through both stacks"))));
    let payload: Box<dyn std::any::Any + Send> = failed.join().unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "through both stacks");
}

#[test]
fn all_of_the_stack_that_stacker_reports_can_be_used() {
    if !common::alone("all_of_the_stack_that_stacker_reports_can_be_used") {
        return;
    }
    #[inline(never)]
    fn down() -> usize {
        let frame = std::hint::black_box([1u8; 256]);
        let remaining = stacker::remaining_stack().unwrap();
        if remaining < 3 << 10 {
            return remaining + usize::from(frame[7]) - 1;
        }
        std::hint::black_box(down())
    }
    for size in [16 << 10, 100 << 10, 256 << 10] {
        let left = gort::Builder::new().stack_size(size).spawn(down).unwrap().join().unwrap();
        assert!(left < 3 << 10);
    }
}

/// Destructors of pthread keys run last, and may be the first to use a thread-local.
#[test]
fn thread_locals_that_a_keys_destructor_uses_are_destroyed_too() {
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    struct Late(Cell<u32>);
    impl Drop for Late {
        fn drop(&mut self) {
            DESTROYED.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local! {
        static LATE: Late = const { Late(Cell::new(0)) };
    }
    unsafe extern "C" fn at_end(_value: *mut std::ffi::c_void) {
        LATE.with(|late| assert_eq!(late.0.replace(1), 0, "somebody else's"));
    }
    let mut key = 0;
    // SAFETY: the destructor takes what the key holds.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(at_end)) }, 0);
    for n in 0..50 {
        gort::spawn(move || {
            // SAFETY: the key exists.
            assert_eq!(unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) }, 0);
        })
        .join()
        .unwrap();
        assert_eq!(DESTROYED.load(Ordering::Relaxed), n + 1);
    }
    // SAFETY: nothing uses it any more.
    unsafe { libc::pthread_key_delete(key) };
}
