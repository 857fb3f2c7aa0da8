//! The loop behind every I/O call: try the I/O, and wait for readiness only if it would block.
//!
//! Any number of goroutines and threads may use one descriptor at once, as with std. Those that must wait in
//! the same direction take turns: one of them waits in the netpoller, the others queue for the turn. The one
//! whose attempt succeeds passes the turn on, and the next one makes its own attempt. So an edge does not
//! wake a crowd in vain, and no edge is lost: see netpoll/README.md.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::netpoll::{Direction, Observed, Registration};
use crate::sched::boot;
use crate::sched::park::clock;
use crate::sched::park::limit;
use crate::sync::{Mutex, MutexGuard};
use crate::sys::fd;
use crate::timer::NEVER;

/// The user's settings for the open file, which duplicates of the descriptor share. Most descriptors have
/// neither duplicates nor settings, so this is allocated only when needed (`OnceLock`), which saves an
/// allocation and a cache miss.
pub(super) type Shared = OnceLock<Arc<Wishes>>;

pub(super) struct Wishes {
    /// The user wants errors of kind `WouldBlock` instead of waits.
    nonblocking: AtomicBool,
    /// The longest wait of a call in each direction, in nanoseconds; `NEVER` for no limit.
    timeouts: [AtomicU64; 2],
}

impl Wishes {
    fn none() -> Arc<Wishes> {
        Arc::new(Wishes { nonblocking: false.into(), timeouts: [NEVER.into(), NEVER.into()] })
    }
}

/// How long a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// As the user's timeout and mode say.
    AsSet,
    /// Until this moment, regardless of the user's timeout and mode; then the error is `TimedOut`.
    Until(u64),
    /// Like `AsSet`, for conditions of which the kernel gives no edge: tries again every [`NAP`].
    NoEdges,
}

/// The time between two attempts where no edge tells when to try again, in nanoseconds.
const NAP: u64 = 2_000_000;

/// The longest single wait on an unpolled descriptor, in nanoseconds. Nothing can end that wait early, so the
/// caller checks for `close` and a new deadline this often.
const NAP_UNPOLLED: u64 = 50_000_000;

/// Waiting at one descriptor: its registration, turns, timeouts and deadlines.
pub(super) struct Gate {
    /// `None` if the descriptor cannot be polled (a regular file, say). Calls then block their thread, in
    /// `gort::blocking`.
    pub(super) registration: Option<Registration>,
    fd: RawFd,
    /// Set by `close`, if there is no registration.
    closed: AtomicBool,
    /// For each direction, the right to wait in the netpoller.
    turns: [Mutex<()>; 2],
    /// The deadline of each direction, in nanoseconds of the monotonic clock; `NEVER` for none.
    deadlines: [AtomicU64; 2],
    /// The poll word as observed before the last read that emptied the stream, or 0.
    pub(super) drained: AtomicUsize,
    shared: Shared,
}

impl Gate {
    pub(super) fn new(registration: Option<Registration>, fd: BorrowedFd<'_>, shared: Shared) -> Gate {
        let turns = [Mutex::new(()), Mutex::new(())];
        let deadlines = [NEVER.into(), NEVER.into()];
        Gate {
            registration,
            fd: fd.as_raw_fd(),
            closed: AtomicBool::new(false),
            turns,
            deadlines,
            drained: AtomicUsize::new(0),
            shared,
        }
    }

    /// The settings, to be shared with a duplicate.
    pub(super) fn share(&self) -> Shared {
        self.wishes().clone().into()
    }

    fn wishes(&self) -> &Arc<Wishes> {
        self.shared.get_or_init(Wishes::none)
    }

    /// Whether the user wants errors of kind `WouldBlock` instead of waits.
    #[inline]
    pub(super) fn wants_would_block(&self) -> bool {
        self.shared.get().is_some_and(|wishes| wishes.nonblocking.load(Ordering::Relaxed))
    }

    /// Sets whether the user wants errors of kind `WouldBlock` instead of waits.
    pub(super) fn set_would_block(&self, wanted: bool) {
        if wanted || self.shared.get().is_some() {
            self.wishes().nonblocking.store(wanted, Ordering::Relaxed);
        }
    }

    /// The longest wait of a call in that direction, in nanoseconds; `NEVER` for no limit.
    #[inline]
    fn timeout(&self, direction: Direction) -> u64 {
        self.shared.get().map_or(NEVER, |wishes| wishes.timeouts[direction as usize].load(Ordering::Relaxed))
    }

    /// Sets the longest wait of each later call in that direction.
    pub(super) fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) {
        let nanos = timeout.map_or(NEVER, |t| u64::try_from(t.as_nanos()).unwrap_or(NEVER));
        if nanos != NEVER || self.shared.get().is_some() {
            self.wishes().timeouts[direction as usize].store(nanos, Ordering::Relaxed);
        }
    }

    /// Sets the moment after which calls in that direction fail, including calls that are already waiting.
    pub(super) fn set_deadline(&self, direction: Direction, deadline: Option<Instant>) {
        let nanos = deadline.map_or(NEVER, clock::nanos_at);
        self.deadlines[direction as usize].store(nanos, Ordering::Relaxed);
        // The store comes first: either the waiter sees the new deadline, or `kick` sees the waiter.
        if let Some(registration) = &self.registration {
            registration.kick(direction);
        }
    }

    /// Ends all waits with an error; later calls fail with it too.
    pub(super) fn close(&self) {
        match &self.registration {
            Some(registration) => registration.close(),
            // `run_blocking` sees it before its next attempt.
            None => self.closed.store(true, Ordering::Relaxed),
        }
    }

    /// Like [`run`](Gate::run), for reading up to `wanted` bytes from a stream whose reads return all that is
    /// there. If the last read emptied the stream and no edge has come since, this waits before the first
    /// attempt.
    ///
    /// Not for Unix sockets: a read there also ends where descriptors were sent along, or where another
    /// sender begins.
    #[inline]
    pub(super) fn read_stream(
        &self,
        wanted: usize,
        mut attempt: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Some(registration) = &self.registration else {
            return self.run_blocking(Direction::Read, WaitMode::AsSet, attempt);
        };
        let first = registration.observe(Direction::Read);
        let waiting = if first.to_word() == self.drained.load(Ordering::Relaxed)
            && first.is_plain_edge()
            && wanted != 0
        {
            self.wait_before_reading(registration, first)?
        } else {
            None
        };
        let mut observed = None;
        let result = self.run_registered(registration, waiting, Direction::Read, WaitMode::AsSet, || {
            observed = Some(registration.observe(Direction::Read));
            attempt()
        });
        if let (Ok(1..), Some(observed)) = (&result, observed)
            && result.as_ref().is_ok_and(|&length| length < wanted)
            && observed.is_plain_edge()
        {
            self.drained.store(observed.to_word(), Ordering::Relaxed);
        }
        result
    }

    /// Waits for the next edge. Returns the turn, with which the caller goes on under the same timeout.
    #[inline(never)]
    fn wait_before_reading(
        &self,
        registration: &Registration,
        observed: Observed,
    ) -> io::Result<Option<Waiting<'_>>> {
        if self.wants_would_block() {
            return Ok(None); // data may have come that no poll has reported yet: try to read
        }
        let waiting = self.take_turn(Direction::Read, WaitMode::AsSet)?;
        self.wait(registration, &waiting, observed)?;
        Ok(Some(waiting))
    }

    /// Repeats `attempt` until it does not return `WouldBlock`; waits for readiness before each repetition.
    #[inline]
    pub(super) fn run<R>(
        &self,
        direction: Direction,
        mode: WaitMode,
        attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        match &self.registration {
            Some(registration) => self.run_registered(registration, None, direction, mode, attempt),
            None => self.run_blocking(direction, mode, attempt),
        }
    }

    /// Like [`run`](Gate::run), for a registered descriptor. `waiting` holds the turn, if the caller has it
    /// already.
    #[inline]
    fn run_registered<'a, R>(
        &'a self,
        registration: &Registration,
        mut waiting: Option<Waiting<'a>>,
        direction: Direction,
        mode: WaitMode,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let observed = registration.observe(direction);
            if observed.is_closed() {
                return Err(closed());
            }
            match attempt() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            if waiting.is_none() {
                waiting = Some(self.take_turn(direction, mode)?);
            }
            if let Some(waiting) = &waiting {
                self.wait(registration, waiting, observed)?;
            }
        }
    }

    /// Like [`run`](Gate::run), for a descriptor that is not registered with the netpoller. It may be
    /// O_NONBLOCK nevertheless.
    #[cold]
    pub(super) fn run_blocking<R>(
        &self,
        direction: Direction,
        mode: WaitMode,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let waiting = self.begin(direction, mode);
        crate::blocking(|| {
            let mut was_ready = false;
            loop {
                if self.closed.load(Ordering::Relaxed) {
                    return Err(closed());
                }
                match attempt() {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error)
                        if error.kind() == ErrorKind::WouldBlock
                            && (waiting.insists || !self.wants_would_block()) => {}
                    result => return result,
                }
                let left = self.deadline_of(&waiting)?.saturating_sub(clock::nanos()).min(waiting.nap);
                if was_ready {
                    // `poll` says that the descriptor is ready, but the attempt would block: a regular file
                    // is always ready, even if the attempt waits for a lock on it. Sleep instead of spinning.
                    std::thread::sleep(Duration::from_nanos(left.min(NAP)));
                }
                let nap = Duration::from_nanos(left.min(NAP_UNPOLLED));
                was_ready = fd::wait_until_ready(self.fd, direction == Direction::Write, nap);
            }
        })
    }

    /// Waits for `pause`, regardless of readiness. Only [`close`](Gate::close) and a deadline end the wait
    /// early, with an error.
    pub(super) fn pause(&self, direction: Direction, pause: Duration) -> io::Result<()> {
        let Some(registration) = &self.registration else {
            crate::sleep(pause);
            return Ok(());
        };
        let end = clock::nanos_at(clock::now() + pause);
        let _turn = self.turns[direction as usize].lock();
        let moment = &self.deadlines[direction as usize];
        loop {
            let observed = registration.observe(direction);
            if observed.is_closed() {
                return Err(closed());
            }
            let (now, deadline) = (clock::nanos(), moment.load(Ordering::Relaxed));
            if now >= deadline {
                return Err(timed_out());
            }
            if now >= end {
                return Ok(());
            }
            let unchanged = || moment.load(Ordering::Relaxed) == deadline;
            boot::ensure(); // in a forked child no M polls, and this says so
            registration.wait(direction, observed, end.min(deadline), unchanged);
        }
    }

    /// A call that begins to wait: its timeout starts now, and it does not have the turn yet.
    fn begin(&self, direction: Direction, mode: WaitMode) -> Waiting<'_> {
        let timeout = self.timeout(direction);
        let (deadline, insists) = match mode {
            WaitMode::Until(deadline) => (deadline, true),
            _ if timeout == NEVER => (NEVER, false),
            _ => (clock::nanos().saturating_add(timeout), false),
        };
        let nap = if mode == WaitMode::NoEdges { NAP } else { NEVER };
        Waiting { direction, deadline, insists, nap, turn: None }
    }

    /// Gets the turn after an attempt that would block. Fails with `WouldBlock` if the user does not want to
    /// wait.
    #[inline(never)]
    fn take_turn(&self, direction: Direction, mode: WaitMode) -> io::Result<Waiting<'_>> {
        let mut waiting = self.begin(direction, mode);
        if !waiting.insists && self.wants_would_block() {
            return Err(would_block());
        }
        let turn = &self.turns[direction as usize];
        waiting.turn = turn.try_lock();
        if waiting.turn.is_none() {
            self.queue_for(turn, &mut waiting)?;
        }
        Ok(waiting)
    }

    /// Waits for the turn, which another call holds.
    #[cold]
    fn queue_for<'a>(&self, turn: &'a Mutex<()>, waiting: &mut Waiting<'a>) -> io::Result<()> {
        // `Context::limit` does not apply to waits for I/O.
        let _unlimited = limit::suspend();
        while waiting.turn.is_none() {
            let until = self.deadline_of(waiting)?;
            waiting.turn = match until {
                NEVER => Some(turn.lock()),
                _ => turn.try_lock_until(
                    clock::now() + Duration::from_nanos(until.saturating_sub(clock::nanos())),
                ),
            };
        }
        Ok(())
    }

    /// Waits in the netpoller until an edge, a deadline, a changed deadline or `close`.
    #[inline(never)]
    fn wait(&self, registration: &Registration, waiting: &Waiting<'_>, observed: Observed) -> io::Result<()> {
        let direction = waiting.direction;
        let moment = &self.deadlines[direction as usize];
        let seen = moment.load(Ordering::Relaxed);
        let mut deadline = self.deadline_of(waiting)?;
        if waiting.nap != NEVER {
            deadline = deadline.min(clock::nanos() + waiting.nap);
        }
        boot::ensure(); // in a forked child no M polls, and this says so
        registration.wait(direction, observed, deadline, || moment.load(Ordering::Relaxed) == seen);
        Ok(())
    }

    /// The moment when this wait must end, or the error if that moment has passed.
    fn deadline_of(&self, waiting: &Waiting<'_>) -> io::Result<u64> {
        let moment = self.deadlines[waiting.direction as usize].load(Ordering::Relaxed);
        let deadline = waiting.deadline.min(moment);
        if deadline == NEVER || clock::nanos() < deadline {
            return Ok(deadline);
        }
        Err(if waiting.insists || moment <= deadline { timed_out() } else { would_block() })
    }
}

/// A call that waits, or is about to.
struct Waiting<'a> {
    direction: Direction,
    /// When its timeout ends, in nanoseconds of the monotonic clock.
    deadline: u64,
    /// It waits even if the user wants `WouldBlock`, and fails with `TimedOut` when its time is over.
    insists: bool,
    /// The longest time between two attempts, in nanoseconds.
    nap: u64,
    /// The right to wait in the netpoller, once it has that.
    turn: Option<MutexGuard<'a, ()>>,
}

fn timed_out() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the deadline has passed")
}

/// The kernel's own error, EAGAIN. It is also the error of a timeout, as with std on Linux.
fn would_block() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}

pub(super) fn closed() -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, "closed by `close`")
}
