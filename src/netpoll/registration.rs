//! A descriptor that is registered with the netpoller. Waiting for it is in `sched/park/io_wait.rs`.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

use super::desc::{self, Direction, PollDesc};
use super::word::{Observed, PollWord};

/// A registered descriptor. It must be [`deregister`](Registration::deregister)ed before the descriptor is
/// closed.
pub(crate) struct Registration(&'static PollDesc);

impl Registration {
    /// Registers `fd`. The error EPERM means that it is always ready (a regular file). The result of `enter`
    /// keeps the caller inside the runtime while it lives.
    pub(crate) fn register<S>(fd: BorrowedFd<'_>, enter: impl Fn() -> S) -> io::Result<Registration> {
        let desc = desc::allocate(&enter)?;
        if let Err(error) = super::add(fd, desc.data()) {
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
