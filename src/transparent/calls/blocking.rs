//! Blocking calls that the netpoller cannot wait for: files, locks of files, the resolver, threads. A
//! goroutine makes them in a marked section, so its P is free from the first moment on. The end of a child
//! process is waited for by a pidfd, where the kernel has them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::os::fd::AsRawFd;

use super::real::define;
use super::streams::is_nonblocking;
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sys::process;
use crate::sys::syscall::syscall6;
use crate::timer::NEVER;
use crate::transparent::descriptor::{Mode, command_given, is_ready, wait_for};
use crate::transparent::who::caller::{Outcome, of_libc, outcome};

/// libc's function in a marked section.
macro_rules! marked {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the caller vouches for the arguments.
        blocking(|| of_libc(unsafe { (real::$name.get())($($argument),*) } as isize))
    };
}

/// As `marked`, for functions that return an error number.
macro_rules! marked_number {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the caller vouches for the arguments.
        Ok(blocking(|| unsafe { (real::$name.get())($($argument),*) }) as isize)
    };
}

/// Waits until the child `pid` has ended. If the kernel has no pidfd, returns at once, and the call itself
/// blocks.
fn until_ended(pid: u32) -> Outcome<()> {
    process::pidfd(pid).map_or(Ok(()), |child| until_readable(child.as_raw_fd()))
}

/// Waits until a pidfd says that the process has ended, or a context limits the wait.
fn until_readable(fd: c_int) -> Outcome<()> {
    wait_for(fd, Direction::Read, NEVER, |fd, mode| {
        if mode == Mode::Block || is_ready(fd, Direction::Read) { Ok(()) } else { Err(libc::EAGAIN) }
    })
}

fn wait_for_child(
    pid: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut c_void,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = |options: c_int| unsafe {
        let (pid, status, options, usage) = (pid as usize, status as usize, options as usize, usage as usize);
        outcome(syscall6(libc::SYS_wait4, pid, status, options, usage, 0, 0))
    };
    if options & libc::WNOHANG != 0 {
        return call(options);
    }
    // A wait for a child that stops or goes on is not one for its end.
    if pid > 0 && options & !libc::__WALL == 0 {
        match call(options | libc::WNOHANG) {
            Ok(0) => until_ended(pid as u32)?,
            result => return result,
        }
    }
    blocking(|| call(options))
}

fn wait_by_id(
    kind: libc::idtype_t,
    id: libc::id_t,
    info: *mut libc::siginfo_t,
    options: c_int,
) -> Outcome<isize> {
    // SAFETY: the caller of libc's function vouches for the arguments.
    let call = |info: *mut libc::siginfo_t, options: c_int| unsafe {
        let (id, info, options) = (id as usize, info as usize, options as usize);
        outcome(syscall6(libc::SYS_waitid, kind as usize, id, info, options, 0, 0))
    };
    let for_its_end = options & (libc::WSTOPPED | libc::WCONTINUED) == 0;
    let waits = match kind {
        libc::P_PIDFD => for_its_end && !is_nonblocking(id as c_int),
        libc::P_PID => for_its_end,
        _ => false,
    };
    if options & libc::WNOHANG != 0 || kind == libc::P_PIDFD && is_nonblocking(id as c_int) {
        return call(info, options);
    }
    if waits {
        // Is it a child of ours, and does it run? Then the call succeeds and finds no process.
        // SAFETY: zeros are a siginfo.
        let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
        call(&raw mut found, options | libc::WNOHANG | libc::WNOWAIT)?;
        // SAFETY: the kernel has written the fields of a child, or zeros.
        if unsafe { found.si_pid() } == 0 {
            if kind == libc::P_PID { until_ended(id)? } else { until_readable(id as c_int)? }
        }
    }
    blocking(|| call(info, options))
}

/// Whether a command of `fcntl` may wait for another process.
fn waits(command: c_int) -> bool {
    matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW)
}

define! {
    fn waitpid(pid: libc::pid_t, status: *mut c_int, options: c_int) -> libc::pid_t,
        |_g| wait_for_child(pid, status, options, std::ptr::null_mut());
    fn wait(status: *mut c_int) -> libc::pid_t,
        |_g| wait_for_child(-1, status, 0, std::ptr::null_mut());
    fn wait4(pid: libc::pid_t, status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t,
        |_g| wait_for_child(pid, status, options, usage.cast());
    fn waitid(kind: libc::idtype_t, id: libc::id_t, info: *mut libc::siginfo_t, options: c_int) -> c_int,
        |_g| wait_by_id(kind, id, info, options);
    fn pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int,
        |_g| marked_number!(pthread_join(thread, value));
    fn pause() -> c_int, |_g| marked!(pause());
    fn getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const libc::addrinfo,
        found: *mut *mut libc::addrinfo,
    ) -> c_int, |_g| marked_number!(getaddrinfo(node, service, hints, found));

    fn fsync(fd: c_int) -> c_int, |_g| marked!(fsync(fd));
    fn fdatasync(fd: c_int) -> c_int, |_g| marked!(fdatasync(fd));
    fn flock(fd: c_int, operation: c_int) -> c_int, |_g| marked!(flock(fd, operation));
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int,
        |_g| if waits(command) { marked!(fcntl(fd, command, argument)) } else {
            // SAFETY: the caller vouches for the arguments.
            of_libc(unsafe { (real::fcntl.get())(fd, command, argument) } as isize)
        }, after |result| command_given(fd, command, result);
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int,
        |_g| if waits(command) { marked!(fcntl64(fd, command, argument)) } else {
            // SAFETY: the caller vouches for the arguments.
            of_libc(unsafe { (real::fcntl64.get())(fd, command, argument) } as isize)
        }, after |result| command_given(fd, command, result);
    // The mode is there only if the flags say so; passing on what is in its place does no harm.
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, |_g| marked!(open(path, flags, mode));
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        |_g| marked!(open64(path, flags, mode));
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        |_g| marked!(openat(directory, path, flags, mode));
    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        |_g| marked!(openat64(directory, path, flags, mode));
}
