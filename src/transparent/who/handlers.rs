//! The program's signal handlers. A handler must not stop the goroutine that it interrupted: the code may
//! hold a lock of libc, and the thread would go on with other goroutines while it blocks signals.
//!
//! Handlers with SA_ONSTACK run on the signal stack of the M, so their stack pointer tells. Handlers without
//! it run on the goroutine's stack: there, the blocked signals tell, because the kernel blocks a signal while
//! its handler runs. (With SA_NODEFER it does not. Then a wait in the handler stops the goroutine, as it
//! would block a thread.) To ask for them is a system call, so gort defines the functions that install
//! handlers, and asks only if there has been a handler of that kind.
//!
//! A thread that runs no goroutines may block signals by itself: libraries' threads often block all. What it
//! blocks outside of handlers is learnt when it waits on a futex, which no handler may do: no function that
//! locks is async-signal-safe (`place.rs`).

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sched::block::hidden_function::Hidden;
use crate::sched::run::runtime_section;
use crate::sched::types::g::{G, thread_state};
use crate::sys::signal;
use crate::transparent::calls::real::Pair;

/// The signals that have, or had, a handler of the program; bit 0 is signal 1.
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// Those of them whose handler runs on the stack of the interrupted code.
static ON_ANY_STACK: AtomicU64 = AtomicU64::new(0);

/// Called before a handler is installed.
fn add(signal: c_int, handler: usize, flags: c_int) {
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN || !(1..=64).contains(&signal) {
        return;
    }
    // SeqCst, so that the handler, which comes later, finds its bits set.
    HANDLED.fetch_or(1 << (signal - 1), Ordering::SeqCst);
    if flags & libc::SA_ONSTACK == 0 {
        ON_ANY_STACK.fetch_or(1 << (signal - 1), Ordering::SeqCst);
    }
}

/// Adds the handlers that are there already.
pub(in crate::transparent) fn add_installed() {
    for signal in 1..=libc::SIGRTMAX() {
        if let Some((handler, flags)) = signal::programs_handler(signal) {
            add(signal, handler, flags);
        }
    }
}

/// Whether the caller, which runs on the stack of `g`, is a signal handler.
#[inline]
pub(in crate::transparent) fn is_on_stack_of(g: &'static G) -> bool {
    let signals = ON_ANY_STACK.load(Ordering::Relaxed);
    signals != 0 && blocks_any(g, signals)
}

#[cold]
fn blocks_any(g: &'static G, signals: u64) -> bool {
    // Not if the goroutine has a mask of its own.
    g.thread_state.get() & thread_state::MASK == 0
        && runtime_section::on_own_m(g, |m| {
            m.signals.get().is_some_and(|usual| signal::blocked() & !usual.blocked & signals != 0)
        })
}

/// The signals of faults. A fault is the interrupted instruction's own, and none of the runtime's fault but
/// that which reads a futex word, under a lock of which its thread knows. So a handler of these, as std's
/// own, does not count on foreign threads.
const FAULTS: u64 =
    1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGFPE - 1) | 1 << (libc::SIGILL - 1);

/// Whether the calling thread, which is foreign, may be in a signal handler: it blocks a signal that has one,
/// and `usually` (the signals that it blocks outside of handlers, if that is known) does not have it.
pub(in crate::transparent) fn may_be_on_thread(usually: Option<u64>) -> bool {
    let signals = HANDLED.load(Ordering::Relaxed) & !FAULTS;
    signals != 0 && signal::blocked() & signals & !usually.unwrap_or(0) != 0
}

/// Defines functions that install handlers: `$handler` and `$flags` of `$signal` from their arguments.
macro_rules! define {
    ($(fn $name:ident = $text:literal($($argument:ident: $type:ty),*) -> $result:ty,
        |$signal:ident| $handler:expr, $flags:expr, failed $failed:expr;)*) => {
        #[allow(non_upper_case_globals, reason = "they have the names of the functions")]
        mod libcs {
            use super::Hidden;
            $(pub(in crate::transparent) static $name: Hidden = Hidden::new($text);)*
        }

        $(
            #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                add($signal, $handler, $flags);
                match libcs::$name.address() {
                    0 => $failed,
                    // SAFETY: libc's function has this type; the caller vouches for the arguments.
                    address => unsafe { std::mem::transmute::<usize, Function>(address)($($argument),*) },
                }
            }
        )*

        /// The functions of this file.
        pub(in crate::transparent) static PAIRS: &[Pair] = &[$(Pair {
            name: $text,
            ours: || $name as *const () as usize,
            libcs: &libcs::$name,
        }),*];
    };
}

/// Handler and flags of an action, if there is one.
fn parts(action: *const libc::sigaction) -> (usize, c_int) {
    // SAFETY: the caller of libc's function passes a valid one, or null.
    unsafe { action.as_ref() }.map_or((libc::SIG_DFL, 0), |action| (action.sa_sigaction, action.sa_flags))
}

define! {
    fn sigaction = c"sigaction"(
        number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction
    ) -> c_int, |number| parts(new).0, parts(new).1, failed -1;
    fn signal = c"signal"(number: c_int, handler: usize) -> usize,
        |number| handler, 0, failed libc::SIG_ERR;
    fn bsd_signal = c"bsd_signal"(number: c_int, handler: usize) -> usize,
        |number| handler, 0, failed libc::SIG_ERR;
    fn sysv_signal = c"sysv_signal"(number: c_int, handler: usize) -> usize,
        |number| handler, 0, failed libc::SIG_ERR;
    fn __sysv_signal = c"__sysv_signal"(number: c_int, handler: usize) -> usize,
        |number| handler, 0, failed libc::SIG_ERR;
    fn sigset = c"sigset"(number: c_int, handler: usize) -> usize,
        |number| handler, 0, failed libc::SIG_ERR;
}
