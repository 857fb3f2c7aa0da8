//! Locks of the C library that know their owner: to them, each goroutine is a thread of its own.

#[path = "../common/mod.rs"]
mod common;

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Procs, TempDir, amount, join_all, migrate, until};

/// A place for a C object that is used by many goroutines at once.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: only libc uses what is inside, and it synchronises.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above. None of the objects is moved while it is in use.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> *mut T {
        self.0.get()
    }
}

fn mutex(kind: c_int) -> Arc<Shared<libc::pthread_mutex_t>> {
    // SAFETY: the calls initialise what they are given.
    unsafe {
        let mutex = Arc::new(Shared(UnsafeCell::new(std::mem::zeroed())));
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_mutexattr_settype(&mut attributes, kind), 0);
        assert_eq!(libc::pthread_mutex_init(mutex.get(), &attributes), 0);
        mutex
    }
}

fn rwlock() -> Arc<Shared<libc::pthread_rwlock_t>> {
    Arc::new(Shared(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)))
}

/// Waits long enough for others to run on this thread, and to come to another one.
fn wait(n: usize) {
    match n % 4 {
        0 => gort::yield_now(),
        1 => gort::sleep(Duration::from_micros(50)),
        2 => migrate(),
        _ => {}
    }
}

#[test]
fn a_recursive_mutex_excludes_goroutines_and_counts_for_its_owner() {
    let _procs = Procs::set(4);
    let mutex = mutex(libc::PTHREAD_MUTEX_RECURSIVE);
    let inside = Arc::new(AtomicUsize::new(0));
    let rounds = amount(20, 1_000);
    join_all((0..200).map(|number| {
        let (mutex, inside) = (mutex.clone(), inside.clone());
        gort::spawn(move || {
            for round in 0..rounds {
                // SAFETY: the mutex is initialised and outlives all goroutines.
                unsafe { assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0) };
                assert_eq!(inside.swap(number + 1, Ordering::Relaxed), 0, "two goroutines are inside");
                if round % 8 == 0 {
                    wait(number + round);
                }
                // SAFETY: as above; it is ours.
                unsafe {
                    assert_eq!(libc::pthread_mutex_trylock(mutex.get()), 0, "it is ours wherever we run");
                    assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0);
                }
                assert_eq!(inside.swap(0, Ordering::Relaxed), number + 1);
                // SAFETY: as above.
                unsafe { assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0) };
            }
        })
    }));
}

#[test]
fn an_error_checking_mutex_tells_goroutines_apart() {
    let _procs = Procs::set(2);
    let mutex = mutex(libc::PTHREAD_MUTEX_ERRORCHECK);
    gort::run(|| {
        // SAFETY: the mutex is initialised.
        unsafe {
            assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0);
            migrate();
            assert_eq!(libc::pthread_mutex_lock(mutex.get()), libc::EDEADLK);
            let other = mutex.clone();
            let seen = gort::spawn(move || {
                [libc::pthread_mutex_unlock(other.get()), libc::pthread_mutex_trylock(other.get())]
            });
            assert_eq!(seen.join().unwrap(), [libc::EPERM, libc::EBUSY]);
            assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0);
        }
    });
}

#[test]
fn an_rwlock_is_held_across_waits_and_migrations() {
    let _procs = Procs::set(4);
    let lock = rwlock();
    let (readers, writers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let rounds = amount(20, 1_000);
    join_all((0..300).map(|number| {
        let (lock, readers, writers) = (lock.clone(), readers.clone(), writers.clone());
        gort::spawn(move || {
            for round in 0..rounds {
                if (number + round) % 5 == 0 {
                    // SAFETY: the lock is initialised and outlives all goroutines.
                    unsafe { assert_eq!(libc::pthread_rwlock_wrlock(lock.get()), 0) };
                    assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0);
                    assert_eq!(readers.load(Ordering::SeqCst), 0);
                    // SAFETY: as above.
                    let again = unsafe { libc::pthread_rwlock_wrlock(lock.get()) };
                    assert_eq!(again, libc::EDEADLK, "the owner is recognised");
                    if round % 8 == 0 {
                        wait(number + round);
                    }
                    writers.fetch_sub(1, Ordering::SeqCst);
                } else {
                    // SAFETY: as above.
                    unsafe { assert_eq!(libc::pthread_rwlock_rdlock(lock.get()), 0) };
                    readers.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0);
                    if round % 8 == 0 {
                        wait(number + round);
                    }
                    readers.fetch_sub(1, Ordering::SeqCst);
                }
                // SAFETY: as above.
                unsafe { assert_eq!(libc::pthread_rwlock_unlock(lock.get()), 0) };
            }
        })
    }));
}

/// What happens inside the callback of `dl_iterate_phdr`, where the loader's lock is held.
unsafe extern "C" fn call(_: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `inside_the_loader` passes a pointer to the reference.
    unsafe { (*data.cast::<&mut dyn FnMut()>())() };
    1
}

fn inside_the_loader(mut f: impl FnMut()) {
    let mut f: &mut dyn FnMut() = &mut f;
    // SAFETY: the callback has the right type and gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut f).cast()) };
}

#[test]
fn a_goroutine_may_wait_inside_the_loader_while_others_start_and_block() {
    if !common::alone("a_goroutine_may_wait_inside_the_loader_while_others_start_and_block") {
        return;
    }
    let _procs = Procs::set(2);
    let (open, gate) = gort::chan::bounded::<()>(0);
    let is_inside = Arc::new(AtomicBool::new(false));
    let (seen, blocked) = (is_inside.clone(), Arc::new(AtomicUsize::new(0)));
    let waits = gort::spawn(move || {
        inside_the_loader(|| {
            seen.store(true, Ordering::Release);
            assert!(gate.recv().is_err());
        });
    });
    until("one is inside", || is_inside.load(Ordering::Acquire));
    // New stacks, new blocks of thread-locals, and new threads for calls that block.
    let others: Vec<_> = (0..200)
        .map(|number| {
            let blocked = blocked.clone();
            gort::spawn(move || {
                if number % 4 == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                blocked.fetch_add(1, Ordering::Relaxed);
                vec![number; 100].len()
            })
        })
        .collect();
    assert_eq!(others.into_iter().map(|other| other.join().unwrap()).sum::<usize>(), 20_000);
    assert_eq!(blocked.load(Ordering::Relaxed), 200);
    // Others wait for the loader's lock as threads do, and hold up nobody else.
    let entered = Arc::new(AtomicUsize::new(0));
    let more: Vec<_> = (0..8)
        .map(|_| {
            let entered = entered.clone();
            gort::spawn(move || inside_the_loader(|| _ = entered.fetch_add(1, Ordering::Relaxed)))
        })
        .collect();
    gort::spawn(|| gort::sleep(Duration::from_millis(5))).join().unwrap();
    assert_eq!(entered.load(Ordering::Relaxed), 0, "the loader's lock excludes goroutines");
    drop(open);
    waits.join().unwrap();
    more.into_iter().for_each(|one| one.join().unwrap());
    assert_eq!(entered.load(Ordering::Relaxed), 8);
}

#[test]
fn hundreds_wait_inside_the_loader_one_after_the_other() {
    let _procs = Procs::set(4);
    let inside = Arc::new(AtomicUsize::new(0));
    join_all((0..amount(100, 500)).map(|number| {
        let inside = inside.clone();
        gort::spawn(move || {
            inside_the_loader(|| {
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two are inside");
                wait(number);
                // The lock is recursive.
                inside_the_loader(|| wait(number + 1));
                inside.fetch_sub(1, Ordering::Relaxed);
            });
        })
    }));
}

#[test]
fn a_goroutine_can_ask_the_kernel_about_its_thread() {
    let _procs = Procs::set(2);
    gort::run(|| {
        // Setting something binds a goroutine to its thread, so each round has one of its own.
        let ask = || {
            migrate();
            // SAFETY: queries about the calling thread, and setting what is set already.
            unsafe {
                let own = libc::pthread_self();
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                let size = size_of_val(&set);
                assert_eq!(libc::pthread_getaffinity_np(own, size, &mut set), 0);
                assert!(libc::CPU_COUNT(&set) > 0);
                assert_eq!(libc::pthread_setaffinity_np(own, size, &set), 0);
                let (mut policy, mut parameters) = (-1, libc::sched_param { sched_priority: -1 });
                assert_eq!(libc::pthread_getschedparam(own, &mut policy, &mut parameters), 0);
                assert_eq!((policy, parameters.sched_priority), (libc::SCHED_OTHER, 0));
                assert_eq!(libc::pthread_setschedparam(own, policy, &parameters), 0);
                assert_eq!(libc::pthread_setschedprio(own, 0), 0);
                let (mut clock, mut time) = (0, std::mem::zeroed());
                assert_eq!(libc::pthread_getcpuclockid(own, &mut clock), 0);
                assert_eq!(libc::clock_gettime(clock, &mut time), 0);
                assert_eq!(libc::pthread_kill(own, 0), 0);
            }
        };
        (0..20).for_each(|_| gort::spawn(ask).join().unwrap());
    });
}

#[test]
fn signals_reach_the_goroutine_that_raises_them() {
    unsafe extern "C" {
        fn pthread_sigqueue(thread: libc::pthread_t, signal: c_int, value: usize) -> c_int;
    }
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn on_signal(_: c_int) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
    let _procs = Procs::set(2);
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGUSR2, on_signal as *const () as libc::sighandler_t) };
    gort::run(|| {
        for round in 1..=10 {
            // SAFETY: the signal has a handler.
            unsafe {
                assert_eq!(libc::raise(libc::SIGUSR2), 0);
                assert_eq!(libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2), 0);
                assert_eq!(pthread_sigqueue(libc::pthread_self(), libc::SIGUSR2, 1), 0);
            }
            assert_eq!(SEEN.load(Ordering::Relaxed), 3 * round);
            migrate();
        }
    });
}

#[test]
fn a_mutex_that_inherits_priorities_is_refused_in_goroutines_only() {
    unsafe extern "C" {
        fn pthread_mutexattr_setprotocol(
            attributes: *mut libc::pthread_mutexattr_t,
            protocol: c_int,
        ) -> c_int;
    }
    const PTHREAD_PRIO_INHERIT: c_int = 1;
    let ask = |protocol| {
        // SAFETY: the attributes are initialised.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
            pthread_mutexattr_setprotocol(&mut attributes, protocol)
        }
    };
    assert_eq!(ask(PTHREAD_PRIO_INHERIT), 0);
    gort::run(|| {
        assert_eq!(ask(0), 0);
        assert_eq!(ask(PTHREAD_PRIO_INHERIT), libc::ENOTSUP);
    });
}

/// C++ code with a `std::shared_mutex`, and functions to lock it.
const SHARED_MUTEX: &str = r#"
    #include <shared_mutex>
    static std::shared_mutex mutex;
    extern "C" {
        void lock() { mutex.lock(); }
        int try_lock() { return mutex.try_lock(); }
        void unlock() { mutex.unlock(); }
        void lock_shared() { mutex.lock_shared(); }
        int try_lock_shared() { return mutex.try_lock_shared(); }
        void unlock_shared() { mutex.unlock_shared(); }
    }
"#;

#[test]
fn a_shared_mutex_of_cpp_is_held_across_waits_and_migrations() {
    let dir = TempDir::new();
    let (source, library) = (dir.path().join("lock.cpp"), dir.path().join("lock.so"));
    std::fs::write(&source, SHARED_MUTEX).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    match compiler.status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: there is no compiler for C++ (Debian's package g++)");
            return;
        }
        status => assert!(status.unwrap().success()),
    }
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: our own library; what it initialises does nothing else.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    let function = |name: &CStr| {
        // SAFETY: the library has these functions. Those without a result leave any number in its register.
        unsafe {
            let symbol = libc::dlsym(handle, name.as_ptr());
            assert!(!symbol.is_null());
            std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol)
        }
    };
    let (lock, unlock) = (function(c"lock"), function(c"unlock"));
    let (lock_shared, unlock_shared) = (function(c"lock_shared"), function(c"unlock_shared"));
    let (try_lock, try_lock_shared) = (function(c"try_lock"), function(c"try_lock_shared"));

    let _procs = Procs::set(4);
    // A goroutine that comes back on another thread is still the one that holds it.
    gort::run(|| {
        lock();
        migrate();
        let others = gort::spawn(move || [try_lock(), try_lock_shared()]);
        assert_eq!(others.join().unwrap(), [0, 0]);
        unlock();
        assert_eq!(gort::spawn(move || (try_lock(), unlock()).0).join().unwrap(), 1);
    });
    let (readers, writers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let rounds = amount(20, 1_000);
    join_all((0..300).map(|number| {
        let (readers, writers) = (readers.clone(), writers.clone());
        gort::spawn(move || {
            for round in 0..rounds {
                let writes = (number + round) % 5 == 0;
                if writes {
                    lock();
                    assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0);
                    assert_eq!(readers.load(Ordering::SeqCst), 0);
                } else {
                    lock_shared();
                    readers.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0);
                }
                if round % 8 == 0 {
                    wait(number + round);
                }
                if writes {
                    writers.fetch_sub(1, Ordering::SeqCst);
                    unlock();
                } else {
                    readers.fetch_sub(1, Ordering::SeqCst);
                    unlock_shared();
                }
            }
        })
    }));
}

/// The limit that the guide names: to a goroutine a robust mutex is an ordinary one.
#[test]
fn a_robust_mutex_excludes_but_does_not_notice_that_a_goroutine_ended() {
    let _procs = Procs::set(4);
    // SAFETY: the calls initialise what they are given.
    let mutex = unsafe {
        let mutex = Arc::new(Shared(UnsafeCell::new(std::mem::zeroed())));
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST), 0);
        assert_eq!(libc::pthread_mutex_init(mutex.get(), &attributes), 0);
        mutex
    };
    let inside = Arc::new(AtomicUsize::new(0));
    let rounds = amount(20, 1_000);
    join_all((0..200).map(|number| {
        let (mutex, inside) = (mutex.clone(), inside.clone());
        gort::spawn(move || {
            for round in 0..rounds {
                // SAFETY: the mutex is initialised and outlives all goroutines.
                unsafe { assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0) };
                assert_eq!(inside.swap(number + 1, Ordering::Relaxed), 0, "two goroutines are inside");
                if round % 8 == 0 {
                    wait(number + round);
                }
                assert_eq!(inside.swap(0, Ordering::Relaxed), number + 1);
                // SAFETY: as above; it is ours.
                unsafe { assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0) };
            }
        })
    }));
    // On threads, the next one would get EOWNERDEAD.
    let ends = mutex.clone();
    // SAFETY: as above.
    assert_eq!(gort::spawn(move || unsafe { libc::pthread_mutex_lock(ends.get()) }).join().unwrap(), 0);
    // SAFETY: as above.
    let next = gort::spawn(move || unsafe { libc::pthread_mutex_trylock(mutex.get()) });
    assert_eq!(next.join().unwrap(), libc::EBUSY);
}

#[test]
fn a_goroutine_that_is_no_more_is_not_found() {
    // SAFETY: a goroutine's descriptor is never unmapped.
    let other = gort::spawn(|| unsafe { libc::pthread_self() } as usize).join().unwrap();
    // SAFETY: as above; no signal is sent.
    assert_eq!(unsafe { libc::pthread_kill(other as libc::pthread_t, 0) }, libc::ESRCH);
}
