//! Code that knows nothing of gort waits as a goroutine does: std, other crates, C libraries (feature
//! `transparent`).
//!
//! A goroutine in `std::net`, `std::sync::Mutex`, `std::thread::sleep` or a C library's `recv` starves
//! nobody, but without this it holds an OS thread while it waits. With [`enable`], these waits park the
//! goroutine:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//!
//! gort::transparent::enable().unwrap();
//! gort::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let server = gort::spawn(move || {
//!         let (mut peer, _) = listener.accept()?; // std's accept: parks the goroutine
//!         peer.write_all(b"hello")
//!     });
//!     let mut text = String::new();
//!     TcpStream::connect(address)?.read_to_string(&mut text)?;
//!     assert_eq!(text, "hello");
//!     server.join().unwrap()
//! })
//! .unwrap();
//! ```
//!
//! # How
//!
//! gort defines the functions of libc that block. The linker prefers a definition in the program to libc's,
//! for Rust code, for C code and, because it exports them, for shared libraries. Each function asks first who
//! calls (`who/`): only a goroutine that runs user code gets ours. A foreign thread, a signal handler
//! with a stack of its own, the runtime itself and a forked child get libc's.
//!
//! | what | how it waits | file |
//! | --- | --- | --- |
//! | sockets, pipes, terminals, eventfds | an attempt without blocking, then the netpoller | `calls/streams.rs`, `calls/sockets.rs` |
//! | poll, select, epoll_wait | the netpoller | `calls/multiplex.rs` |
//! | futexes of std, parking_lot, crossbeam | parked in a table by address, which threads share | `futex/` |
//! | sleep, nanosleep | a timer | `calls/sleep.rs` |
//! | the end of a child process | a pidfd in the netpoller | `calls/blocking.rs` |
//! | files, locks of files, getaddrinfo, pthread_join | a marked call, which holds its thread | `calls/blocking.rs` |
//! | pthread mutexes and condition variables, stdio, inline system calls | as without the feature | |
//!
//! # What differs from a thread
//!
//! - A wait that parks is not interrupted by signals: it does not return EINTR, whatever the handler's flags
//!   say. A handler that is to end a wait writes to a pipe, wakes a futex or shuts a socket down.
//! - Inside [`Context::limit`](crate::context::Context::limit), reads, writes, `accept`, `connect` and the
//!   waits for a child fail with `TimedOut` when the context ends. (`Interrupted` would be wrong: std's
//!   `read_exact` and its kin try again after it.) A futex wait with a timeout times out. If the caller waits
//!   for the same futex again, as `mpsc::recv_timeout` does until its own deadline, the next waits time out
//!   after up to 10 ms. A sleep goes on: std would sleep again.
//! - In a bubble of [`testing`](crate::testing), `std::thread::sleep` and timeouts take virtual time. std's
//!   clock is real there, though, so what compares its moments, as `mpsc::recv_timeout` and
//!   `Condvar::wait_timeout_while` do, waits again and again.
//! - O_NONBLOCK of a descriptor is never changed, but by `connect` of an internet socket, for the length of
//!   one system call.
//! - SO_RCVLOWAT is not honoured by reads that find less than that at once.
//! - A stream socket whose flags or timeouts change by inline system calls, or in another process that shares
//!   it, keeps those that this process knew.
//! - A wake-up of a private futex by an inline system call does not find what waits in gort's table: it is
//!   lost. (A wait by one is found.)
//! - A descriptor of gort's own sockets must not be waited for by functions of libc as well: one
//!   registration with epoll replaces the other.
//! - A signal handler that was installed with SA_NODEFER and without SA_ONSTACK, and that waits, parks the
//!   goroutine that it interrupted.

mod calls;
mod descriptor;
mod futex;
mod who;

use std::fmt;

use self::calls::real::Pair;
use self::calls::{blocking, multiplex, sleep, sockets, streams};
pub(crate) use self::descriptor::{others_watch, watch_changed};
use self::futex::call;
pub(crate) use self::futex::late::make_all as make_late_wakes;
use self::who::{enabled, handlers};
use crate::arch;
use crate::sys::process;

/// Why [`enable`] failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnableError {
    /// The linker prefers another definition of this function to gort's: the program is linked statically, or
    /// gort is part of a shared library that comes behind libc, or another library defines it, too.
    Hidden(&'static str),
    /// libc does not have this function.
    Missing(&'static str),
    /// The kernel refused a page that children do not inherit, with this error number: it is older than Linux
    /// 4.14, or a sandbox forbids `madvise`.
    Refused(i32),
}

impl fmt::Display for EnableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnableError::Hidden(name) => write!(
                f,
                "gort: waits of other code cannot park goroutines: the program uses another `{name}` than \
                 gort's; link gort into the program itself, dynamically with glibc, and not together with a \
                 sanitizer or another library that defines this function"
            ),
            EnableError::Missing(name) => write!(
                f,
                "gort: waits of other code cannot park goroutines: this libc has no function `{name}`; use \
                 glibc"
            ),
            EnableError::Refused(number) => write!(
                f,
                "gort: waits of other code cannot park goroutines: the kernel refuses \
                 madvise(MADV_WIPEONFORK) ({}); use Linux 4.14 or newer, and allow the call in the sandbox",
                std::io::Error::from_raw_os_error(*number)
            ),
        }
    }
}

impl std::error::Error for EnableError {}

fn pairs() -> impl Iterator<Item = &'static Pair> {
    let tables = [blocking::PAIRS, descriptor::CLOSE_PAIRS, call::PAIRS, handlers::PAIRS, multiplex::PAIRS];
    tables
        .into_iter()
        .chain([sleep::PAIRS, sockets::PAIRS, streams::PAIRS, descriptor::TRUST_PAIRS])
        .flatten()
}

/// Looks libc's functions up before `main`: the look-up takes the loader's lock, which a signal handler must
/// not.
#[cfg(not(gort_tsan))]
extern "C" fn look_up_libc() {
    pairs().for_each(|pair| _ = pair.libcs.address());
}

#[cfg(not(gort_tsan))]
#[used]
// SAFETY: the section holds pointers to functions that the loader calls before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_up_libc;

/// From now on, code of std, of other crates and of C libraries that waits in a goroutine parks it. Call it
/// once, at the beginning of `main`. Waits that have begun already are not affected. It cannot be undone. In
/// a child process that was forked nothing parks, unless the child calls this, too, before it starts the
/// runtime.
///
/// # Errors
/// If the program was linked such that gort's functions are not those that other code calls. Then nothing has
/// changed: waits hold their threads, as without it.
pub fn enable() -> Result<(), EnableError> {
    for pair in pairs() {
        let name = || pair.name.to_str().unwrap_or_default();
        if process::definition(pair.name) != (pair.ours)() {
            return Err(EnableError::Hidden(name()));
        }
        if pair.libcs.address() == 0 {
            return Err(EnableError::Missing(name()));
        }
    }
    if process::definition(c"vfork") != arch::vfork_address() {
        return Err(EnableError::Hidden("vfork"));
    }
    handlers::add_installed();
    enabled::turn_on().map_err(|error| EnableError::Refused(error.raw_os_error().unwrap_or(0)))?;
    descriptor::begin();
    Ok(())
}

/// Whether [`enable`] has succeeded.
#[must_use]
pub fn is_enabled() -> bool {
    enabled::is_on()
}
