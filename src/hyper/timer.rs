//! Runs hyper's timeouts on gort's timers: an implementation of hyper's `Timer` trait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::future::{self, Sleep};

/// A timer for hyper, to be passed to the `timer` method of hyper's builders.
///
/// ```
/// use hyper::rt::Timer as _;
/// let sleep = gort::hyper::Timer.sleep(std::time::Duration::from_millis(1));
/// gort::future::block_on(sleep);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

/// A [`Sleep`] that implements hyper's `Sleep` trait. The wrapper keeps hyper's trait out of `Sleep`'s own
/// API.
struct Waiting(Sleep);

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the field is pinned whenever the wrapper is, and is never moved out of it.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(context)
    }
}

impl hyper::rt::Sleep for Waiting {}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Waiting(future::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Waiting(future::sleep_until(deadline)))
    }

    fn now(&self) -> Instant {
        crate::time::now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Waiting>() {
            // SAFETY: the field is pinned whenever the wrapper is, and is never moved out of it.
            Some(waiting) => unsafe { waiting.map_unchecked_mut(|this| &mut this.0) }.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}
