//! Carries signals from the signal handler to the channels of [`notify`](super::notify).
//!
//! The handler sets the signal's bit in `PENDING` and writes to an eventfd. A goroutine, the dispatcher,
//! reads the eventfd, takes the bits and sends the signals to all channels that requested them, without
//! waiting. So a signal costs one poll of the netpoller, and nothing wakes up while none arrives. Because the
//! dispatcher waits for I/O, the deadlock detector knows that something may still happen. The dispatcher
//! exists only while a channel is registered.
//!
//! - D1. The eventfd is made once and never closed: the handler may use its number at any time.
//! - D2. Each dispatcher polls its own duplicate of the eventfd, so a dispatcher that was told to end and its
//!   successor have separate registrations with the netpoller. Whichever of them reads the count then takes
//!   all bits, and delivers to the channels that are registered at that time.
//! - D3. `REGISTRY` guards the list of channels with their signals, and with it the actions of those signals.
//!
//! No signal is lost: the handler sets the bit before it writes the count, and the dispatcher takes the bits
//! after it has read the count. A bit that is set while the dispatcher takes bits is followed by its own
//! write.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::Location;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::{SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGURG, Signal};
use crate::chan::Sender;
use crate::goroutine::spawn_in_bubble;
use crate::io::core::{Found, Io};
use crate::netpoll::Direction;
use crate::stack::size::Need;
use crate::sync::Mutex;
use crate::sys::signal::{self, Saved};
use crate::sys::{epoll, fd, restart};

/// The signals that have arrived and are not yet delivered. Numbers go from 1 to 64; signal n is bit n - 1.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// The eventfd's number, for the handler (D1).
static EVENTFD: AtomicI32 = AtomicI32::new(-1);

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

extern "C" fn on_signal(number: i32, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // Release pairs with the dispatcher's swap: a dispatcher that reads the count written below finds the
    // bit.
    PENDING.fetch_or(bit(number), Ordering::Release);
    epoll::signal_eventfd(EVENTFD.load(Ordering::Relaxed));
    // SAFETY: `context` is what the kernel passed to this handler.
    unsafe { restart::restart_call(context, false) };
}

/// A registered channel.
struct Entry {
    /// Identifies the entry for [`remove`].
    number: u64,
    /// The bits of the signals to deliver.
    mask: u64,
    sender: Sender<Signal>,
}

struct Registry {
    next: u64,
    entries: Vec<Entry>,
    /// The signals that gort handles now, and their former actions.
    taken: Vec<(i32, Saved)>,
    /// The eventfd of the running dispatcher; closing it ends the dispatcher.
    dispatcher: Option<Arc<Counter>>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { next: 0, entries: Vec::new(), taken: Vec::new(), dispatcher: None });

/// A duplicate of the eventfd.
type Counter = Io<OwnedFd>;

/// Delivers `signals` to `sender` from now on. Returns the number to pass to [`remove`].
pub(super) fn add(signals: &[Signal], sender: Sender<Signal>) -> io::Result<u64> {
    signals.iter().try_for_each(check)?;
    let mut registry = REGISTRY.lock();
    if registry.dispatcher.is_none() {
        registry.dispatcher = Some(start()?);
    }
    let number = registry.next;
    registry.next += 1;
    let mask = signals.iter().fold(0, |mask, signal| mask | bit(signal.0));
    registry.entries.push(Entry { number, mask, sender });
    for signal in signals {
        if registry.taken.iter().any(|(taken, _)| *taken == signal.0) {
            continue;
        }
        match signal::take_over(signal.0, on_signal) {
            Ok(saved) => registry.taken.push((signal.0, saved)),
            Err(error) => {
                registry.forget(number);
                return Err(io::Error::new(error.kind(), format!("{signal} cannot be handled: {error}")));
            }
        }
    }
    Ok(number)
}

/// Undoes [`add`].
pub(super) fn remove(number: u64) {
    REGISTRY.lock().forget(number);
}

impl Registry {
    fn forget(&mut self, number: u64) {
        self.entries.retain(|entry| entry.number != number);
        let wanted = self.entries.iter().fold(0, |mask, entry| mask | entry.mask);
        self.taken.retain(|(signal, saved)| {
            let keep = wanted & bit(*signal) != 0;
            if !keep {
                signal::give_back(*signal, on_signal, saved);
            }
            keep
        });
        if self.entries.is_empty()
            && let Some(dispatcher) = self.dispatcher.take()
        {
            dispatcher.close();
        }
    }
}

fn check(signal: &Signal) -> io::Result<()> {
    let why = match *signal {
        SIGKILL | SIGSTOP => "the kernel does not let it be handled",
        SIGSEGV | SIGBUS | SIGFPE | SIGILL => "after such a fault the program cannot go on",
        SIGURG => "gort uses it to interrupt goroutines",
        Signal(1..=64) => return Ok(()),
        Signal(_) => "there is no such signal",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{signal} cannot be notified: {why}")))
}

/// Starts a dispatcher.
fn start() -> io::Result<Arc<Counter>> {
    static MADE: OnceLock<OwnedFd> = OnceLock::new();
    let eventfd = match MADE.get() {
        Some(eventfd) => eventfd,
        // The caller holds the registry's lock, so no other thread makes one meanwhile.
        None => {
            let made = epoll::create_eventfd()?;
            EVENTFD.store(made.as_raw_fd(), Ordering::Relaxed);
            MADE.get_or_init(|| made)
        }
    };
    let counter = Arc::new(Io::new(eventfd.try_clone()?, Found::Nonblocking));
    let own = counter.clone();
    // The dispatcher belongs to no bubble, because signals come from outside.
    spawn_in_bubble(0, || Need::usual(true), Location::caller(), move || dispatch(&own))?;
    Ok(counter)
}

fn dispatch(counter: &Counter) {
    let mut count = [0; 8];
    while counter.run(Direction::Read, |fd| fd::read(fd.as_fd(), &mut count)).is_ok() {
        let registry = REGISTRY.lock();
        let mut pending = PENDING.swap(0, Ordering::Acquire);
        while pending != 0 {
            let number = pending.trailing_zeros() as i32 + 1;
            pending &= pending - 1;
            for entry in registry.entries.iter().filter(|entry| entry.mask & bit(number) != 0) {
                let _dropped_if_full = entry.sender.try_send(Signal(number));
            }
        }
    }
}
