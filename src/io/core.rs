//! A descriptor that the poller knows, around a std type.
//!
//! The inner `T` has O_NONBLOCK set, so its own methods are the attempts that `gate.rs` makes. What the user may see of
//! blocking (timeouts, deadlines, set_nonblocking) happens there. A descriptor that the poller refuses blocks as
//! the user left it.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

pub(crate) use super::gate::Patience;
use super::gate::{Gate, Shared};
use crate::netpoll::{Direction, Registration};
use crate::sched::boot;
use crate::sys::fd;

pub(crate) struct Io<T: AsFd> {
    inner: ManuallyDrop<T>,
    gate: ManuallyDrop<Gate>,
    mode: Mode,
}

/// Whose business O_NONBLOCK is afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Of the handle's user: its wish holds for what `into_inner` gives back. What is dropped keeps it: nobody sees that
    /// descriptor again, and duplicates need it.
    Users,
    /// Others have the same open file, and it was blocking before.
    WasBlocking,
    /// As before; but it was never changed.
    Unchanged,
}

/// How a descriptor comes here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It was made with O_NONBLOCK, for us.
    Nonblocking,
    /// It was made blocking, for us.
    Blocking,
    /// It is the user's, and its mode says whether the user wants to wait.
    Somehow,
    /// It may still be somebody else's, too, and says nothing by its mode. In the end it has the mode that it had.
    Lent {
        /// It is not to be set to O_NONBLOCK.
        as_it_is: bool,
    },
}

impl<T: AsFd> Io<T> {
    /// Takes over a descriptor. Never fails: one that cannot be polled blocks its thread.
    pub(crate) fn new(inner: T, found: Found) -> Io<T> {
        let is_set = match found {
            Found::Nonblocking | Found::Lent { as_it_is: true } => true,
            Found::Blocking => false,
            Found::Somehow | Found::Lent { as_it_is: false } => {
                fd::is_nonblocking(inner.as_fd()).unwrap_or(false)
            }
        };
        let registration = Registration::new(inner.as_fd()).ok().and_then(|registration| {
            if !is_set && fd::set_nonblocking(inner.as_fd(), true).is_err() {
                registration.deregister(inner.as_fd());
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
            Some(_) => Some(Registration::new(duplicate.as_fd())?),
            None => None,
        };
        Ok(Io::assemble(duplicate, registration, self.gate.share(), self.mode))
    }

    #[inline]
    pub(crate) fn inner(&self) -> &T {
        &self.inner
    }

    /// The inner descriptor, in the mode that the user knows.
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        let unwanted = match this.mode {
            Mode::Users => !this.wants_would_block(),
            Mode::WasBlocking => true,
            Mode::Unchanged => false,
        };
        this.deregister(unwanted);
        // SAFETY: neither is used again: `this` is not dropped.
        unsafe {
            ManuallyDrop::drop(&mut this.gate);
            ManuallyDrop::take(&mut this.inner)
        }
    }

    #[cfg(feature = "hyper")]
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether the poller knows it.
    pub(crate) fn is_polled(&self) -> bool {
        self.gate.registration.is_some()
    }

    /// Ends what `new` began, with O_NONBLOCK if it was not wanted.
    fn deregister(&mut self, nonblocking_is_unwanted: bool) {
        let Some(registration) = self.gate.registration.take() else { return };
        if boot::is_forked() {
            return; // the poller and the mode are the parent's, too
        }
        registration.deregister(self.inner.as_fd());
        if nonblocking_is_unwanted {
            let _it_was_possible_before = fd::set_nonblocking(self.inner.as_fd(), false);
        }
    }

    /// Whether the user wants errors of kind `WouldBlock` instead of waits.
    pub(crate) fn wants_would_block(&self) -> bool {
        self.gate.wants_would_block()
    }

    /// The user's wish for `WouldBlock`, for all duplicates.
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

    /// Does `attempt` until it does not block.
    #[inline]
    pub(crate) fn run<R>(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.gate.run(direction, Patience::AsSet, || attempt(&self.inner))
    }

    /// As [`run`](Io::run), for one that needs the inner value for itself.
    #[inline]
    pub(crate) fn run_mut<R>(
        &mut self,
        direction: Direction,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.gate.run(direction, Patience::AsSet, || attempt(&mut self.inner))
    }

    /// As [`run`](Io::run), to read some bytes of a stream of which nothing is known.
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

    /// As [`run`](Io::run), with other patience than usual.
    pub(crate) fn run_with<R>(
        &self,
        direction: Direction,
        patience: Patience,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.gate.run(direction, patience, || attempt(&self.inner))
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
        // SAFETY: neither is used again.
        unsafe {
            ManuallyDrop::drop(&mut self.inner);
            ManuallyDrop::drop(&mut self.gate);
        }
    }
}
