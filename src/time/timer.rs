//! [`Timer`]: sends a message or calls a function once, after a time. It can be stopped and reset.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chan::{self, Alarm, Receiver, never};
use crate::goroutine::deferred::Deferred;
use crate::sched::park::clock;
use crate::timer::NEVER;

/// Sends a message on a channel, or calls a function, once after a given time. Go's `time.Timer`.
///
/// Dropping a timer does not stop it.
///
/// ```
/// use gort::chan::select;
/// use gort::time::Timer;
/// use std::time::Duration;
///
/// let (_s, r) = gort::chan::bounded::<i32>(0);
/// let timer = Timer::new(Duration::from_millis(1));
/// select! {
///     recv(r) -> _ => unreachable!(),
///     recv(timer.c()) -> when => assert!(when.unwrap() <= gort::time::now()),
/// }
/// ```
pub struct Timer {
    what: What,
}

enum What {
    Message(Arc<Alarm>, Receiver<Instant>),
    Call(Arc<Deferred>),
}

impl Timer {
    /// A timer whose channel gets a message after `duration`: the time at which the timer was due.
    #[must_use]
    pub fn new(duration: Duration) -> Timer {
        let (alarm, receiver) = chan::alarm(clock::now().checked_add(duration), None);
        Timer { what: What::Message(alarm, receiver) }
    }

    /// The channel. For a timer that calls a function, the channel never gets a message.
    #[must_use]
    pub fn c(&self) -> &Receiver<Instant> {
        static NEVER: Receiver<Instant> = never();
        match &self.what {
            What::Message(_, receiver) => receiver,
            What::Call(_) => &NEVER,
        }
    }

    /// Stops the timer. Returns true if the timer was pending: its message was not yet received, or its
    /// function not yet started. Then nobody will receive that message, or the function will not be called,
    /// unless the timer is reset. Returns false if the timer was already stopped, its message was received,
    /// or its function was started. Does not wait for a function that runs.
    ///
    /// ```
    /// use std::time::Duration;
    /// let timer = gort::time::Timer::new(Duration::ZERO);
    /// assert!(timer.stop()); // due, but not received
    /// assert!(timer.c().try_recv().is_err());
    /// assert!(!timer.stop());
    /// ```
    pub fn stop(&self) -> bool {
        match &self.what {
            What::Message(alarm, _) => alarm.stop(),
            What::Call(deferred) => deferred.stop(),
        }
    }

    /// Sets the timer to `duration` from now. Returns true if it was pending, as [`stop`](Timer::stop) does.
    /// After this, nobody receives a message of the old setting.
    ///
    /// ```
    /// use std::time::Duration;
    /// let timer = gort::time::Timer::new(Duration::MAX);
    /// assert!(timer.reset(Duration::from_millis(1)));
    /// timer.c().recv().unwrap();
    /// assert!(!timer.reset(Duration::MAX));
    /// ```
    pub fn reset(&self, duration: Duration) -> bool {
        match &self.what {
            What::Message(alarm, _) => alarm.set(clock::now().checked_add(duration), None),
            What::Call(deferred) => deferred.start(nanos_after(duration)),
        }
    }
}

/// Calls `f` in a goroutine of its own after `duration`. [`Timer::stop`] can prevent the call.
/// [`Timer::reset`] makes the timer call `f` again, even while the last call still runs.
///
/// ```
/// use std::time::Duration;
/// let (s, r) = gort::chan::bounded(1);
/// let timer = gort::time::after_func(Duration::from_millis(1), move || s.send("called").unwrap());
/// assert_eq!(r.recv(), Ok("called"));
/// assert!(!timer.stop());
/// ```
pub fn after_func(duration: Duration, f: impl Fn() + Send + Sync + 'static) -> Timer {
    let deferred = Deferred::new(Box::new(f));
    deferred.start(nanos_after(duration));
    Timer { what: What::Call(deferred) }
}

fn nanos_after(duration: Duration) -> u64 {
    let nanos = u64::try_from(duration.as_nanos()).ok();
    nanos.and_then(|nanos| clock::nanos().checked_add(nanos)).unwrap_or(NEVER)
}

// A panic never leaves it half-changed.
impl UnwindSafe for Timer {}
impl RefUnwindSafe for Timer {}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}
