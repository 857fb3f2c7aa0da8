//! Waiting for I/O readiness, over epoll. The scheduler's `poller.rs` decides who polls, and until when; README.md
//! describes the states and argues why no wake-up is lost.
//!
//! - N1. A descriptor is registered once, for both directions, edge-triggered. An edge is a hint: whoever is woken
//!   tries its I/O and waits again if that would block.
//! - N2. While a descriptor is registered, some M blocks in the poller, or some P is not idle (and its M polls before
//!   it stops, or sysmon does).
//! - N3. Only the waits of one M block; any thread may poll without blocking.

mod desc;
mod word;
#[cfg(test)]
mod word_tests;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

pub(crate) use self::desc::Direction;
use self::desc::PollDesc;
pub(crate) use self::word::Observed;
use crate::sched::glist::GList;
use crate::sched::note::Note;
use crate::sched::reason::WaitReason;
use crate::sched::waiter::{self, Waiter};
use crate::sched::{boot, park, poller, section};
use crate::sys::clock::nanotime;
use crate::sys::epoll;
use crate::timer::{Fire, NEVER, Timer};

/// So many events are taken at once.
const BATCH: usize = 256;
/// The data of the eventfd's events.
const INTERRUPT: u64 = u64::MAX;

/// The epoll instance and the eventfd, or -1 as long as there are none.
static EPOLL: AtomicI32 = AtomicI32::new(-1);
static EVENTFD: AtomicI32 = AtomicI32::new(-1);
/// Takes the place of the eventfd when the process had no descriptor left for it.
static NOTE: Note = Note::new();
/// An interruption is under way that no poller has seen yet.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Descriptors that are registered now.
static REGISTERED: AtomicUsize = AtomicUsize::new(0);
/// Counts polls. The number of a poll tells its edges from earlier ones.
static POLLS: CachePadded<AtomicUsize> = CachePadded::new(AtomicUsize::new(0));

/// When the last one was.
static LAST_POLL: AtomicU64 = AtomicU64::new(0);

/// Creates the epoll instance unless it exists. At start-up, so that a later lack of descriptors does not matter, and
/// again for each registration in case it failed then.
pub(crate) fn init() -> io::Result<i32> {
    let existing = EPOLL.load(Ordering::Acquire);
    if existing >= 0 {
        return Ok(existing);
    }
    let (instance, eventfd) = (epoll::create()?, epoll::create_eventfd()?);
    epoll::add(instance.as_raw_fd(), eventfd.as_fd(), INTERRUPT)?;
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if EPOLL.load(Ordering::Acquire) < 0 {
        EVENTFD.store(eventfd.into_raw_fd(), Ordering::Relaxed);
        // Release: who sees the instance sees the eventfd.
        EPOLL.store(instance.into_raw_fd(), Ordering::Release);
        drop(guard);
        NOTE.set(); // whoever waits there comes here
    }
    Ok(EPOLL.load(Ordering::Acquire))
}

/// Polls: blocks the thread until a descriptor is ready, somebody interrupts, or the time is over; does not block if
/// the time is 0. Goroutines that became runnable are appended to `ready`; foreign threads are woken. On g0 or a thread
/// of the runtime's own.
pub(crate) fn wait(timeout_nanos: Option<u64>, ready: &GList) {
    let instance = EPOLL.load(Ordering::Acquire);
    if instance < 0 {
        if timeout_nanos != Some(0) {
            NOTE.wait_until(timeout_nanos.map(|n| Instant::now() + Duration::from_nanos(n)));
        }
        return;
    }
    let mut events = [const { MaybeUninit::uninit() }; BATCH];
    let events = epoll::wait(instance, &mut events, timeout_nanos);
    let version = POLLS.fetch_add(1, Ordering::Relaxed) + 1;
    LAST_POLL.store(nanotime(), Ordering::Relaxed);
    for event in events {
        if event.u64 == INTERRUPT {
            if timeout_nanos == Some(0) {
                // Not for us: for the M that blocks.
                epoll::signal_eventfd(EVENTFD.load(Ordering::Relaxed));
            } else {
                // A swap, to see what those did who found it set (AcqRel with `interrupt`).
                INTERRUPTED.swap(false, Ordering::SeqCst);
            }
            continue;
        }
        let Some(desc) = desc::of_event(event.u64) else { continue };
        let (readable, writable) = epoll::directions(event);
        let special = epoll::is_special(event);
        if readable {
            notify(desc, Direction::Read, version, special, ready);
        }
        if writable {
            notify(desc, Direction::Write, version, special, ready);
        }
    }
}

fn notify(desc: &PollDesc, direction: Direction, version: usize, special: bool, ready: &GList) {
    if let Some(waiter) = desc.word(direction).notify(version, special)
        && let Fire::Ready(g) = Waiter::from_word(waiter).ready_from_timer()
    {
        ready.push_back(g);
    }
}

/// Ends a blocking poll that is under way, or the next one.
pub(crate) fn interrupt() {
    if EPOLL.load(Ordering::Acquire) < 0 {
        NOTE.set();
    } else if !INTERRUPTED.swap(true, Ordering::SeqCst) {
        epoll::signal_eventfd(EVENTFD.load(Ordering::Relaxed));
    }
}

/// Whether somebody may wait for I/O: a descriptor is registered. Counting those would cost every wait two
/// contended increments; the descriptors change seldom.
#[inline]
pub(crate) fn has_waiters() -> bool {
    // SeqCst: see `poller::ensure`.
    REGISTERED.load(Ordering::SeqCst) != 0
}

/// How often somebody polled.
pub(crate) fn polls() -> usize {
    POLLS.load(Ordering::Relaxed)
}

/// When somebody last asked for I/O, and had an answer.
pub(crate) fn last_poll() -> u64 {
    LAST_POLL.load(Ordering::Relaxed)
}

/// A registered descriptor. Must be [`deregister`](Registration::deregister)ed before the descriptor is closed.
pub(crate) struct Registration(&'static PollDesc);

impl Registration {
    /// Tells the poller about `fd`. An error of EPERM: it is always ready (a regular file).
    pub(crate) fn new(fd: BorrowedFd<'_>) -> io::Result<Registration> {
        boot::ensure();
        let instance = init()?;
        let desc = desc::allocate()?;
        REGISTERED.fetch_add(1, Ordering::SeqCst);
        if let Err(error) = epoll::add(instance, fd, desc.data()) {
            REGISTERED.fetch_sub(1, Ordering::SeqCst);
            desc::free(desc);
            return Err(error);
        }
        Ok(Registration(desc))
    }

    /// Undoes `new`. Explicitly, because the kernel would do it only when the last duplicate of `fd` is closed.
    pub(crate) fn deregister(self, fd: BorrowedFd<'_>) {
        let _already_gone = epoll::remove(EPOLL.load(Ordering::Acquire), fd);
        REGISTERED.fetch_sub(1, Ordering::SeqCst);
        desc::free(self.0);
    }

    /// To be called before an attempt at I/O.
    #[inline]
    pub(crate) fn observe(&self, direction: Direction) -> Observed {
        self.0.word(direction).observe()
    }

    /// Waits until something may have changed since `observed`, or until `deadline` (in nanoseconds of the monotonic
    /// clock). `still_valid` is asked once the wait can be [`kick`](Registration::kick)ed: if it says no, nobody
    /// waits. Only one at a time may wait for each direction.
    pub(crate) fn wait(
        &self,
        direction: Direction,
        observed: Observed,
        deadline: u64,
        still_valid: impl FnOnce() -> bool,
    ) {
        boot::ensure(); // in a forked child nobody polls, and this says so
        let word = self.0.word(direction);
        let waiter = Waiter::current();
        if !word.begin_wait(observed, waiter.to_word()) {
            return;
        }
        if !still_valid() && word.cancel(waiter.to_word()) {
            return;
        }
        // From here on exactly one `ready` comes, unless the deadline does.
        let reason = match direction {
            Direction::Read => WaitReason::IoRead,
            Direction::Write => WaitReason::IoWrite,
        };
        let object = ptr::from_ref(self.0) as usize;
        match section::current() {
            Some(g) if deadline == NEVER => park::park_goroutine(g, reason, object),
            Some(g) => {
                let timed = TimedWait { word, waiter };
                let timer = Timer::new(time_out, ptr::from_ref(&timed).cast());
                // SAFETY: timer and data live here until the call has returned.
                unsafe { park::park_with_timer(g, reason, object, &timer, deadline) };
            }
            None => wait_as_thread(word, waiter, deadline),
        }
    }

    /// Lets `waiter`, which does not park, be readied when something may have changed since `observed`. False: it has.
    #[cfg(feature = "hyper")]
    pub(crate) fn begin_wait(&self, direction: Direction, observed: Observed, waiter: Waiter) -> bool {
        let waits = self.0.word(direction).begin_wait(observed, waiter.to_word());
        if waits && section::current().is_none() {
            poller::ensure();
        }
        waits
    }

    /// Takes back a [`begin_wait`](Registration::begin_wait). False: it was or will be readied.
    #[cfg(feature = "hyper")]
    pub(crate) fn cancel(&self, direction: Direction, waiter: Waiter) -> bool {
        self.0.word(direction).cancel(waiter.to_word())
    }

    /// Makes whoever waits look at its deadline again.
    pub(crate) fn kick(&self, direction: Direction) {
        if let Some(waiter) = self.0.word(direction).kick() {
            Waiter::from_word(waiter).ready();
        }
    }

    /// Ends all waiting, now and later: words observed from now on are closed.
    pub(crate) fn close(&self) {
        for direction in [Direction::Read, Direction::Write] {
            if let Some(waiter) = self.0.word(direction).close() {
                Waiter::from_word(waiter).ready();
            }
        }
    }
}

/// A goroutine's wait with a deadline. The word decides between deadline and edge.
struct TimedWait<'a> {
    word: &'a word::PollWord,
    waiter: Waiter,
}

unsafe fn time_out(wait: *const (), _now: u64) -> Fire {
    // SAFETY: the waiter stops its timer before it leaves, so the data is still there.
    let wait = unsafe { &*wait.cast::<TimedWait<'_>>() };
    let waiter = wait.waiter;
    if wait.word.cancel(waiter.to_word()) { waiter.ready_from_timer() } else { Fire::Nothing }
}

fn wait_as_thread(word: &word::PollWord, waiter: Waiter, deadline: u64) {
    poller::ensure();
    let until = (deadline != NEVER)
        .then(|| Instant::now() + Duration::from_nanos(deadline.saturating_sub(nanotime())));
    if !waiter::park_thread_until(until) && !word.cancel(waiter.to_word()) {
        // Somebody took us out of the word and is about to call ready.
        waiter::park_thread_until(None);
    }
}
