//! [`Sleep`]: a future that ends at a given time.
//!
//! The timer is a field of the future, which is pinned. A poll inserts it into a timer heap. A later poll
//! with a different waker removes it from its heap and inserts it again.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::waker::Polled;
use crate::sched::boot;
use crate::sched::park::{clock, timers};
use crate::sched::types::waiter::Waiter;
use crate::timer::{Fired, NEVER, Timer};

/// A future that waits until `duration` has passed. To wait in a goroutine, use
/// [`gort::sleep`](crate::sleep).
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// gort::future::block_on(gort::future::sleep(Duration::from_millis(2)));
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(clock::now().checked_add(duration))
}

/// A future that waits until `deadline`.
///
/// ```
/// use std::time::Instant;
/// gort::future::block_on(gort::future::sleep_until(Instant::now()));
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(Some(deadline))
}

/// The future of [`sleep`] and [`sleep_until`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    /// `None`: later than an `Instant` can express, that is, never.
    deadline: Option<Instant>,
    timer: Option<Timer>,
    /// The waker's registration. Present while the timer is in a heap, or has fired since the last poll.
    polled: Option<Polled>,
    /// The Waiter that the timer's callback readies.
    waiter: Cell<Option<Waiter>>,
    _pinned: PhantomPinned,
}

// SAFETY: the cell is written only while the timer is in no heap, through an exclusive reference to the
// future.
unsafe impl Send for Sleep {}
// SAFETY: a shared reference only allows reading the deadline.
unsafe impl Sync for Sleep {}

impl Sleep {
    fn new(deadline: Option<Instant>) -> Sleep {
        Sleep { deadline, timer: None, polled: None, waiter: Cell::new(None), _pinned: PhantomPinned }
    }

    /// When the sleep ends. `None`: never, because the time is later than an `Instant` can express.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Changes the time at which the sleep ends.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        this.stop();
        this.deadline = Some(deadline);
    }

    /// Removes the timer from its heap. Afterwards it will not ready anyone.
    fn stop(&mut self) {
        let (Some(timer), Some(polled)) = (&self.timer, self.polled.take()) else { return };
        let was_waiting = timers::stop(timer);
        if was_waiting {
            // SAFETY: the timer has not fired and will not fire.
            unsafe { polled.retract() };
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(deadline) = this.deadline else { return Poll::Pending };
        if clock::now() >= deadline {
            this.stop();
            return Poll::Ready(());
        }
        if this.polled.as_ref().is_some_and(|polled| polled.will_wake(context.waker()))
            && this.timer.as_ref().is_some_and(Timer::is_waiting)
        {
            return Poll::Pending;
        }
        this.stop();
        let when = clock::nanos_at(deadline);
        if when == NEVER {
            return Poll::Pending;
        }
        boot::ensure();
        let polled = Polled::new(context.waker());
        this.waiter.set(Some(polled.waiter()));
        this.polled = Some(polled);
        let timer = this.timer.insert(Timer::new(wake, ptr::from_ref(&this.waiter).cast()));
        // SAFETY: the future is pinned, and stops its timer before it is dropped.
        unsafe { timers::start_anywhere(timer, when) };
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The timer's callback: readies the Waiter.
///
/// # Safety
/// `waiter` points to the cell of a pinned [`Sleep`] whose timer is in a heap.
unsafe fn wake(waiter: *const (), _now: u64) -> Fired {
    // SAFETY: the future stops its timer before it is dropped and before it writes the cell.
    unsafe { (*waiter.cast::<Cell<Option<Waiter>>>()).get() }.map(Waiter::to_word)
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
