//! A descriptor that is registered with the netpoller. Waiting for it is in `sched/park/io_wait.rs`.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

use super::desc::{self, Direction, PollDesc};
use super::word::{Observed, PollWord};

/// A registered descriptor. It must be [`deregister`](Registration::deregister)ed before the descriptor is
/// closed.
#[derive(Clone, Copy)]
pub(crate) struct Registration(&'static PollDesc);

impl Registration {
    /// Registers `fd`. The error EPERM means that it is always ready (a regular file), EEXIST that it is
    /// registered; with `instead`, this registration takes the place of that one. The result of `enter` keeps
    /// the caller inside the runtime while it lives.
    pub(crate) fn register<S>(
        fd: BorrowedFd<'_>,
        instead: bool,
        enter: impl Fn() -> S,
    ) -> io::Result<Registration> {
        let desc = desc::allocate(&enter)?;
        if let Err(error) = super::add(fd, desc.data(), instead) {
            desc::free(desc, enter);
            return Err(error);
        }
        Ok(Registration(desc))
    }

    /// Undoes [`register`](Registration::register).
    pub(crate) fn deregister<S>(self, fd: BorrowedFd<'_>, enter: impl Fn() -> S) {
        super::remove(fd);
        desc::free(self.0, enter);
    }

    /// A record that is registered for no descriptor yet: [`watch`](Registration::watch) does that before
    /// each wait.
    #[cfg(feature = "transparent")]
    pub(crate) fn unwatched<S>(enter: impl Fn() -> S) -> io::Result<Registration> {
        Ok(Registration(desc::allocate(enter)?))
    }

    /// Watches `fd` for these directions from now on, and for no others. If it is ready already, there is an
    /// edge at once. `counted`: this record counts as one that watches a descriptor; it may be another one.
    #[cfg(feature = "transparent")]
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, read: bool, write: bool, counted: bool) -> io::Result<()> {
        super::watch(fd, self.0.data(), (read, write), counted)
    }

    /// Undoes [`watch`](Registration::watch).
    #[cfg(feature = "transparent")]
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>) {
        super::remove(fd);
    }

    /// To be called before an attempt at I/O.
    #[inline]
    pub(crate) fn observe(&self, direction: Direction) -> Observed {
        self.0.word(direction).observe()
    }

    /// The word in which waiting and readiness meet.
    pub(crate) fn word(&self, direction: Direction) -> &'static PollWord {
        self.0.word(direction)
    }

    /// For reports: the address of the descriptor's `PollDesc`.
    pub(crate) fn address(&self) -> usize {
        ptr::from_ref(self.0) as usize
    }
}
