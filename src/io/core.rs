//! `Io<T>`: a std type (a socket, a pipe, ...) whose descriptor is registered with the netpoller.
//!
//! The inner `T` is set to O_NONBLOCK, so its own methods are the attempts that `gate.rs` makes. The blocking
//! behaviour that the user sees (timeouts, deadlines, set_nonblocking) is implemented there. If the netpoller
//! refuses the descriptor, it keeps the mode that the user gave it, and calls block their thread.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

pub(crate) use super::gate::WaitMode;
use super::gate::{Gate, Shared};
use crate::netpoll::{Direction, Registration};
use crate::sched::boot;
use crate::sys::fd;

pub(crate) struct Io<T: AsFd> {
    inner: ManuallyDrop<T>,
    gate: ManuallyDrop<Gate>,
    mode: Mode,
}

/// What happens to O_NONBLOCK when the handle gives the descriptor up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The handle's user decides: `into_inner` returns the descriptor in the mode that the user chose. A
    /// dropped descriptor keeps O_NONBLOCK: nobody sees it again, and its duplicates need the flag.
    Users,
    /// Other code uses the same open file, and it was blocking before: the flag is cleared.
    WasBlocking,
    /// Other code uses the same open file, and gort never changed the flag: it stays as it is.
    Unchanged,
}

/// The mode in which a descriptor comes to [`Io::new`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// gort made it, with O_NONBLOCK.
    Nonblocking,
    /// gort made it, blocking.
    Blocking,
    /// The user made it. Its mode says whether the user wants to wait.
    Somehow,
    /// Other code may use the same open file, so the mode says nothing about this user's wish. `Io` restores
    /// the mode in the end.
    Lent {
        /// The descriptor must not be set to O_NONBLOCK.
        as_it_is: bool,
    },
}

impl<T: AsFd> Io<T> {
    /// Takes over a descriptor. Never fails: calls on a descriptor that cannot be polled block their thread.
    pub(crate) fn new(inner: T, found: Found) -> Io<T> {
        let is_set = match found {
            Found::Nonblocking | Found::Lent { as_it_is: true } => true,
            Found::Blocking => false,
            Found::Somehow | Found::Lent { as_it_is: false } => {
                fd::is_nonblocking(inner.as_fd()).unwrap_or(false)
            }
        };
        boot::ensure();
        let registration = Registration::new(inner.as_fd()).ok().and_then(|registration| {
            if !is_set && fd::set_nonblocking(inner.as_fd(), true).is_err() {
                registration.end(inner.as_fd());
                return None;
            }
            Some(registration)
        });
        if registration.is_none() && found == Found::Nonblocking {
            let _it_blocks_or_fails = fd::set_nonblocking(inner.as_fd(), false);
        }
        let mode = match found {
            Found::Lent { .. } if is_set => Mode::Unchanged,
            Found::Lent { .. } => Mode::WasBlocking,
            _ => Mode::Users,
        };
        let io = Io::assemble(inner, registration, Shared::new(), mode);
        io.gate.set_would_block(found == Found::Somehow && is_set);
        io
    }

    fn assemble(inner: T, registration: Option<Registration>, shared: Shared, mode: Mode) -> Io<T> {
        let gate = Gate::new(registration, inner.as_fd(), shared);
        Io { inner: ManuallyDrop::new(inner), gate: ManuallyDrop::new(gate), mode }
    }

    /// A handle for a duplicate of the descriptor, with the same timeouts and mode.
    pub(crate) fn duplicate(&self, duplicate: T) -> io::Result<Io<T>> {
        let registration = match self.gate.registration {
            Some(_) => {
                boot::ensure(); // in a forked child the poller is the parent's, and this says so
                Some(Registration::new(duplicate.as_fd())?)
            }
            None => None,
        };
        Ok(Io::assemble(duplicate, registration, self.gate.share(), self.mode))
    }

    #[inline]
    pub(crate) fn inner(&self) -> &T {
        &self.inner
    }

    /// Returns the inner value, with its descriptor in the mode that the user expects (see [`Mode`]).
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        let unwanted = match this.mode {
            Mode::Users => !this.wants_would_block(),
            Mode::WasBlocking => true,
            Mode::Unchanged => false,
        };
        this.deregister(unwanted);
        // SAFETY: neither field is used again, because `this` is not dropped.
        unsafe {
            ManuallyDrop::drop(&mut this.gate);
            ManuallyDrop::take(&mut this.inner)
        }
    }

    #[cfg(feature = "hyper")]
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether the descriptor is registered with the netpoller.
    pub(crate) fn is_polled(&self) -> bool {
        self.gate.registration.is_some()
    }

    /// Undoes `new`: deregisters the descriptor, and clears O_NONBLOCK if `nonblocking_is_unwanted`.
    fn deregister(&mut self, nonblocking_is_unwanted: bool) {
        let Some(registration) = self.gate.registration.take() else { return };
        if boot::is_forked() {
            return; // the epoll instance and the open file are shared with the parent process
        }
        registration.end(self.inner.as_fd());
        if nonblocking_is_unwanted {
            let _it_was_possible_before = fd::set_nonblocking(self.inner.as_fd(), false);
        }
    }

    /// Whether the user wants errors of kind `WouldBlock` instead of waits.
    pub(crate) fn wants_would_block(&self) -> bool {
        self.gate.wants_would_block()
    }

    /// Sets whether the user wants `WouldBlock`, for all duplicates.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        if !self.is_polled() {
            fd::set_nonblocking(self.inner.as_fd(), nonblocking)?;
        }
        self.gate.set_would_block(nonblocking);
        Ok(())
    }

    /// See [`Gate::set_timeout`].
    pub(crate) fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) {
        self.gate.set_timeout(direction, timeout);
    }

    /// See [`Gate::set_deadline`].
    pub(crate) fn set_deadline(&self, direction: Direction, deadline: Option<Instant>) {
        self.gate.set_deadline(direction, deadline);
    }

    /// See [`Gate::close`].
    pub(crate) fn close(&self) {
        self.gate.close();
    }

    /// See [`Gate::pause`].
    pub(crate) fn pause(&self, direction: Direction, pause: Duration) -> io::Result<()> {
        self.gate.pause(direction, pause)
    }

    /// Repeats `attempt` until it does not return `WouldBlock`; waits for readiness before each repetition.
    #[inline]
    pub(crate) fn run<R>(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.gate.run(direction, WaitMode::AsSet, || attempt(&self.inner))
    }

    /// Like [`run`](Io::run), for an attempt that needs a mutable reference to the inner value.
    #[inline]
    pub(crate) fn run_mut<R>(
        &mut self,
        direction: Direction,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.gate.run(direction, WaitMode::AsSet, || attempt(&mut self.inner))
    }

    /// Like [`run`](Io::run), for reading bytes. Unlike [`read_stream`](Io::read_stream), it concludes
    /// nothing from a short read.
    #[inline]
    pub(crate) fn read_some(
        &self,
        _wanted: usize,
        attempt: impl FnMut(&T) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.run(Direction::Read, attempt)
    }

    /// See [`Gate::read_stream`].
    #[inline]
    pub(crate) fn read_stream(
        &self,
        wanted: usize,
        mut attempt: impl FnMut(&T) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.gate.read_stream(wanted, || attempt(&self.inner))
    }

    /// Like [`run`](Io::run), with the given [`WaitMode`].
    pub(crate) fn run_with<R>(
        &self,
        direction: Direction,
        mode: WaitMode,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.gate.run(direction, mode, || attempt(&self.inner))
    }
}

impl<T: AsFd> AsFd for Io<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: AsFd> Drop for Io<T> {
    fn drop(&mut self) {
        self.deregister(self.mode == Mode::WasBlocking);
        // SAFETY: neither field is used again.
        unsafe {
            ManuallyDrop::drop(&mut self.inner);
            ManuallyDrop::drop(&mut self.gate);
        }
    }
}
