//! Waiting until a descriptor is ready (`netpoll/`). A wait ends by an edge from the kernel, a deadline, a
//! kick or the close; the descriptor's word makes sure that exactly one of them readies the waiter.

use std::io;
#[cfg(feature = "transparent")]
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::time::{Duration, Instant};

use super::park_ready::{park_goroutine, park_thread_until};
use super::wait::park_with_timer;
use crate::netpoll::{Direction, Observed, PollWord, Registration};
use crate::sched::idle::poll_wait;
#[cfg(feature = "transparent")]
use crate::sched::machine::hooks;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;
use crate::sys::clock::nanotime;
use crate::timer::{Fired, NEVER, Timer};

impl Registration {
    /// Registers `fd` with the netpoller. The error EPERM means that it is always ready (a regular file). The
    /// runtime must have started.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> io::Result<Registration> {
        let register = |instead| Registration::register(fd, instead, runtime_section::enter);
        let registered = match register(false) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && others_watch(fd) => register(true),
            registered => registered,
        };
        watch_changed(fd);
        registered
    }

    /// Undoes [`new`](Registration::new).
    pub(crate) fn end(self, fd: BorrowedFd<'_>) {
        self.deregister(fd, runtime_section::enter);
        watch_changed(fd);
    }

    /// Waits until something may have changed since `observed`, or until `deadline` (in nanoseconds of the
    /// monotonic clock). `still_valid` is called once the wait can be [`kick`](Registration::kick)ed: if it
    /// returns false, the caller does not wait. Only one goroutine or thread at a time may wait for each
    /// direction.
    pub(crate) fn wait(
        &self,
        direction: Direction,
        observed: Observed,
        deadline: u64,
        still_valid: impl FnOnce() -> bool,
    ) {
        let word = self.word(direction);
        let waiter = Waiter::current();
        if !word.begin_wait(observed, waiter.to_word()) {
            return;
        }
        if !still_valid() && word.cancel(waiter.to_word()) {
            return;
        }
        // From here on there is exactly one `ready`, unless the deadline comes first.
        let reason = match direction {
            Direction::Read => WaitReason::IoRead,
            Direction::Write => WaitReason::IoWrite,
        };
        match current() {
            Some(g) if deadline == NEVER => park_goroutine(g, reason, self.address()),
            Some(g) => {
                let timed = TimedWait { word, waiter };
                let timer = Timer::new(time_out, ptr::from_ref(&timed).cast());
                // SAFETY: timer and data live here until the call has returned.
                unsafe { park_with_timer(g, reason, self.address(), &timer, deadline) };
            }
            None => wait_as_thread(word, waiter, deadline),
        }
    }

    /// Publishes `waiter`, which does not park here: it is readied when something may have changed since
    /// `observed`. False: something has changed already, and nothing was published.
    #[cfg(feature = "hyper")]
    pub(crate) fn begin_wait(&self, direction: Direction, observed: Observed, waiter: Waiter) -> bool {
        let waits = self.word(direction).begin_wait(observed, waiter.to_word());
        if waits && current().is_none() {
            poll_wait::ensure();
        }
        waits
    }

    /// Takes back a [`begin_wait`](Registration::begin_wait). False: it was or will be readied.
    #[cfg(feature = "hyper")]
    pub(crate) fn cancel(&self, direction: Direction, waiter: Waiter) -> bool {
        self.word(direction).cancel(waiter.to_word())
    }

    /// Makes the waiter, if there is one, look at its deadline again.
    pub(crate) fn kick(&self, direction: Direction) {
        if let Some(waiter) = self.word(direction).kick() {
            Waiter::from_word(waiter).ready();
        }
    }

    /// Ends all waiting, now and later: words observed from now on are closed.
    pub(crate) fn close(&self) {
        for direction in [Direction::Read, Direction::Write] {
            if let Some(waiter) = self.word(direction).close() {
                Waiter::from_word(waiter).ready();
            }
        }
    }
}

/// Whether code that knows nothing of gort waited for the same number before (`transparent/`). The runtime
/// still watches it for that code, which is no reason to refuse it.
fn others_watch(fd: BorrowedFd<'_>) -> bool {
    #[cfg(feature = "transparent")]
    return (hooks().others_watch)(fd.as_raw_fd());
    #[cfg(not(feature = "transparent"))]
    {
        let _ = fd;
        false
    }
}

/// Code that knows nothing of gort may have waited for the same number, or may do so next: by the same epoll
/// instance, whose registration has changed.
fn watch_changed(fd: BorrowedFd<'_>) {
    #[cfg(feature = "transparent")]
    (hooks().watch_changed)(fd.as_raw_fd());
    #[cfg(not(feature = "transparent"))]
    let _ = fd;
}

/// A goroutine's wait with a deadline.
struct TimedWait<'a> {
    word: &'a PollWord,
    waiter: Waiter,
}

unsafe fn time_out(wait: *const (), _now: u64) -> Fired {
    // SAFETY: the waiter stops its timer before it leaves, so the data is still there.
    let wait = unsafe { &*wait.cast::<TimedWait<'_>>() };
    let waiter = wait.waiter.to_word();
    wait.word.cancel(waiter).then_some(waiter)
}

fn wait_as_thread(word: &PollWord, waiter: Waiter, deadline: u64) {
    poll_wait::ensure();
    let until = (deadline != NEVER)
        .then(|| Instant::now() + Duration::from_nanos(deadline.saturating_sub(nanotime())));
    if !park_thread_until(until) && !word.cancel(waiter.to_word()) {
        // The waker took us out of the word and is about to call ready.
        park_thread_until(None);
    }
}
