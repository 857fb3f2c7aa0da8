//! I/O for futures: makes the same attempts as `gate.rs`, but if one would block, it registers a Waiter and
//! returns `Pending`.
//!
//! The owner of a [`Polls`] has the handle to itself, so it needs no turns: in each direction, the poll word
//! holds this owner's Waiter or none. The Waiter stays in the word until an edge takes it, even if the future
//! is polled meanwhile. `stop_polls` takes it back before the handle is used in any other way.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::core::Io;
use super::gate::{Gate, WaitMode, closed};
use crate::goroutine::waker::Polled;
use crate::netpoll::{Direction, Registration};

/// The Waiters of a future at a descriptor, one for each direction.
#[derive(Default)]
pub(crate) struct Polls([Option<Polled>; 2]);

impl<T: AsFd> Io<T> {
    /// Like [`run`](Io::run), for a future.
    pub(crate) fn poll<R>(
        &self,
        polls: &mut Polls,
        direction: Direction,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.gate().poll(polls, direction, context, false, || attempt(self.inner()))
    }

    /// Like [`read_stream`](Io::read_stream), for a future. `wanted` is not 0.
    pub(crate) fn poll_read_stream(
        &self,
        polls: &mut Polls,
        context: &mut Context<'_>,
        wanted: usize,
        mut attempt: impl FnMut(&T) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let mut observed = None;
        let gate = self.gate();
        let result = gate.poll(polls, Direction::Read, context, true, || {
            observed = gate.registration.as_ref().map(|registration| registration.observe(Direction::Read));
            attempt(self.inner())
        });
        if let (Poll::Ready(Ok(length @ 1..)), Some(observed)) = (&result, observed)
            && *length < wanted
            && observed.is_plain_edge()
        {
            gate.drained.store(observed.to_word(), Ordering::Relaxed);
        }
        result
    }

    /// Takes a future's Waiters back from the descriptor.
    pub(crate) fn stop_polls(&self, polls: &mut Polls) {
        if let Some(registration) = &self.gate().registration {
            for direction in [Direction::Read, Direction::Write] {
                take_back(registration, direction, &mut polls.0[direction as usize]);
            }
        }
    }
}

fn take_back(registration: &Registration, direction: Direction, place: &mut Option<Polled>) {
    if let Some(polled) = place.take()
        && registration.cancel(direction, polled.waiter())
    {
        // SAFETY: `cancel` took the Waiter out of the word, so nobody else has it.
        unsafe { polled.retract() };
    }
}

impl Gate {
    fn poll<R>(
        &self,
        polls: &mut Polls,
        direction: Direction,
        context: &mut Context<'_>,
        stream: bool,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let Some(registration) = &self.registration else {
            return Poll::Ready(self.run_blocking(direction, WaitMode::AsSet, attempt));
        };
        let place = &mut polls.0[direction as usize];
        loop {
            let observed = registration.observe(direction);
            if observed.is_closed() {
                *place = None;
                return Poll::Ready(Err(closed()));
            }
            // If the last read emptied the stream and no edge has come since, an attempt would be in vain.
            let empty = stream
                && observed.is_plain_edge()
                && observed.to_word() == self.drained.load(Ordering::Relaxed);
            if !empty {
                match attempt() {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
            }
            match place {
                Some(polled) if polled.waiter().to_word() == observed.to_word() => {
                    if polled.will_wake(context.waker()) {
                        return Poll::Pending;
                    }
                    take_back(registration, direction, place);
                    continue;
                }
                // An edge took the Waiter out of the word.
                _ => *place = None,
            }
            let polled = Polled::new(context.waker());
            if registration.begin_wait(direction, observed, polled.waiter()) {
                *place = Some(polled);
                return Poll::Pending;
            }
            // SAFETY: the Waiter was not published.
            unsafe { polled.retract() };
        }
    }
}
