//! hyper's timer: gort's.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::future::{self, Sleep};

/// Timeouts for hyper.
///
/// ```
/// use hyper::rt::Timer as _;
/// let sleep = gort::hyper::Timer.sleep(std::time::Duration::from_millis(1));
/// gort::future::block_on(sleep);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

/// hyper's trait is not for foreign types.
struct Waiting(Sleep);

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: pinned with the whole.
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
            // SAFETY: pinned with the whole.
            Some(waiting) => unsafe { waiting.map_unchecked_mut(|this| &mut this.0) }.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}
