//! Waiting in the poll words of a number, by turns.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::kind::Kind;
use super::limited::park_limited;
use super::record::Descriptor;
use super::users::{State, User};
use crate::netpoll::Direction;
use crate::sched::block::marked_call::blocking;
use crate::sched::park::{clock, limit};
use crate::sync::MutexGuard;
use crate::sys::fd;
use crate::timer::NEVER;
use crate::transparent::calls::streams::is_nonblocking;
use crate::transparent::who::caller::{Errno, Outcome, errno_of};

impl Descriptor {
    /// Waits in the poll word until `fd` may be ready in that direction. The caller has the turn.
    fn wait(&self, user: &User, fd: c_int, deadline: u64, interest: &mut Interest<'_>) -> Outcome<()> {
        let registration = self.registration()?;
        let mut failure = 0;
        let observed = registration.observe(user.direction);
        let watch = || {
            let mut state = self.state.lock();
            let facts = self.known.facts();
            if user.fd() != fd {
                return false; // closed: look again
            }
            interest.begin(&mut state);
            let [read, write] = state.interest.map(|calls| calls != 0);
            let wanted = u8::from(read) | u8::from(write) << 1;
            if user.direction == Direction::Read
                && facts.watched_for() & wanted == wanted
                && self.drained.load(Ordering::Relaxed) == observed.to_word()
                && Kind::from_u8(facts.kind()) == Kind::Tcp
            {
                return true; // T3 in trust.rs
            }
            // SAFETY: used for the call only; if the number is closed, the call fails.
            let number = unsafe { BorrowedFd::borrow_raw(fd) };
            let watched = self.watched.load(Ordering::Relaxed);
            let result = registration.watch(number, read, write, watched);
            self.watched.store(result.is_ok(), Ordering::Relaxed);
            self.known.note_watched_for(facts.generation(), if result.is_ok() { wanted } else { 0 });
            match result {
                Ok(()) => true,
                Err(error) => {
                    failure = errno_of(error);
                    false
                }
            }
        };
        if limit::is_set() {
            park_limited(&registration, user.direction, observed, deadline, watch);
        } else {
            registration.wait(user.direction, observed, deadline, watch);
        }
        if failure == 0 { Ok(()) } else { Err(failure) }
    }

    /// Takes the turn of a direction, if no other call has it.
    fn try_turn(&self, direction: Direction) -> Option<MutexGuard<'_, ()>> {
        self.turns[direction as usize].try_lock()
    }

    /// Takes the turn of a direction. `None`: the time is over.
    #[inline(never)]
    fn turn(&self, direction: Direction, deadline: u64) -> Option<MutexGuard<'_, ()>> {
        let turn = &self.turns[direction as usize];
        if deadline == NEVER && !limit::is_set() {
            return Some(turn.lock());
        }
        let until = clock::after(Duration::from_nanos(deadline.saturating_sub(clock::nanos())));
        match until {
            Some(until) => turn.try_lock_until(until),
            None => Some(turn.lock()),
        }
    }
}

/// A call that holds the turn of its direction wants the number watched for that, until the drop.
struct Interest<'a> {
    descriptor: &'a Descriptor,
    direction: Direction,
    begun: bool,
}

impl Interest<'_> {
    fn begin(&mut self, state: &mut State) {
        if !std::mem::replace(&mut self.begun, true) {
            state.interest[self.direction as usize] += 1;
        }
    }
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        if self.begun {
            self.descriptor.state.lock().interest[self.direction as usize] -= 1;
        }
    }
}

/// How a call is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transparent) enum Mode {
    /// Without blocking: it fails with EAGAIN instead. Other calls may be made at the same time.
    First,
    /// As `First`, while the caller has the turn of the direction.
    Try,
    /// As the caller made it: it may block the thread.
    Block,
}

/// After this many false wake-ups, the call is made in a marked section and blocks its thread.
const WAKE_UPS_IN_VAIN: u32 = 2;

/// The error of a wait that is over; `None` if it may go on.
fn end_of_wait(deadline: u64) -> Option<Errno> {
    if limit::is_over() {
        Some(libc::ETIMEDOUT)
    } else {
        (deadline != NEVER && clock::nanos() >= deadline).then_some(libc::EAGAIN)
    }
}

/// Waits until `call` does not fail with EAGAIN; it is made after each edge, with the descriptor. At the
/// deadline the result is EAGAIN. If a context ends that limits the caller, it is ETIMEDOUT.
#[inline(never)]
pub(in crate::transparent) fn wait_for<R>(
    number: c_int,
    direction: Direction,
    deadline: u64,
    mut call: impl FnMut(c_int, Mode) -> Outcome<R>,
) -> Outcome<R> {
    let Some(listed_at) = Descriptor::of(number) else { return block(number, call) };
    if listed_at.kind() == Kind::Unknown {
        Kind::ask(number);
    }
    let user = User::new(number, listed_at, direction);
    /// Takes the user out also if something panics.
    struct Listed<'a>(&'a User);
    impl Drop for Listed<'_> {
        fn drop(&mut self) {
            self.0.leave();
        }
    }
    listed_at.join(&user);
    let _listed = Listed(&user);
    let mut in_vain = 0;
    loop {
        let fd = user.fd();
        let Some(descriptor) = Descriptor::of(fd) else { return Err(libc::EBADF) };
        let Some(turn) = descriptor.turn(direction, deadline) else {
            return Err(end_of_wait(deadline).unwrap_or(libc::EAGAIN));
        };
        let mut interest = Interest { descriptor, direction, begun: false };
        while user.fd() == fd {
            if user.is_outdated() {
                return Err(libc::EBADF);
            }
            if let Some(error) = end_of_wait(deadline) {
                return Err(error);
            }
            match descriptor.wait(&user, fd, deadline, &mut interest) {
                Ok(()) => {}
                Err(libc::EBADF) => return Err(libc::EBADF),
                // epoll does not know files of this kind, or its limit is reached (ENOSPC), or there is no
                // memory, or a sandbox refuses the call.
                Err(_) => in_vain = WAKE_UPS_IN_VAIN,
            }
            let now = user.fd();
            if user.is_outdated() {
                return Err(libc::EBADF);
            }
            if in_vain < WAKE_UPS_IN_VAIN {
                match call(now, Mode::Try) {
                    Err(libc::EAGAIN | libc::EINTR) => in_vain += u32::from(is_ready(now, direction)),
                    result => return result,
                }
            }
            if in_vain >= WAKE_UPS_IN_VAIN {
                drop((interest, turn));
                return block(now, call);
            }
        }
        // The number was closed. Those that wait for the turn since before that go first, so that none of
        // them waits behind a call on the number's next open file.
        drop(interest);
        MutexGuard::unlock_fair(turn);
    }
}

/// Makes the call as on a thread. Not inlined, like all that is rare: what a goroutine that waits keeps of
/// its stack is to be as little as can be.
#[cold]
#[inline(never)]
fn block<R>(number: c_int, mut call: impl FnMut(c_int, Mode) -> Outcome<R>) -> Outcome<R> {
    blocking(|| call(number, Mode::Block))
}

/// Makes a call that has no way not to block, if the descriptor is ready, and fails with EAGAIN otherwise. It
/// is made during the turn of the direction: of two calls that find one connection, the slower one would hold
/// its thread, and no context could end it.
pub(in crate::transparent) fn if_ready<R>(
    number: c_int,
    direction: Direction,
    mode: Mode,
    call: impl FnOnce() -> Outcome<R>,
) -> Outcome<R> {
    // A file is always ready, and calls on it do not wait for each other: many may send one file.
    if Kind::of(number) == Kind::File {
        return call();
    }
    let turn = match (mode, Descriptor::of(number)) {
        (Mode::First, Some(descriptor)) => match descriptor.try_turn(direction) {
            // With O_NONBLOCK, nobody waits for a turn.
            None if is_nonblocking(number) => return call(),
            None => return Err(libc::EAGAIN),
            turn => turn,
        },
        _ => None,
    };
    let result = if mode == Mode::Block || is_ready(number, direction) { call() } else { Err(libc::EAGAIN) };
    drop(turn);
    result
}

/// Whether epoll would say now that the descriptor is ready in that direction.
pub(in crate::transparent) fn is_ready(number: c_int, direction: Direction) -> bool {
    fd::wait_until_ready(number, direction == Direction::Write, Duration::ZERO)
}
