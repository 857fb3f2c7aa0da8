//! Closing a descriptor, and giving its number to another open file. What waits for it stays with the old
//! open file, as on threads: see `descriptor.rs`.
//!
//! These do their work on any thread, because goroutines may wait for what a thread closes.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering;

use super::caller::{ENABLED, Outcome, outcome, report};
use super::descriptor::Descriptor;
use super::real::Pair;
use crate::sched::block::hidden_function::Hidden;
use crate::sched::boot;
use crate::sys::syscall::syscall6;

/// Makes a call that closes `fd`, between what has to be done before and after.
fn closing(fd: c_int, call: impl FnOnce() -> Outcome<isize>) -> Outcome<isize> {
    let enabled = ENABLED.load(Ordering::Relaxed) && !boot::is_forked();
    let Some(descriptor) = Descriptor::existing(fd).filter(|_| enabled) else { return call() };
    descriptor.before_close(fd);
    let result = call();
    descriptor.after_close();
    result
}

pub(super) fn close(fd: c_int) -> Outcome<isize> {
    // SAFETY: no memory is passed.
    closing(fd, || outcome(unsafe { syscall6(libc::SYS_close, fd as usize, 0, 0, 0, 0, 0) }))
}

/// Closes a descriptor of our own.
pub(super) fn close_quietly(fd: c_int) {
    let _nothing_to_do_about_it = close(fd);
}

mod hooks {
    use super::*;

    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn close(fd: c_int) -> c_int {
        report(super::close(fd))
    }

    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
        // SAFETY: no memory is passed.
        let call = || outcome(unsafe { syscall6(libc::SYS_dup2, from as usize, to as usize, 0, 0, 0, 0) });
        report(if from == to { call() } else { closing(to, call) })
    }

    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        let flags = flags as usize;
        // SAFETY: no memory is passed.
        report(closing(to, || unsafe {
            outcome(syscall6(libc::SYS_dup3, from as usize, to as usize, flags, 0, 0, 0))
        }))
    }

    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        let enabled = ENABLED.load(Ordering::Relaxed) && !boot::is_forked();
        let all = Descriptor::known(first, last).filter(|_| enabled && flags == 0);
        all.clone().for_each(|(fd, descriptor)| descriptor.before_close(fd));
        // SAFETY: no memory is passed.
        let result = unsafe {
            syscall6(libc::SYS_close_range, first as usize, last as usize, flags as usize, 0, 0, 0)
        };
        all.for_each(|(_, descriptor)| descriptor.after_close());
        report(outcome(result))
    }

    static LIBCS: [Hidden; 4] =
        [Hidden::new(c"close"), Hidden::new(c"dup2"), Hidden::new(c"dup3"), Hidden::new(c"close_range")];

    pub(crate) const PAIRS: &[Pair] = &[
        Pair { name: c"close", ours: || close as *const () as usize, libcs: &LIBCS[0] },
        Pair { name: c"dup2", ours: || dup2 as *const () as usize, libcs: &LIBCS[1] },
        Pair { name: c"dup3", ours: || dup3 as *const () as usize, libcs: &LIBCS[2] },
        Pair { name: c"close_range", ours: || close_range as *const () as usize, libcs: &LIBCS[3] },
    ];
}

pub(super) use hooks::PAIRS;
