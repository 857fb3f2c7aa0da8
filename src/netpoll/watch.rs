//! Watches: an epoll instance each, and who waits there. There is one for each CPU (for several, if there are fewer Ps). All
//! descriptors begin in the first, and those that are worth it move to the watch of the CPU on which their packets are processed
//! (`home.rs`); README.md says why.
//!
//! - W1. A watch that has descriptors is *attended*: an M blocks there; or some P is not idle, whose M looks after it before it
//!   stops; or sysmon sees that nobody does. See `sched/poller.rs`.
//! - W2. At most one M blocks in each.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::sched::note::Note;
use crate::sys::clock::nanotime;
use crate::sys::epoll::{self, Event};
use crate::sys::thread;

/// More CPUs share watches.
const MAX: usize = 64;
/// The data of the eventfd's events.
const INTERRUPT: u64 = u64::MAX;

pub(crate) struct Watch {
    /// The epoll instance and the eventfd, or -1 as long as there are none.
    epoll: AtomicI32,
    eventfd: AtomicI32,
    /// Takes the place of the eventfd when the process had no descriptor left for it.
    note: Note,
    /// An interruption is under way that no poller has seen yet.
    interrupted: AtomicBool,
    /// Descriptors that are registered here now.
    registered: AtomicUsize,
    /// An M blocks here, or is about to.
    attended: AtomicBool,
    /// When somebody last asked, and had an answer.
    last_poll: AtomicU64,
}

static WATCHES: [CachePadded<Watch>; MAX] = [const { CachePadded::new(Watch::new()) }; MAX];
/// So many are in use. Set once, before the first registration.
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Decides how many there are.
pub(super) fn init(procs: usize) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    COUNT.store(procs.min(cpus).clamp(1, MAX), Ordering::Relaxed);
}

/// The watch of the number `index`, or of that CPU.
pub(crate) fn at(index: usize) -> &'static Watch {
    &WATCHES[index % count()]
}

/// All that there are, the one of the calling thread's CPU first.
pub(crate) fn all() -> impl Iterator<Item = &'static Watch> {
    let own = if count() == 1 { 0 } else { thread::cpu() % count() };
    (own..own + count()).map(at)
}

/// How many there are.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

impl Watch {
    const fn new() -> Watch {
        Watch {
            epoll: AtomicI32::new(-1),
            eventfd: AtomicI32::new(-1),
            note: Note::new(),
            interrupted: AtomicBool::new(false),
            registered: AtomicUsize::new(0),
            attended: AtomicBool::new(false),
            last_poll: AtomicU64::new(0),
        }
    }

    /// Creates the epoll instance unless it exists.
    pub(super) fn open(&self) -> io::Result<()> {
        if self.instance().is_some() {
            return Ok(());
        }
        let (instance, eventfd) = (epoll::create()?, epoll::create_eventfd()?);
        epoll::add(instance.as_raw_fd(), eventfd.as_fd(), INTERRUPT)?;
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.instance().is_none() {
            self.eventfd.store(eventfd.into_raw_fd(), Ordering::Relaxed);
            // Release: who sees the instance sees the eventfd.
            self.epoll.store(instance.into_raw_fd(), Ordering::Release);
            drop(guard);
            self.note.set(); // whoever waits there comes here
        }
        Ok(())
    }

    fn instance(&self) -> Option<i32> {
        let instance = self.epoll.load(Ordering::Acquire);
        (instance >= 0).then_some(instance)
    }

    /// Its number.
    pub(crate) fn index(&'static self) -> usize {
        (ptr::from_ref(self).addr() - WATCHES.as_ptr().addr()) / size_of_val(&WATCHES[0])
    }

    /// Registers `fd`; its events carry `data`.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, data: u64) -> io::Result<()> {
        self.open()?;
        // SeqCst, and before the descriptor can be ready: see `poller::ensure`.
        self.registered.fetch_add(1, Ordering::SeqCst);
        let added = epoll::add(self.epoll.load(Ordering::Acquire), fd, data);
        if added.is_err() {
            self.registered.fetch_sub(1, Ordering::SeqCst);
        }
        added
    }

    /// Undoes [`add`](Watch::add). Explicitly, because the kernel would do it only when the last duplicate of `fd` is closed.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        let _already_gone = epoll::remove(self.epoll.load(Ordering::Acquire), fd);
        self.registered.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether somebody may wait for I/O here.
    pub(crate) fn has_descriptors(&self) -> bool {
        // SeqCst: see `poller::ensure`.
        self.registered.load(Ordering::SeqCst) != 0
    }

    /// The caller will block here. False: somebody else does.
    #[must_use]
    pub(crate) fn attend(&self) -> bool {
        // SeqCst: see `poller::ensure`.
        !self.attended.load(Ordering::Relaxed) && !self.attended.swap(true, Ordering::SeqCst)
    }

    /// Ends what [`attend`](Watch::attend) began.
    pub(crate) fn leave(&self) {
        self.attended.store(false, Ordering::SeqCst);
    }

    /// Whether an M blocks here, or is about to.
    pub(crate) fn is_attended(&self) -> bool {
        self.attended.load(Ordering::SeqCst)
    }

    /// Whether there are descriptors that no M blocks for.
    pub(crate) fn is_unattended(&self) -> bool {
        self.has_descriptors() && !self.is_attended()
    }

    /// When somebody last asked for I/O here, and had an answer.
    pub(crate) fn last_poll(&self) -> u64 {
        self.last_poll.load(Ordering::Relaxed)
    }

    /// Ends a blocking poll that is under way, or the next one.
    pub(crate) fn interrupt(&self) {
        if self.instance().is_none() {
            self.note.set();
        } else if !self.interrupted.swap(true, Ordering::SeqCst) {
            epoll::signal_eventfd(self.eventfd.load(Ordering::Relaxed));
        }
    }

    /// The events that there are; waits for the first one as long as told, `None`: for ever. Interruptions are none.
    pub(super) fn events<'a>(
        &self,
        timeout_nanos: Option<u64>,
        room: &'a mut [MaybeUninit<Event>],
    ) -> impl Iterator<Item = &'a Event> {
        let events = match self.instance() {
            Some(instance) => {
                let events = epoll::wait(instance, room, timeout_nanos);
                self.last_poll.store(nanotime(), Ordering::Relaxed);
                events
            }
            None => {
                if timeout_nanos != Some(0) {
                    self.note.wait_until(timeout_nanos.map(|n| Instant::now() + Duration::from_nanos(n)));
                }
                &[]
            }
        };
        if events.iter().any(|event| event.u64 == INTERRUPT) {
            if timeout_nanos == Some(0) {
                // Not for us: for the M that blocks.
                epoll::signal_eventfd(self.eventfd.load(Ordering::Relaxed));
            } else {
                // A swap, to see what those did who found it set (AcqRel with `interrupt`).
                self.interrupted.swap(false, Ordering::SeqCst);
            }
        }
        events.iter().filter(|event| event.u64 != INTERRUPT)
    }
}
