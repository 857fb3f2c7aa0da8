//! `syscall`, libc's function for any system call. Of those, `SYS_futex` on private futexes is what std,
//! parking_lot and others wait with. Those that close and duplicate descriptors or change their flags are
//! noted (`descriptor/`). The rest go to the kernel.
//!
//! Futexes that processes share are the kernel's, and so are those with priority inheritance: a goroutine
//! that waits on one makes the call in a marked section.

use std::ffi::{c_int, c_long, c_uint};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::wait_wake;
use crate::arch;
use crate::sched::block::hidden_function::Hidden;
use crate::sched::block::marked_call::blocking;
use crate::sched::park::clock as caller_clock;
use crate::sched::types::g::G;
use crate::sys::clock;
use crate::transparent::calls::real::Pair;
use crate::transparent::calls::sleep::{SLICE, nanos_of};
use crate::transparent::descriptor;
use crate::transparent::who::caller::{Outcome, caller, of_libc, report};
use crate::transparent::who::enabled;
use crate::transparent::who::place::{Place, waits_as_thread};

/// The arguments of a system call.
type Arguments = [usize; 6];

/// The operation without its flags.
const OPERATION: c_int = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// The system calls `futex_wake`, `futex_wait` and `futex_requeue` of Linux 6.7.
const FUTEX_WAKE2: c_long = 454;
const FUTEX_WAIT2: c_long = 455;
const FUTEX_REQUEUE2: c_long = 456;

/// As FUTEX_LOCK_PI, by another clock; the crate libc does not have it.
const FUTEX_LOCK_PI2: c_int = 13;

/// libc's function `syscall`, with all the arguments that it may have: in C it takes any number, which a
/// caller passes in the same registers and places.
#[cfg_attr(not(gort_tsan), unsafe(no_mangle))]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // Neither a frame nor saved registers: both calls are jumps.
    if number == libc::SYS_futex && enabled::is_on_for_sure() {
        on_futex(a, b, c, d, e, f)
    } else {
        other_call(number, a, b, c, d, e, f)
    }
}

/// Calls that change what numbers stand for, or their flags, do so as libc's functions of their names do.
/// Nothing but FUTEX_WAIT parks the goroutine.
#[inline(never)]
extern "C" fn other_call(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let arguments = [a, b, c, d, e, f];
    if !enabled::is_on() {
        // SAFETY: the caller vouches for the arguments.
        return unsafe { arch::libc_syscall(number, arguments) };
    }
    let outcome = match number {
        libc::SYS_futex => return on_futex(a, b, c, d, e, f),
        libc::SYS_close => descriptor::close(a as c_int),
        libc::SYS_dup2 => descriptor::dup2(a as c_int, b as c_int),
        libc::SYS_dup3 => descriptor::dup3(a as c_int, b as c_int, c as c_int),
        libc::SYS_close_range => descriptor::close_range(a as c_uint, b as c_uint, c as c_int),
        FUTEX_WAKE2 | FUTEX_REQUEUE2 => newer_wake(number, arguments),
        libc::SYS_futex_waitv | FUTEX_WAIT2 => marked(number, arguments),
        _ => {
            // SAFETY: the caller vouches for the arguments.
            let result = unsafe { arch::libc_syscall(number, arguments) };
            if result >= 0 {
                // SAFETY: as above.
                unsafe { descriptor::call_made(number, arguments, result) };
            }
            return result;
        }
    };
    report::<isize>(outcome) as c_long
}

/// Waits go their own way, with as little stack as can be: it is what a goroutine that waits keeps.
#[inline(never)]
fn on_futex(
    address: usize,
    flags: usize,
    value: usize,
    timeout: usize,
    second: usize,
    bits: usize,
) -> c_long {
    let private = flags as c_int & libc::FUTEX_PRIVATE_FLAG != 0;
    if private && address != 0 && address.is_multiple_of(align_of::<u32>()) {
        match flags as c_int & OPERATION {
            libc::FUTEX_WAIT => return wait([address, flags, value, timeout, u32::MAX as usize]),
            libc::FUTEX_WAIT_BITSET if bits as u32 != 0 => {
                return wait([address, flags, value, timeout, bits as u32 as usize]);
            }
            _ => {}
        }
    }
    report::<isize>(other_futex([address, flags, value, timeout, second, bits])) as c_long
}

fn kernel(number: c_long, arguments: Arguments) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    of_libc(unsafe { arch::libc_syscall(number, arguments) } as isize)
}

/// In a marked section, for a goroutine in user code.
fn marked(number: c_long, arguments: Arguments) -> Outcome<isize> {
    match caller() {
        Some(_) => blocking(|| kernel(number, arguments)),
        None => kernel(number, arguments),
    }
}

/// Everything but waiting.
#[inline(never)]
fn other_futex(arguments: Arguments) -> Outcome<isize> {
    let [address, flags, value, _, second, bits] = arguments;
    let flags = flags as c_int;
    let to_kernel = || kernel(libc::SYS_futex, arguments);
    if flags & libc::FUTEX_PRIVATE_FLAG == 0 {
        return marked(libc::SYS_futex, arguments);
    }
    if address == 0 || !address.is_multiple_of(align_of::<u32>()) {
        return to_kernel();
    }
    match flags & OPERATION {
        libc::FUTEX_WAKE => wake(arguments, u32::MAX),
        libc::FUTEX_WAKE_BITSET if bits as u32 != 0 => wake(arguments, bits as u32),
        libc::FUTEX_REQUEUE => requeue(arguments, None),
        libc::FUTEX_CMP_REQUEUE => requeue(arguments, Some(bits as u32)),
        libc::FUTEX_WAKE_OP => {
            // The kernel knows only its own waiters, so wake all of ours to recheck their words.
            let by_kernel = to_kernel()?;
            let ours = wait_wake::wake(address, count(value), u32::MAX)
                + wait_wake::wake(second, usize::MAX, u32::MAX);
            Ok(by_kernel + ours as isize)
        }
        libc::FUTEX_LOCK_PI | FUTEX_LOCK_PI2 | libc::FUTEX_WAIT_REQUEUE_PI => {
            marked(libc::SYS_futex, arguments)
        }
        _ => to_kernel(),
    }
}

/// How many waiters a wake-up is for: the kernel takes a negative number for one, as it does 0.
fn count(value: usize) -> usize {
    (value as c_int).max(1) as usize
}

/// FUTEX_WAIT and FUTEX_WAIT_BITSET.
#[inline(never)]
fn wait([address, flags, value, timeout, bitset]: [usize; 5]) -> c_long {
    let g = caller();
    let place: *const AtomicU32 = std::ptr::with_exposed_provenance(address);
    if g.is_none() && !waits_as_thread() {
        // SAFETY: the caller vouches for the arguments.
        return unsafe { arch::libc_syscall(libc::SYS_futex, [address, flags, value, timeout, 0, bitset]) };
    }
    let (value, bitset) = (value as u32, bitset as u32);
    if timeout == 0 {
        return report::<isize>(match g {
            Some(g) => wait_wake::wait(g, place, value, bitset),
            None => wait_wake::wait_as_thread(place, value, bitset, None),
        }) as c_long;
    }
    // A timeout of FUTEX_WAIT_BITSET is a moment of its clock.
    let absolute = flags as c_int & OPERATION == libc::FUTEX_WAIT_BITSET;
    let deadline = deadline_of(flags as c_int, std::ptr::with_exposed_provenance(timeout), absolute);
    report::<isize>(deadline.and_then(|deadline| wait_until(g, place, value, bitset, deadline))) as c_long
}

#[inline(never)]
fn wait_until(
    g: Option<&'static G>,
    place: *const AtomicU32,
    value: u32,
    bitset: u32,
    (deadline, of_slice): (Option<Instant>, bool),
) -> Outcome<isize> {
    let result = match (g, deadline) {
        (Some(g), Some(deadline)) => wait_wake::wait_until(g, place, value, bitset, deadline),
        (Some(g), None) => wait_wake::wait(g, place, value, bitset),
        (None, _) => wait_wake::wait_as_thread(place, value, bitset, deadline),
    };
    // Woken for no reason, as the kernel may do, too: the caller reads the clock again.
    if of_slice && result == Err(libc::ETIMEDOUT) { Ok(0) } else { result }
}

/// When a wait ends (`None`: never), and whether that is before its time is over: the clock may be set until
/// then.
#[inline(never)]
fn deadline_of(
    flags: c_int,
    timeout: *const libc::timespec,
    absolute: bool,
) -> Outcome<(Option<Instant>, bool)> {
    let nanos = nanos_of(timeout).ok_or(libc::EINVAL)?;
    let real = flags & libc::FUTEX_CLOCK_REALTIME != 0;
    let clock = if real { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    let left = if absolute { nanos.saturating_sub(clock::nanos_of(clock)) } else { nanos };
    let of_slice = absolute && real && left > SLICE;
    let left = if of_slice { SLICE } else { left };
    Ok((caller_clock::after(Duration::from_nanos(left)), of_slice))
}

fn wake(arguments: Arguments, bitset: u32) -> Outcome<isize> {
    let [address, flags, value, d, e, f] = arguments;
    let wanted = count(value);
    let woken = wait_wake::wake(address, wanted, bitset);
    if woken == wanted {
        return Ok(woken as isize);
    }
    let rest = (wanted - woken).min(c_int::MAX as usize);
    let by_kernel = kernel(libc::SYS_futex, [address, flags, rest, d, e, f])?;
    Ok(by_kernel + woken as isize)
}

/// FUTEX_WAKE2 and FUTEX_REQUEUE2 for the table: those that the calls concern look at their words again. Few
/// programs use them, and none beside FUTEX_WAIT as far as we know.
fn newer_wake(number: c_long, arguments: Arguments) -> Outcome<isize> {
    let [first, second, ..] = arguments;
    let by_kernel = kernel(number, arguments)?;
    let (address, bitset) = match number {
        FUTEX_WAKE2 => (first, second as u32),
        // SAFETY: the kernel has read two waiters, of which the address is the second field.
        _ => (unsafe { *std::ptr::with_exposed_provenance::<u64>(first).add(1) } as usize, u32::MAX),
    };
    Ok(by_kernel + wait_wake::wake(address, usize::MAX, bitset) as isize)
}

fn requeue(arguments: Arguments, expected: Option<u32>) -> Outcome<isize> {
    let [address, flags, value, most, second, _] = arguments;
    let from: *const AtomicU32 = std::ptr::with_exposed_provenance(address);
    let (wake, move_most) = ((value as c_int).max(0) as usize, (most as c_int).max(0) as usize);
    if Place::own() == Place::Inside {
        // A handler that may have interrupted the runtime: it wakes all of ours to recheck their words.
        wait_wake::wake(address, usize::MAX, u32::MAX);
        return kernel(libc::SYS_futex, arguments);
    }
    let ours = wait_wake::requeue(from, second, (wake, move_most), expected)?;
    // The kernel does the rest, without the comparison: it was made.
    let flags = (flags as c_int & !OPERATION) | libc::FUTEX_REQUEUE;
    let rest = [address, flags as usize, wake - ours.woken, move_most - ours.moved, second, 0];
    let by_kernel = kernel(libc::SYS_futex, rest)?;
    Ok(by_kernel + (ours.woken + ours.moved) as isize)
}

// libc's `syscall` is never called: `arch::libc_syscall` does what it does.
static LIBCS: Hidden = Hidden::new(c"syscall");

/// The function of this file.
pub(in crate::transparent) static PAIRS: &[Pair] =
    &[Pair { name: c"syscall", ours: || syscall as *const () as usize, libcs: &LIBCS }];
