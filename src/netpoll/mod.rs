//! The netpoller: finds out through epoll which descriptors are ready. This layer knows waiters as numbers
//! only. The scheduler decides which M polls, and until when (`sched/idle/poll_wait.rs`), and parks
//! goroutines that wait (`sched/park/io_wait.rs`). README.md has the states and the argument why no wake-up
//! is lost.
//!
//! - N1. A descriptor is registered once, for both directions, edge-triggered. An edge is a hint: a goroutine
//!   that is woken tries its I/O and waits again if that would block.
//! - N2. While a descriptor is registered, some M blocks in the poller, or some P is not idle (and its M
//!   polls before it stops, or sysmon does).
//! - N3. Only one M at a time polls with blocking; any thread may poll without blocking.

mod desc;
mod registration;
mod word;
#[cfg(test)]
mod word_tests;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

pub(crate) use self::desc::Direction;
pub(crate) use self::registration::Registration;
pub(crate) use self::word::{Observed, PollWord};
use crate::base::note::Note;
use crate::sys::clock::nanotime;
use crate::sys::epoll;

/// The most events that one poll returns.
const BATCH: usize = 256;
/// The event data of the eventfd.
const INTERRUPT: u64 = u64::MAX;

static POLLER: Poller = Poller {
    epoll: AtomicI32::new(-1),
    eventfd: AtomicI32::new(-1),
    note: Note::new(),
    interrupted: AtomicBool::new(false),
    registered: AtomicUsize::new(0),
    polls: CachePadded::new(AtomicUsize::new(0)),
    last_poll: AtomicU64::new(0),
};

/// The epoll instance of the process, and statistics of its use.
struct Poller {
    /// The epoll instance and the eventfd, or -1 while there are none.
    epoll: AtomicI32,
    eventfd: AtomicI32,
    /// Used instead of the eventfd while the process has no descriptor left for it.
    note: Note,
    /// The eventfd was signalled, and no blocking poll has seen it yet.
    interrupted: AtomicBool,
    /// Descriptors that are registered now.
    registered: AtomicUsize,
    /// Counts polls. The number of a poll distinguishes its edges from earlier ones.
    polls: CachePadded<AtomicUsize>,
    /// When the last poll was (ns).
    last_poll: AtomicU64,
}

/// Creates the epoll instance unless it exists. Called at start-up, so that a later lack of descriptors does
/// not matter, and again for each registration in case it failed then.
pub(crate) fn init() -> io::Result<i32> {
    let existing = POLLER.epoll.load(Ordering::Acquire);
    if existing >= 0 {
        return Ok(existing);
    }
    let (instance, eventfd) = (epoll::create()?, epoll::create_eventfd()?);
    epoll::add(instance.as_raw_fd(), eventfd.as_fd(), INTERRUPT)?;
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if POLLER.epoll.load(Ordering::Acquire) < 0 {
        POLLER.eventfd.store(eventfd.into_raw_fd(), Ordering::Relaxed);
        // Release: a thread that sees the instance sees the eventfd.
        POLLER.epoll.store(instance.into_raw_fd(), Ordering::Release);
        drop(guard);
        POLLER.note.set(); // an M that waits on the Note uses epoll from now on
    }
    Ok(POLLER.epoll.load(Ordering::Acquire))
}

/// Polls: blocks the thread until a descriptor is ready, another thread interrupts, or the timeout has
/// passed; does not block if the timeout is 0. Calls `wake` with each waiter whose descriptor became ready.
/// The caller is on g0, or a service thread of the runtime.
pub(crate) fn wait(timeout_nanos: Option<u64>, mut wake: impl FnMut(usize)) {
    let instance = POLLER.epoll.load(Ordering::Acquire);
    if instance < 0 {
        if timeout_nanos != Some(0) {
            POLLER.note.wait_until(timeout_nanos.map(|n| Instant::now() + Duration::from_nanos(n)));
        }
        return;
    }
    let mut events = [const { MaybeUninit::uninit() }; BATCH];
    let events = epoll::wait(instance, &mut events, timeout_nanos);
    let version = POLLER.polls.fetch_add(1, Ordering::Relaxed) + 1;
    POLLER.last_poll.store(nanotime(), Ordering::Relaxed);
    for event in events {
        if event.u64 == INTERRUPT {
            if timeout_nanos == Some(0) {
                // The interruption is meant for the M that blocks, so signal it again.
                epoll::signal_eventfd(POLLER.eventfd.load(Ordering::Relaxed));
            } else {
                // A swap, so that this thread also sees what threads did that found the flag set in
                // `interrupt`.
                POLLER.interrupted.swap(false, Ordering::SeqCst);
            }
            continue;
        }
        let Some(desc) = desc::of_event(event.u64) else { continue };
        let (readable, writable) = epoll::directions(event);
        let special = epoll::is_special(event);
        for (ready, direction) in [(readable, Direction::Read), (writable, Direction::Write)] {
            if ready && let Some(waiter) = desc.word(direction).notify(version, special) {
                wake(waiter);
            }
        }
    }
}

/// Ends a blocking poll that is under way, or the next one.
pub(crate) fn interrupt() {
    if POLLER.epoll.load(Ordering::Acquire) < 0 {
        POLLER.note.set();
    } else if !POLLER.interrupted.swap(true, Ordering::SeqCst) {
        epoll::signal_eventfd(POLLER.eventfd.load(Ordering::Relaxed));
    }
}

/// Whether someone may wait for I/O, because a descriptor is registered. Counting the waiters themselves
/// would cost every wait two contended increments; registrations change rarely.
#[inline]
pub(crate) fn has_waiters() -> bool {
    // SeqCst: see `poll_wait::ensure`.
    POLLER.registered.load(Ordering::SeqCst) != 0
}

/// How many descriptors are registered.
#[cfg(feature = "debug")]
pub(crate) fn registered() -> usize {
    POLLER.registered.load(Ordering::Relaxed)
}

/// How many polls there were so far.
pub(crate) fn polls() -> usize {
    POLLER.polls.load(Ordering::Relaxed)
}

/// When the last poll was (ns).
pub(crate) fn last_poll() -> u64 {
    POLLER.last_poll.load(Ordering::Relaxed)
}

/// Starts to watch `fd`, whose events carry `data`. The error EEXIST means that it is watched already; with
/// `instead` this ends that.
fn add(fd: BorrowedFd<'_>, data: u64, instead: bool) -> io::Result<()> {
    let instance = init()?;
    // SeqCst, and before the descriptor can become ready: see `poll_wait::ensure`.
    POLLER.registered.fetch_add(1, Ordering::SeqCst);
    if instead {
        let _already_gone = epoll::remove(instance, fd);
    }
    let added = epoll::add(instance, fd, data);
    if added.is_err() {
        POLLER.registered.fetch_sub(1, Ordering::SeqCst);
    }
    added
}

/// Watches `fd` for readiness to read and to write, as `directions` say, and for nothing else from now on.
/// `counted`: [`POLLER`]'s count includes its events' `data` already.
#[cfg(feature = "transparent")]
fn watch(fd: BorrowedFd<'_>, data: u64, directions: (bool, bool), counted: bool) -> io::Result<()> {
    let instance = init()?;
    // SeqCst, and before the descriptor can become ready: see `poll_wait::ensure`.
    POLLER.registered.fetch_add(usize::from(!counted), Ordering::SeqCst);
    let watched = match epoll::modify(instance, fd, data, directions) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
            epoll::add_for(instance, fd, data, directions)
        }
        result => result,
    };
    if watched.is_err() {
        POLLER.registered.fetch_sub(1, Ordering::SeqCst);
    }
    watched
}

/// Undoes [`add`]. The kernel would do it by itself only when the last duplicate of `fd` is closed.
fn remove(fd: BorrowedFd<'_>) {
    let _already_gone = epoll::remove(POLLER.epoll.load(Ordering::Acquire), fd);
    POLLER.registered.fetch_sub(1, Ordering::SeqCst);
}
