//! Waiting for time.
//!
//! The timer lies in the future, which is pinned. It is in a heap only between two polls; to be polled with another waker
//! takes it out and puts it back.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::poller::Polled;
use crate::sched::section;
use crate::sched::waiter::Waiter;
use crate::time::clock;
use crate::timer::{self, Fire, NEVER, Timer};

/// A future that waits until `duration` has passed. To wait in a goroutine, use [`gort::sleep`](crate::sleep).
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

/// A future that waits until that moment has come.
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
    /// `None`: a time that cannot be counted.
    deadline: Option<Instant>,
    timer: Option<Timer>,
    /// While the timer is in a heap, or has fired since the last poll.
    polled: Option<Polled>,
    /// For the timer's callback.
    waiter: Cell<Option<Waiter>>,
    _pinned: PhantomPinned,
}

// SAFETY: the cell is written only while the timer is in no heap, by who has the future for itself.
unsafe impl Send for Sleep {}
// SAFETY: nothing can be done with a shared reference but to read the deadline.
unsafe impl Sync for Sleep {}

impl Sleep {
    fn new(deadline: Option<Instant>) -> Sleep {
        Sleep { deadline, timer: None, polled: None, waiter: Cell::new(None), _pinned: PhantomPinned }
    }

    /// When it ends. `None`: at a time that cannot be counted.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Lets it end at another time.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        this.stop();
        this.deadline = Some(deadline);
    }

    /// Takes the timer out of its heap. Afterwards nobody will be readied by it.
    fn stop(&mut self) {
        let (Some(timer), Some(polled)) = (&self.timer, self.polled.take()) else { return };
        let section = section::enter();
        let was_waiting = timer::stop(timer);
        drop(section);
        if was_waiting {
            // SAFETY: the timer did not fire and will not.
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
        let polled = Polled::new(context.waker());
        this.waiter.set(Some(polled.waiter()));
        this.polled = Some(polled);
        let timer = this.timer.insert(Timer::new(wake, ptr::from_ref(&this.waiter).cast()));
        // SAFETY: the future is pinned and stops its timer before it goes.
        unsafe { timer::start_anywhere(timer, when) };
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}

unsafe fn wake(waiter: *const (), _now: u64) -> Fire {
    // SAFETY: the future stops its timer before it goes or changes this.
    match unsafe { (*waiter.cast::<Cell<Option<Waiter>>>()).get() } {
        Some(waiter) => waiter.ready_from_timer(),
        None => Fire::Nothing,
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
