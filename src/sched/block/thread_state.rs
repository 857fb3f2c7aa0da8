//! What the kernel keeps for each thread, and a goroutine changes as if it were one: the mask of blocked
//! signals, the scheduling policy, priority, niceness and CPU affinity.
//!
//! Such state cannot move with the goroutine, and must not stay behind for others. So gort defines the
//! functions of libc that change it (as `thread_id.rs` does), and binds a goroutine that calls one to its
//! thread, as by lock_os_thread. When its signal mask is again what all Ms have, the goroutine is no longer
//! bound for that; for the other kinds it stays bound. If it ends bound, its thread ends with it, and so
//! does the state.
//!
//! The runtime's signal cannot be blocked in a goroutine: its bit is left out. A goroutine that computes
//! with all signals blocked is still preempted.
//!
//! The state of cancellation is in the goroutine's TLS block, and is reset at its end.
//!
//! System calls that bypass libc are not seen. If a thread does not react to the runtime's signal, sysmon
//! takes its P away (`monitor/preempt.rs`).

#[cfg(feature = "transparent")]
use std::cell::Cell;
use std::ffi::{c_int, c_void};

use super::hidden_function::Hidden;
use super::lock_os_thread;
use crate::arch;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sched::types::g::thread_state::{BINDING, CANCELLATION, LOADER, MASK, SCHEDULING};
use crate::sched::types::m::M;
use crate::sys::signal::{self, SIGURG};
use crate::sys::thread;

/// The calling goroutine, if the thread's state is its own to change: it runs user code, on its own stack,
/// in the process that started the runtime. (Otherwise this is a signal handler, or the child of a fork.)
fn caller() -> Option<&'static G> {
    // The goroutine may move to another M between the two numbers.
    let on_its_m = |g: &G| (0..3).any(|_| thread::tid() == g.m().tid());
    current()
        .filter(|g| g.in_runtime.get() == 0 && g.slot.stack().contains(&arch::stack_pointer()) && on_its_m(g))
}

/// Records that `g`, which runs on `m` and is inside the runtime, has changed that kind of state, and binds
/// it if necessary. False: it had changed that before.
fn keep_thread(g: &'static G, m: &'static M, kind: u8) -> bool {
    let before = g.thread_state.get();
    g.thread_state.set(before | kind);
    if kind & BINDING != 0 && before & BINDING == 0 {
        lock_os_thread::bind(g, m);
    }
    before & kind == 0
}

/// Undoes [`keep_thread`].
fn release_thread(g: &'static G, m: &'static M, kind: u8) {
    let after = g.thread_state.get() & !kind;
    g.thread_state.set(after);
    if kind & BINDING != 0 && after & BINDING == 0 {
        lock_os_thread::unbind(g, m);
    }
}

/// Called before the scheduling parameters of `thread` are changed.
pub(super) fn changes_scheduling_of(thread: libc::pthread_t) {
    if let Some(g) = caller().filter(|g| g.tp.get() == thread as usize) {
        runtime_section::on_own_m(g, |m| _ = keep_thread(g, m, SCHEDULING));
    }
}

/// The signals that libc uses itself. It does not let a program block them.
const LIBCS: u64 = (1 << 31) | (1 << 32);

#[cfg(feature = "transparent")]
thread_local! {
    /// Counts the changes of the mask of this thread, which runs no goroutines.
    static MASK_CHANGES: Cell<u32> = const { Cell::new(0) };
}

/// How often the mask of the calling thread, which runs no goroutines, was changed.
#[cfg(feature = "transparent")]
pub(crate) fn mask_changes() -> u32 {
    MASK_CHANGES.get()
}

/// Changes the mask as the kernel's call does. Returns an error number or 0.
fn change_mask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: libc's sets begin with the kernel's 64 bits, and the caller of libc's function passes a valid
    // one.
    let set = unsafe { set.cast::<u64>().as_ref() };
    let change = |not_blocked: u64| {
        let wanted = set.map(|&set| if how == libc::SIG_UNBLOCK { set } else { set & !not_blocked });
        let before = signal::change_mask(how, wanted.as_ref())?;
        if !old.is_null() {
            // SAFETY: as above; the caller wants the old set there.
            unsafe { old.cast::<u64>().write(before) };
        }
        Ok(())
    };
    let changed = match caller() {
        None => {
            #[cfg(feature = "transparent")]
            if set.is_some() {
                MASK_CHANGES.set(MASK_CHANGES.get().wrapping_add(1));
            }
            change(LIBCS)
        }
        // Nobody moves the goroutine between the change and the binding.
        Some(g) => runtime_section::on_own_m(g, |m| {
            change(LIBCS | 1 << (SIGURG - 1))?;
            let usual = m.signals.get().is_none_or(|usual| signal::blocked() == usual.blocked);
            match (usual, g.thread_state.get() & MASK != 0) {
                (true, true) => release_thread(g, m, MASK),
                (false, false) => _ = keep_thread(g, m, MASK),
                _ => {}
            }
            Ok(())
        }),
    };
    changed.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    change_mask(how, set, old)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    match change_mask(how, set, old) {
        0 => 0,
        error => {
            // SAFETY: libc's errno of the caller.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

/// What a function returns if libc does not have it: as the system calls fail.
fn not_there() -> c_int {
    // SAFETY: libc's errno of the caller.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

/// Whether `pid` means the calling thread to the kernel.
fn is_caller(pid: c_int) -> bool {
    pid == 0 || pid == thread::tid() as c_int
}

/// Defines functions that pass their arguments to libc's. If `$when` says that they change the calling
/// goroutine's own thread, it is bound first; and no longer bound if the call returns `$failed`.
macro_rules! define {
    ($($name:ident = $text:literal($($argument:ident: $type:ty),*)
        when $when:expr, $kind:ident, failed $failed:expr;)*) => {
        #[allow(non_upper_case_globals, reason = "they have the names of the functions")]
        mod libcs {
            use super::Hidden;
            $(pub(super) static $name: Hidden = Hidden::new($text);)*
            pub(super) static dl_iterate_phdr: Hidden = Hidden::new(c"dl_iterate_phdr");
        }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                type Function = unsafe extern "C" fn($($type),*) -> c_int;
                let caller = if $when { caller() } else { None };
                let newly = caller.filter(|g| runtime_section::on_own_m(g, |m| keep_thread(g, m, $kind)));
                let result = match libcs::$name.address() {
                    0 => not_there(),
                    // SAFETY: libc's function has this type; the caller vouches for the arguments.
                    address => unsafe { std::mem::transmute::<usize, Function>(address)($($argument),*) },
                };
                if let Some(g) = newly.filter(|_| Some(result) == $failed) {
                    runtime_section::on_own_m(g, |m| release_thread(g, m, $kind));
                }
                result
            }
        )*

        /// Called once, at start-up: looks libc's functions up, because the look-up takes the loader's
        /// lock, and names ours, so that the linker keeps them.
        pub(crate) fn init() {
            let ours = [$($name as *const () as usize,)* pthread_sigmask as *const () as usize,
                sigprocmask as *const () as usize, dl_iterate_phdr as *const () as usize];
            std::hint::black_box(ours);
            for function in [$(&libcs::$name,)* &libcs::dl_iterate_phdr] {
                function.address();
            }
        }
    };
}

define! {
    sched_setscheduler = c"sched_setscheduler"(pid: c_int, policy: c_int, parameters: *const c_void)
        when is_caller(pid), SCHEDULING, failed Some(-1);
    sched_setparam = c"sched_setparam"(pid: c_int, parameters: *const c_void)
        when is_caller(pid), SCHEDULING, failed Some(-1);
    sched_setaffinity = c"sched_setaffinity"(pid: c_int, size: usize, set: *const c_void)
        when is_caller(pid), SCHEDULING, failed Some(-1);
    setpriority = c"setpriority"(which: c_int, who: u32, value: c_int)
        when which == libc::PRIO_PROCESS as c_int && is_caller(who as c_int), SCHEDULING, failed Some(-1);
    // It may return -1 as the new niceness.
    nice = c"nice"(by: c_int) when true, SCHEDULING, failed None;
    pthread_setcancelstate = c"pthread_setcancelstate"(state: c_int, before: *mut c_int)
        when true, CANCELLATION, failed None;
    pthread_setcanceltype = c"pthread_setcanceltype"(kind: c_int, before: *mut c_int)
        when true, CANCELLATION, failed None;
}

type Callback = Option<unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int>;

/// Calls libc's function, which calls back with the loader's lock. A goroutine that a signal stops there
/// keeps its thread: starting an M may take a lock of the loader, too.
///
/// Not with ThreadSanitizer, which calls it before it is ready for instrumented code. It is not needed there:
/// under a sanitizer each goroutine that a signal stops keeps its thread.
#[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
unsafe extern "C" fn dl_iterate_phdr(callback: Callback, data: *mut c_void) -> c_int {
    type Function = unsafe extern "C" fn(Callback, *mut c_void) -> c_int;
    let call = || match libcs::dl_iterate_phdr.address() {
        0 => 0,
        // SAFETY: libc's function has this type; the caller vouches for the arguments.
        address => unsafe { std::mem::transmute::<usize, Function>(address)(callback, data) },
    };
    let Some(g) = current() else { return call() };
    let nested = g.thread_state.get() & LOADER;
    g.thread_state.set(g.thread_state.get() | LOADER);
    let result = call();
    g.thread_state.set(g.thread_state.get() & !LOADER | nested);
    result
}
