//! What is known of a stream socket, so that a wait needs no system calls to find it out.
//!
//! A wait has to know whether the descriptor is O_NONBLOCK, whether it has a timeout, and whether epoll
//! watches it. Nobody tells us (`mod.rs`), so a wait asks: fcntl, getsockopt, epoll_ctl. For most
//! descriptors that is how it stays. Stream sockets are waited for so often that the answers are kept, until
//! something happens that may change them:
//!
//! - T1. **A number gets another open file.** Whatever closes the number or makes a new one forgets what was
//!   known of it: close, dup2, dup3, close_range; socket, socketpair, accept, dup, fcntl, and a message with
//!   descriptors; each also by the function `syscall`. Only a program that closes a socket *and* opens
//!   another one by inline system calls would deceive us, and one that changes flags or timeouts by those.
//! - T2. **Flags and timeouts change.** They belong to the open file, which several numbers may share. So a
//!   change advances an epoch that makes all earlier answers invalid, unless nothing is known of that number
//!   and no socket of this process was ever duplicated. The argument stands in `known.rs` (K2).
//! - T3. **epoll.** A TCP connection that is watched for reading, edge-triggered, needs no new call if the
//!   last read emptied the stream and no edge has come since: what arrives later is an edge. The wait
//!   publishes itself in the poll word first, and fails to if there was an edge meanwhile. If one of gort's
//!   own sockets registers or deregisters the number, what was known of the watch is forgotten.
//!
//! Other processes that share a stream socket may change its flags; this process then goes by what it knew.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::kind::Kind;
use super::known::Epoch;
use super::record::Descriptor;
use crate::netpoll::Direction;
use crate::timer::NEVER;
use crate::transparent::calls::real::{Pair, Real};
use crate::transparent::calls::streams::{deadline_of, is_nonblocking};
use crate::transparent::who::enabled;

/// Advanced by each change that may concern what is known.
static EPOCH: Epoch = Epoch(AtomicU64::new(1));
/// Several numbers may stand for one socket.
static DUPLICATED: AtomicBool = AtomicBool::new(false);

/// When a wait that begins now ends, by the timeout of the descriptor. `None`: it is O_NONBLOCK, and there is
/// no wait.
#[inline]
pub(in crate::transparent) fn wait_limit(number: c_int, direction: Direction) -> Option<u64> {
    let descriptor = Descriptor::existing(number).filter(|descriptor| descriptor.kind().is_trusted());
    let epoch = EPOCH.now();
    if descriptor.is_some_and(|descriptor| descriptor.known.waits_without_limit(direction as usize, epoch)) {
        return Some(NEVER);
    }
    ask(number, direction, descriptor)
}

#[inline(never)]
fn ask(number: c_int, direction: Direction, descriptor: Option<&'static Descriptor>) -> Option<u64> {
    let known = descriptor.map(|descriptor| &descriptor.known);
    let asking = known.and_then(|known| known.begin_asking(direction as usize, &EPOCH));
    let limit = (!is_nonblocking(number)).then(|| deadline_of(number, direction));
    if let (Some(known), Some(asking)) = (known, asking) {
        known.end_asking(asking, limit == Some(NEVER));
    }
    limit
}

/// Called after flags or timeouts of the number's open file may have changed.
pub(in crate::transparent) fn settings_changed(number: c_int) {
    let known = Descriptor::existing(number).is_some_and(|descriptor| descriptor.known.may_be_known());
    if known || DUPLICATED.load(Ordering::Relaxed) {
        EPOCH.advance();
    }
}

/// Called when a number stands for another open file than before.
pub(in crate::transparent) fn is_new(number: c_int) {
    if let Some(descriptor) = Descriptor::existing(number) {
        descriptor.forget();
    }
}

/// Called when a number stands for an open file that may have others. Safe in a signal handler.
pub(in crate::transparent) fn is_duplicate(number: c_int) {
    is_new(number);
    note_duplicate(number);
}

fn note_duplicate(number: c_int) {
    if !DUPLICATED.load(Ordering::Relaxed) && Kind::look(number).is_trusted() {
        DUPLICATED.store(true, Ordering::Relaxed);
    }
}

/// Whether the netpoller watches the number because a call of other code waited for it.
pub(crate) fn others_watch(number: c_int) -> bool {
    Descriptor::existing(number).is_some_and(|descriptor| descriptor.is_watched())
}

/// Called after one of gort's own sockets registered the number with the netpoller, or deregistered it: the
/// epoll instance is the same, so it does not watch the number for us any more (T3).
pub(crate) fn watch_changed(number: c_int) {
    if let Some(descriptor) = Descriptor::existing(number) {
        descriptor.forget_watch();
    }
}

/// Called when the hooks have been switched on: sockets that are there already may have been duplicated
/// before, as those that inetd passes to a program are.
pub(in crate::transparent) fn begin() {
    match std::fs::read_dir("/proc/self/fd") {
        Ok(all) => {
            let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            numbers.for_each(note_duplicate);
        }
        Err(_) => DUPLICATED.store(true, Ordering::Relaxed),
    }
}

/// Called after a message was received, or sent.
///
/// # Safety
/// The header is valid.
pub(in crate::transparent) unsafe fn message_passed(message: *const libc::msghdr) {
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

/// As [`message_passed`], for several messages. Does nothing if the call failed.
///
/// # Safety
/// The first `count` headers are valid.
pub(in crate::transparent) unsafe fn messages_passed(messages: *const libc::mmsghdr, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe { message_passed(&raw const (*messages.add(at)).msg_hdr) };
    }
}

/// Called after a command of `fcntl`.
pub(in crate::transparent) fn command_given(number: c_int, command: c_int, result: c_int) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC if result >= 0 => is_duplicate(result),
        libc::F_SETFL => settings_changed(number),
        _ => {}
    }
}

/// Called after a request of `ioctl`.
fn request_made(number: c_int, request: c_ulong) {
    if request == libc::FIONBIO as c_ulong {
        settings_changed(number);
    }
}

/// Called after an option of a socket was set.
fn option_set(number: c_int, level: c_int, name: c_int) {
    if level == libc::SOL_SOCKET && is_timeout(name) {
        settings_changed(number);
    }
}

/// Called after the function `syscall` made a system call with success.
///
/// # Safety
/// The arguments are those of the call.
pub(in crate::transparent) unsafe fn call_made(call: c_long, arguments: [usize; 6], result: c_long) {
    let [a, b, c, d, ..] = arguments;
    let (number, made) = (a as c_int, result as c_int);
    match call {
        libc::SYS_fcntl => command_given(number, b as c_int, made),
        libc::SYS_ioctl => request_made(number, b as c_ulong),
        libc::SYS_setsockopt => option_set(number, b as c_int, c as c_int),
        libc::SYS_socket | libc::SYS_accept | libc::SYS_accept4 => is_new(made),
        libc::SYS_dup => is_duplicate(made),
        // SAFETY: the kernel has used what the arguments point to, and the caller vouches for them.
        libc::SYS_socketpair => unsafe { pair_made(std::ptr::with_exposed_provenance(d)) },
        // SAFETY: as above.
        libc::SYS_recvmsg | libc::SYS_sendmsg => unsafe {
            message_passed(std::ptr::with_exposed_provenance(b));
        },
        // SAFETY: as above.
        libc::SYS_recvmmsg | libc::SYS_sendmmsg => unsafe {
            messages_passed(std::ptr::with_exposed_provenance(b), made);
        },
        _ => {}
    }
}

/// Called after `socketpair`.
///
/// # Safety
/// Two numbers are there.
unsafe fn pair_made(pair: *const c_int) {
    // SAFETY: the caller's promise.
    unsafe { [*pair, *pair.add(1)] }.into_iter().for_each(is_new);
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
        pub(in crate::transparent) static PAIRS: &[Pair] = &[$(Pair {
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
        unsafe { pair_made(pair) };
    };
    fn dup(number: c_int) => |made| is_duplicate(made);
    fn ioctl(number: c_int, request: c_ulong, argument: usize) => |_done| request_made(number, request);
    fn setsockopt(number: c_int, level: c_int, name: c_int, value: *const c_void, size: libc::socklen_t) =>
        |_done| option_set(number, level, name);
}

/// Whether it is the name of a timeout, in one of its two forms.
fn is_timeout(name: c_int) -> bool {
    /// With 64 bits of seconds; on machines of 64 bits the others have them, too.
    const NEW: [c_int; 2] = [66, 67];
    name == libc::SO_RCVTIMEO || name == libc::SO_SNDTIMEO || NEW.contains(&name)
}
