//! A connection's home: the watch of the CPU on which its packets are processed.
//!
//! Descriptors begin in the first watch. A connection that is used (`settle`) moves home after some uses, and again when its packets
//! come elsewhere. It is in both watches for a moment, so no edge is missed: what is heard twice is a hint in vain.

use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering;

use super::desc::PollDesc;
use super::{Registration, Watch, watch};
use crate::sched::{boot, poller, section};
use crate::sys::fd;

/// A connection is looked at after so many uses, and then after each so many. A request and its answer are two.
const FIRST: u32 = 16;
const EVERY: u32 = 128;

/// In place of a watch's number: somebody moves the descriptor.
const MOVING: u32 = u32::MAX;

impl Registration {
    /// For a connection that is used.
    #[inline]
    pub(crate) fn settle(&self, fd: RawFd) {
        if watch::count() > 1 && self.0.is_to_settle() {
            self.move_home(fd);
        }
    }

    #[cold]
    fn move_home(&self, fd: RawFd) {
        if boot::is_forked() {
            return; // the watches are the parent's, too
        }
        // SAFETY: a registration is used while its descriptor is open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        if let Some(cpu) = fd::incoming_cpu(fd) {
            self.move_to(watch::at(cpu), fd);
        }
    }

    /// If the new watch does not take it, it stays.
    fn move_to(&self, home: &'static Watch, fd: BorrowedFd<'_>) {
        let Some(old) = self.0.begin_move() else { return };
        let moves = !ptr::eq(home, old) && home.add(fd, self.0.data()).is_ok();
        if moves {
            old.remove(fd);
        }
        self.0.set_watch(if moves { home } else { old }.index());
        if moves && section::current().is_none() {
            poller::ensure(); // a goroutine's P is busy, and its M comes by
        }
    }
}

impl PollDesc {
    /// Whether it is time to see if it is in the right watch.
    #[inline]
    fn is_to_settle(&self) -> bool {
        // Not a read-modify-write: if two count at once, it matters little.
        let uses = self.uses.load(Ordering::Relaxed).wrapping_add(1);
        self.uses.store(uses, Ordering::Relaxed);
        uses.is_multiple_of(EVERY) || uses == FIRST
    }

    /// The caller may move it from this watch, and calls `set_watch` in the end. `None`: somebody does so already.
    #[must_use]
    fn begin_move(&self) -> Option<&'static Watch> {
        // Acquire pairs with `set_watch` of whoever moved it before.
        let watch = self.watch.swap(MOVING, Ordering::Acquire);
        (watch != MOVING).then(|| watch::at(watch as usize))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::netpoll::Direction;
    use crate::timer::NEVER;

    #[test]
    fn who_waits_hears_of_all_that_comes_while_the_descriptor_moves() {
        const MESSAGES: usize = 2000;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let registration = Registration::new(ours.as_fd()).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let homes = (0..).take_while(|_| !over.load(Ordering::Relaxed));
                homes.for_each(|home| registration.move_to(watch::at(home), ours.as_fd()));
            });
            crate::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..MESSAGES {
                        let byte = wait_for_byte(&registration, &ours);
                        (&ours).write_all(&[byte]).unwrap();
                    }
                });
                for number in 0..MESSAGES {
                    let mut byte = [number as u8];
                    theirs.write_all(&byte).unwrap();
                    theirs.read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [number as u8]);
                }
            });
            over.store(true, Ordering::Relaxed);
        });
        registration.deregister(ours.as_fd());
    }

    fn wait_for_byte(registration: &Registration, mut stream: &UnixStream) -> u8 {
        let mut byte = [0];
        loop {
            let observed = registration.observe(Direction::Read);
            match stream.read(&mut byte) {
                Ok(1) => return byte[0],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => panic!("{other:?}"),
            }
            registration.wait(Direction::Read, observed, NEVER, || true);
        }
    }

    #[test]
    fn a_descriptor_that_stays_is_registered_once() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let registration = Registration::new(ours.as_fd()).unwrap();
        let old = registration.0.watch();
        registration.move_to(watch::at(old), ours.as_fd());
        assert_eq!(registration.0.watch(), old);
        registration.deregister(ours.as_fd());
        // A second registration would have been refused if the first were still there.
        Registration::new(ours.as_fd()).unwrap().deregister(ours.as_fd());
    }
}
