//! Waiting at a descriptor: try the I/O, and wait only if it would block.
//!
//! Any number of goroutines and threads may use one descriptor at once, as with std. Those that have to wait in the same
//! direction take turns: one of them waits in the poller, the others for their turn. The one that got what it waited
//! for passes the turn on, and the next one tries for itself, so nobody is woken in vain by the dozen and no edge is
//! forgotten: see netpoll/README.md.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::context::ambient;
use crate::netpoll::{Direction, Observed, Registration};
use crate::sync::{Mutex, MutexGuard};
use crate::sys::fd;
use crate::time::clock;
use crate::timer::NEVER;

/// What belongs to the open file: duplicates share it. Most have neither duplicates nor wishes, and so nothing of this
/// (`OnceLock`): one allocation and one miss less.
pub(super) type Shared = OnceLock<Arc<Wishes>>;

pub(super) struct Wishes {
    /// The user wants errors of kind `WouldBlock` instead of waits.
    nonblocking: AtomicBool,
    /// In nanoseconds; `NEVER` for none.
    timeouts: [AtomicU64; 2],
}

impl Wishes {
    fn none() -> Arc<Wishes> {
        Arc::new(Wishes { nonblocking: false.into(), timeouts: [NEVER.into(), NEVER.into()] })
    }
}

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As the user's timeout and mode say.
    AsSet,
    /// Until this moment, whatever they say; the error is `TimedOut`.
    Until(u64),
    /// As `AsSet`, for what the kernel gives no edges for: tries again from time to time.
    NoEdges,
}

/// The time between two attempts without edges, in nanoseconds.
const NAP: u64 = 2_000_000;

/// A wait that nobody can end early looks so often whether it should, in nanoseconds.
const NAP_UNPOLLED: u64 = 50_000_000;

pub(super) struct Gate {
    /// None: the descriptor cannot be polled (a regular file, say). It blocks its thread, in `gort::blocking`.
    pub(super) registration: Option<Registration>,
    fd: RawFd,
    closed: AtomicBool,
    turns: [Mutex<()>; 2],
    /// In nanoseconds of the monotonic clock; `NEVER` for none.
    deadlines: [AtomicU64; 2],
    /// The observation before a read that emptied the stream, or 0.
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

    /// For a duplicate.
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

    /// See [`wants_would_block`](Gate::wants_would_block).
    pub(super) fn set_would_block(&self, wanted: bool) {
        if wanted || self.shared.get().is_some() {
            self.wishes().nonblocking.store(wanted, Ordering::Relaxed);
        }
    }

    /// In nanoseconds; `NEVER` for none.
    #[inline]
    fn timeout(&self, direction: Direction) -> u64 {
        self.shared.get().map_or(NEVER, |wishes| wishes.timeouts[direction as usize].load(Ordering::Relaxed))
    }

    /// The longest wait of each later call in that direction.
    pub(super) fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) {
        let nanos = timeout.map_or(NEVER, |t| u64::try_from(t.as_nanos()).unwrap_or(NEVER));
        if nanos != NEVER || self.shared.get().is_some() {
            self.wishes().timeouts[direction as usize].store(nanos, Ordering::Relaxed);
        }
    }

    /// The moment after which calls in that direction fail, those that wait already included.
    pub(super) fn set_deadline(&self, direction: Direction, deadline: Option<Instant>) {
        let nanos = deadline.map_or(NEVER, clock::nanos_at);
        self.deadlines[direction as usize].store(nanos, Ordering::Relaxed);
        // After the store: either the waiter sees the new deadline, or this sees the waiter.
        if let Some(registration) = &self.registration {
            registration.kick(direction);
        }
    }

    /// Ends all waits with an error; later calls fail, too.
    pub(super) fn close(&self) {
        match &self.registration {
            Some(registration) => registration.close(),
            // Seen at the next look (`run_blocking`).
            None => self.closed.store(true, Ordering::Relaxed),
        }
    }

    /// Reads up to `wanted` bytes from a stream that gives all it has, as [`run`](Gate::run). If the last read emptied the
    /// stream, and nothing was heard of it since, this begins with the wait.
    ///
    /// Not for Unix sockets: a read from those ends where descriptors were sent along, or where another sender begins.
    #[inline]
    pub(super) fn read_stream(
        &self,
        wanted: usize,
        mut attempt: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Some(registration) = &self.registration else {
            return self.run_blocking(Direction::Read, Patience::AsSet, attempt);
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
        let result = self.run_on(registration, waiting, Direction::Read, Patience::AsSet, || {
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

    /// Returns the turn, whose timeout goes on.
    #[inline(never)]
    fn wait_before_reading(
        &self,
        registration: &Registration,
        observed: Observed,
    ) -> io::Result<Option<Waiting<'_>>> {
        if self.wants_would_block() {
            return Ok(None); // what has come may not have been heard of yet
        }
        let waiting = self.take_turn(Direction::Read, Patience::AsSet)?;
        self.wait(registration, &waiting, observed)?;
        Ok(Some(waiting))
    }

    /// Does `attempt` until it does not block.
    #[inline]
    pub(super) fn run<R>(
        &self,
        direction: Direction,
        patience: Patience,
        attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        match &self.registration {
            Some(registration) => self.run_on(registration, None, direction, patience, attempt),
            None => self.run_blocking(direction, patience, attempt),
        }
    }

    /// As [`run`](Gate::run), by one who may have its turn already.
    #[inline]
    fn run_on<'a, R>(
        &'a self,
        registration: &Registration,
        mut waiting: Option<Waiting<'a>>,
        direction: Direction,
        patience: Patience,
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
                waiting = Some(self.take_turn(direction, patience)?);
            }
            if let Some(waiting) = &waiting {
                self.wait(registration, waiting, observed)?;
            }
        }
    }

    /// As [`run`](Gate::run), for a descriptor that the poller does not know. It may be O_NONBLOCK all the same.
    #[cold]
    pub(super) fn run_blocking<R>(
        &self,
        direction: Direction,
        patience: Patience,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let waiting = self.begin(direction, patience);
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
                    // What epoll refuses because it is always ready may want to be waited for all the same (a file's lock).
                    std::thread::sleep(Duration::from_nanos(left.min(NAP)));
                }
                let nap = Duration::from_nanos(left.min(NAP_UNPOLLED));
                was_ready = fd::wait_until_ready(self.fd, direction == Direction::Write, nap);
            }
        })
    }

    /// Waits without regard to readiness; only [`close`](Gate::close) and a deadline end it early, with an error.
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
            registration.wait(direction, observed, end.min(deadline), unchanged);
        }
    }

    /// One whose timeout begins now, and who has not got its turn yet.
    fn begin(&self, direction: Direction, patience: Patience) -> Waiting<'_> {
        let timeout = self.timeout(direction);
        let (deadline, insists) = match patience {
            Patience::Until(deadline) => (deadline, true),
            _ if timeout == NEVER => (NEVER, false),
            _ => (clock::nanos().saturating_add(timeout), false),
        };
        let nap = if patience == Patience::NoEdges { NAP } else { NEVER };
        Waiting { direction, deadline, insists, nap, turn: None }
    }

    /// The attempt would block: becomes the one that waits.
    #[inline(never)]
    fn take_turn(&self, direction: Direction, patience: Patience) -> io::Result<Waiting<'_>> {
        let mut waiting = self.begin(direction, patience);
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

    /// Somebody else has the turn.
    #[cold]
    fn queue_for<'a>(&self, turn: &'a Mutex<()>, waiting: &mut Waiting<'a>) -> io::Result<()> {
        // A socket's waits are not those that a context limits.
        let _unlimited = ambient::suspend();
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

    #[inline(never)]
    fn wait(&self, registration: &Registration, waiting: &Waiting<'_>, observed: Observed) -> io::Result<()> {
        let direction = waiting.direction;
        let moment = &self.deadlines[direction as usize];
        let seen = moment.load(Ordering::Relaxed);
        let mut deadline = self.deadline_of(waiting)?;
        if waiting.nap != NEVER {
            deadline = deadline.min(clock::nanos() + waiting.nap);
        }
        registration.wait(direction, observed, deadline, || moment.load(Ordering::Relaxed) == seen);
        Ok(())
    }

    /// When this wait has to end, or the error if it had to already.
    fn deadline_of(&self, waiting: &Waiting<'_>) -> io::Result<u64> {
        let moment = self.deadlines[waiting.direction as usize].load(Ordering::Relaxed);
        let deadline = waiting.deadline.min(moment);
        if deadline == NEVER || clock::nanos() < deadline {
            return Ok(deadline);
        }
        Err(if waiting.insists || moment <= deadline { timed_out() } else { would_block() })
    }
}

/// One that has its turn to wait.
struct Waiting<'a> {
    direction: Direction,
    /// The end of its timeout.
    deadline: u64,
    /// Waits even if the user wants `WouldBlock`; and the end of its time is `TimedOut`.
    insists: bool,
    /// The longest time between two attempts.
    nap: u64,
    turn: Option<MutexGuard<'a, ()>>,
}

fn timed_out() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the deadline has passed")
}

/// As the kernel says it, also for timeouts: that is what std's users on Linux know.
fn would_block() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}

pub(super) fn closed() -> io::Error {
    io::Error::new(ErrorKind::ConnectionAborted, "closed by `close`")
}
