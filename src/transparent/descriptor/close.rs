//! Closing a descriptor, and giving its number to another open file. What waits for it stays with the old
//! open file, as on threads: see `mod.rs`.
//!
//! These do their work on any thread, because goroutines may wait for what a thread closes. They stay safe in
//! signal handlers: if nothing waits for the number and epoll does not watch it, only a flag is read. In a
//! handler that may have interrupted the runtime they take no lock: what waits for the number then fails with
//! EBADF, and the housekeeper wakes it.

use std::ffi::{c_int, c_uint};

use super::record::Descriptor;
use super::trust;
use crate::sched::block::hidden_function::Hidden;
use crate::sched::types::current::current;
use crate::sys::syscall::syscall6;
use crate::transparent::calls::real::{Pair, Real};
use crate::transparent::futex::late;
use crate::transparent::who::caller::{Outcome, of_libc, outcome, report};
use crate::transparent::who::enabled;
use crate::transparent::who::place::Place;

/// Whether the caller may take locks of the runtime.
fn may_lock() -> bool {
    matches!(Place::own(), Place::Outside | Place::Marked)
}

fn before_close((fd, descriptor): (c_int, &'static Descriptor)) {
    if descriptor.is_in_use() {
        if may_lock() {
            descriptor.before_close(fd);
        } else {
            descriptor.outdate();
        }
    }
}

fn after_close((_, descriptor): (c_int, &'static Descriptor)) {
    descriptor.forget();
    if descriptor.has_users_to_wake() {
        if may_lock() {
            descriptor.wake_users();
        } else {
            late::wake_users();
        }
    }
}

/// Makes a call that closes `fd`, between what has to be done before and after.
fn closing(fd: c_int, call: impl FnOnce() -> Outcome<isize>) -> Outcome<isize> {
    let Some(descriptor) = Descriptor::existing(fd).filter(|_| enabled::is_on()) else { return call() };
    before_close((fd, descriptor));
    let result = call();
    after_close((fd, descriptor));
    result
}

/// libc's function.
static CLOSE: Real<unsafe extern "C" fn(c_int) -> c_int> = Real::new(c"close", "close");

pub(in crate::transparent) fn close(fd: c_int) -> Outcome<isize> {
    closing(fd, || match current() {
        // SAFETY: no memory is passed.
        Some(_) => outcome(unsafe { syscall6(libc::SYS_close, fd as usize, 0, 0, 0, 0, 0) }),
        // On a thread, it is a cancellation point.
        // SAFETY: no memory is passed.
        None => of_libc(unsafe { (CLOSE.get())(fd) } as isize),
    })
}

pub(in crate::transparent) fn dup2(from: c_int, to: c_int) -> Outcome<isize> {
    // SAFETY: no memory is passed.
    let call = || outcome(unsafe { syscall6(libc::SYS_dup2, from as usize, to as usize, 0, 0, 0, 0) });
    if from == to { call() } else { duplicating(to, call) }
}

/// Makes a call that gives the number `to` to the open file of another one.
fn duplicating(to: c_int, call: impl FnOnce() -> Outcome<isize>) -> Outcome<isize> {
    let result = closing(to, call);
    if result.is_ok() && enabled::is_on() {
        trust::is_duplicate(to);
    }
    result
}

pub(in crate::transparent) fn dup3(from: c_int, to: c_int, flags: c_int) -> Outcome<isize> {
    let flags = flags as usize;
    // SAFETY: no memory is passed.
    let call = || outcome(unsafe { syscall6(libc::SYS_dup3, from as usize, to as usize, flags, 0, 0, 0) });
    duplicating(to, call)
}

pub(in crate::transparent) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Outcome<isize> {
    let all = Descriptor::known(first, last).filter(|_| enabled::is_on() && flags == 0);
    all.clone().for_each(before_close);
    // SAFETY: no memory is passed.
    let result =
        unsafe { syscall6(libc::SYS_close_range, first as usize, last as usize, flags as usize, 0, 0, 0) };
    all.for_each(after_close);
    outcome(result)
}

/// Closes a descriptor of our own.
pub(in crate::transparent) fn close_quietly(fd: c_int) {
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
        report(super::dup2(from, to))
    }

    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        report(super::dup3(from, to, flags))
    }

    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        report(super::close_range(first, last, flags))
    }

    /// Where the kernel does not have close_range, libc's closes one number after the other.
    #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
    unsafe extern "C" fn closefrom(first: c_int) {
        type Function = unsafe extern "C" fn(c_int);
        if super::close_range(first.max(0) as c_uint, c_uint::MAX, 0) != Err(libc::ENOSYS) {
            return;
        }
        match LIBCS[3].address() {
            0 => {}
            // SAFETY: libc's function has this type; the caller vouches for the argument.
            address => unsafe { std::mem::transmute::<usize, Function>(address)(first) },
        }
    }

    static LIBCS: [Hidden; 4] =
        [Hidden::new(c"dup2"), Hidden::new(c"dup3"), Hidden::new(c"close_range"), Hidden::new(c"closefrom")];

    pub(crate) static PAIRS: &[Pair] = &[
        Pair { name: c"close", ours: || close as *const () as usize, libcs: &CLOSE.hidden },
        Pair { name: c"dup2", ours: || dup2 as *const () as usize, libcs: &LIBCS[0] },
        Pair { name: c"dup3", ours: || dup3 as *const () as usize, libcs: &LIBCS[1] },
        Pair { name: c"close_range", ours: || close_range as *const () as usize, libcs: &LIBCS[2] },
        Pair { name: c"closefrom", ours: || closefrom as *const () as usize, libcs: &LIBCS[3] },
    ];
}

pub(in crate::transparent) use hooks::PAIRS;
