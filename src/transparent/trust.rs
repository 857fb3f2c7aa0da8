//! What is known of a stream socket, so that a wait needs no system calls to find it out.
//!
//! A wait has to know whether the descriptor is O_NONBLOCK, whether it has a timeout, and whether epoll
//! watches it. Nobody tells us (`descriptor.rs`), so a wait asks: fcntl, getsockopt, epoll_ctl. For most
//! descriptors that is how it stays. Stream sockets are waited for so often that the answers are kept, until
//! something happens that may change them:
//!
//! - T1. **A number gets another open file.** A call that closes or creates a number discards its cached
//!   answers: close, dup2, dup3, close_range; socket, socketpair, accept, dup, fcntl, and a message with
//!   descriptors. Only a program that closes a socket *and* opens another one by system calls of its own
//!   goes unnoticed.
//! - T2. **Flags and timeouts change.** They belong to the open file, which several numbers may share. So a
//!   change advances an epoch that makes all earlier answers invalid, unless nothing was known of that number
//!   and no descriptor of this process was ever duplicated. A wait reads the epoch before it asks, and a
//!   change advances it after it was made, so an answer of before the change has an old epoch.
//! - T3. **epoll.** A number that is watched for reading, edge-triggered, needs no new call if the last read
//!   emptied the stream and no edge has come since: what arrives later is an edge. The wait publishes itself
//!   in the poll word first, and fails to if there was an edge meanwhile.
//!
//! Other processes that share a stream socket may change its flags; this process then goes by what it knew.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::descriptor::Descriptor;
use super::enabled;
use super::kind::Kind;
use super::real::{Pair, Real};
use super::streams::{deadline_of, is_nonblocking};
use crate::netpoll::Direction;
use crate::timer::NEVER;

/// Advanced by each change that may concern what is known. Never 0.
static EPOCH: AtomicU64 = AtomicU64::new(1);
/// Several numbers may stand for one open file.
static DUPLICATED: AtomicBool = AtomicBool::new(false);

/// When a wait that begins now ends, by the timeout of the descriptor. `None`: it is O_NONBLOCK, and there is
/// no wait.
#[inline]
pub(super) fn wait_limit(number: c_int, direction: Direction) -> Option<u64> {
    let descriptor =
        Descriptor::existing(number).filter(|descriptor| descriptor.kind() == Kind::StreamSocket);
    // Acquire: see T2.
    let epoch = EPOCH.load(Ordering::Acquire);
    if descriptor.is_some_and(|descriptor| descriptor.waits_without_limit_since(direction) == epoch) {
        return Some(NEVER);
    }
    ask(number, direction, descriptor, epoch)
}

#[inline(never)]
fn ask(
    number: c_int,
    direction: Direction,
    descriptor: Option<&'static Descriptor>,
    epoch: u64,
) -> Option<u64> {
    if is_nonblocking(number) {
        return None;
    }
    let deadline = deadline_of(number, direction);
    if let Some(descriptor) = descriptor
        && deadline == NEVER
    {
        descriptor.note_waits_without_limit(direction, epoch);
    }
    Some(deadline)
}

/// Called after flags or timeouts of the number's open file may have changed.
pub(super) fn settings_changed(number: c_int) {
    let known = Descriptor::existing(number).is_some_and(Descriptor::is_trusted);
    if enabled::is_on() && (known || DUPLICATED.load(Ordering::Relaxed)) {
        // Release: see T2.
        EPOCH.fetch_add(1, Ordering::Release);
    }
}

/// Called when a number stands for another open file than before.
pub(super) fn is_new(number: c_int) {
    if let Some(descriptor) = Descriptor::existing(number) {
        descriptor.forget_kind();
    }
}

/// Called when a number stands for an open file that may have others.
pub(super) fn is_duplicate(number: c_int) {
    if enabled::is_on() {
        DUPLICATED.store(true, Ordering::Relaxed);
        is_new(number);
    }
}

/// Called after a message was received, or sent.
///
/// # Safety
/// The header is valid.
pub(super) unsafe fn message_passed(message: *const libc::msghdr) {
    // SAFETY: the caller's promise; the macros walk the control data as the kernel has written it.
    unsafe {
        let mut part =
            if (*message).msg_controllen == 0 { std::ptr::null_mut() } else { libc::CMSG_FIRSTHDR(message) };
        while !part.is_null() {
            if (*part).cmsg_level == libc::SOL_SOCKET && (*part).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(part).cast::<c_int>();
                let count = ((*part).cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<c_int>();
                (0..count).for_each(|at| is_duplicate(data.add(at).read_unaligned()));
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
}

/// Defines functions that call libc's and then look at its result, which is `$returned`.
macro_rules! define {
    ($(fn $name:ident($($argument:ident: $type:ty),*) => |$returned:ident| $then:expr;)*) => {
        #[allow(non_upper_case_globals, reason = "they have the names of the functions")]
        mod libcs {
            use super::*;
            $(pub(super) static $name: Real<unsafe extern "C" fn($($type),*) -> c_int> = Real::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                },
                stringify!($name),
            );)*
        }

        $(
            #[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller vouches for the arguments.
                let $returned = unsafe { (libcs::$name.get())($($argument),*) };
                if $returned >= 0 && enabled::is_on() {
                    $then;
                }
                $returned
            }
        )*

        /// The functions of this file.
        pub(super) const PAIRS: &[Pair] = &[$(Pair {
            name: match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
            ours: || $name as *const () as usize,
            libcs: &libcs::$name.hidden,
        }),*];
    };
}

define! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) => |made| is_new(made);
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) => |_done| {
        // SAFETY: the call has written two numbers.
        unsafe { [*pair, *pair.add(1)] }.into_iter().for_each(is_new);
    };
    fn dup(number: c_int) => |made| is_duplicate(made);
    fn ioctl(number: c_int, request: c_ulong, argument: usize) => |_done| {
        if request == libc::FIONBIO as c_ulong {
            settings_changed(number);
        }
    };
    fn setsockopt(number: c_int, level: c_int, name: c_int, value: *const c_void, size: libc::socklen_t) =>
        |_done| {
            if level == libc::SOL_SOCKET && is_timeout(name) {
                settings_changed(number);
            }
        };
}

/// Whether it is the name of a timeout, in one of its two forms.
fn is_timeout(name: c_int) -> bool {
    /// With 64 bits of seconds; on machines of 64 bits the others have them, too.
    const NEW: [c_int; 2] = [66, 67];
    name == libc::SO_RCVTIMEO || name == libc::SO_SNDTIMEO || NEW.contains(&name)
}
