//! pthread functions that pass the id in a thread's descriptor to the kernel.
//!
//! In a goroutine's block this id is a number of its own, which the kernel does not know (`tls/block.rs`). So
//! gort defines these few functions. The linker prefers a definition in the program to libc's, for Rust code,
//! for C code and for shared libraries. (If gort is part of a shared library that comes behind libc, it does
//! not: then blocks have the ids of the threads that run them, and locks take the goroutines of a thread for
//! one.) If a goroutine asks about itself, the id of the thread that it runs on is in place during the call.
//! Should a signal stop it meanwhile, it keeps that thread. All other calls are libc's: for ordinary threads,
//! and for another goroutine (libc answers ESRCH, as for a thread that has ended).
//!
//! PI mutexes cannot work: the kernel itself writes the owner's id into the lock. A goroutine that asks for
//! one gets ENOTSUP, as on systems that do not have them.

use std::ffi::{c_int, c_void};

use super::hidden_function::Hidden;
use super::thread_state;
use crate::sched::types::current::current;
use crate::sys::process;
use crate::tls;

/// Runs `f` with the kernel's id of the calling thread in the descriptor `thread`, if that is the calling
/// goroutine's.
fn as_own_thread<R>(thread: libc::pthread_t, f: impl FnOnce() -> R) -> R {
    let Some(g) = current().filter(|g| g.tp.get() != 0 && g.tp.get() == thread as usize) else { return f() };
    // SAFETY: we run on the block; the functions below take only locks that do not know their owner.
    unsafe { tls::block::with_kernel_id(g.tp.get(), f) }
}

/// Defines the functions that take a thread and further arguments.
macro_rules! define {
    ($($name:ident = $text:literal($($argument:ident: $type:ty),*);)*) => {
        /// libc's functions.
        #[allow(non_upper_case_globals, reason = "they have the names of the functions")]
        mod libcs {
            use super::Hidden;
            $(pub(super) static $name: Hidden = Hidden::new($text);)*
        }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(thread: libc::pthread_t $(, $argument: $type)*) -> c_int {
                type Function = unsafe extern "C" fn(libc::pthread_t $(, $type)*) -> c_int;
                if $text.to_bytes().starts_with(b"pthread_set") {
                    thread_state::changes_scheduling_of(thread);
                }
                as_own_thread(thread, || match libcs::$name.address() {
                    0 => libc::ENOSYS,
                    // SAFETY: libc's function has this type; the caller vouches for the arguments.
                    address => unsafe {
                        std::mem::transmute::<usize, Function>(address)(thread $(, $argument)*)
                    },
                })
            }
        )*

        /// Called once, at start-up. Looks libc's functions up, because the look-up takes the loader's lock;
        /// and names ours, so that the linker keeps them.
        pub(crate) fn init() {
            let ours = [$(($text, $name as *const () as usize)),*];
            std::hint::black_box(pthread_mutexattr_setprotocol as *const () as usize);
            let libcs = [$(&libcs::$name),*].map(Hidden::address);
            SET_PROTOCOL.address();
            let in_use = ours.iter().all(|&(name, address)| process::definition(name) == address);
            if !in_use || libcs.contains(&0) {
                tls::block::follow_threads();
            }
        }
    };
}

define! {
    pthread_getattr_np = c"pthread_getattr_np"(attributes: *mut c_void);
    pthread_getaffinity_np = c"pthread_getaffinity_np"(size: usize, set: *mut c_void);
    pthread_setaffinity_np = c"pthread_setaffinity_np"(size: usize, set: *const c_void);
    pthread_getschedparam = c"pthread_getschedparam"(policy: *mut c_int, parameters: *mut c_void);
    pthread_setschedparam = c"pthread_setschedparam"(policy: c_int, parameters: *const c_void);
    pthread_setschedprio = c"pthread_setschedprio"(priority: c_int);
    pthread_getcpuclockid = c"pthread_getcpuclockid"(clock: *mut c_int);
    pthread_sigqueue = c"pthread_sigqueue"(signal: c_int, value: usize);
}

static SET_PROTOCOL: Hidden = Hidden::new(c"pthread_mutexattr_setprotocol");

/// Refuses PI mutexes and those with a ceiling in goroutines.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_setprotocol(attributes: *mut c_void, protocol: c_int) -> c_int {
    if protocol != PTHREAD_PRIO_NONE && current().is_some_and(|g| g.tp.get() != 0) {
        return libc::ENOTSUP;
    }
    match SET_PROTOCOL.address() {
        0 => libc::ENOSYS,
        // SAFETY: libc's function has this type; the caller vouches for the arguments.
        address => unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, c_int) -> c_int>(address)(
                attributes, protocol,
            )
        },
    }
}

/// An ordinary mutex (pthread.h).
const PTHREAD_PRIO_NONE: c_int = 0;
