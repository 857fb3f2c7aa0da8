//! The calls that wait for a number, and what becomes of them when it is closed. The head of `mod.rs` says
//! how that goes.

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::close::close_quietly;
use super::record::Descriptor;
use crate::base::lock::{Rank, Ranked};
use crate::netpoll::Direction;
use crate::sched::run::runtime_section;
use crate::sys::syscall::syscall6;

/// What the lock of a record guards.
pub(super) struct State {
    /// The first of a list.
    users: *const User,
    /// The number is a duplicate that nobody but its users knows: the last of them closes it.
    lent: bool,
    /// How many calls wait in the poll word of each direction, or are about to: none or one.
    pub(super) interest: [u32; 2],
}

// SAFETY: the users are alive while they are in the list, and are used under the lock.
unsafe impl Send for State {}

impl Ranked for State {
    const RANK: Rank = Rank::Alone;
}

/// A call that waits; lies on its goroutine's stack, and in the list of the number that it waits for now.
pub(super) struct User {
    place: Place,
    /// Guarded by the lock of the record that it is listed with.
    next: Cell<*const User>,
    previous: Cell<*const User>,
    pub(super) direction: Direction,
}

/// The descriptor that a call is for, and `outdated` of its record when the call joined: one word, so that
/// the call sees both change at once. Changed under the locks of both records.
struct Place(AtomicU64);

impl Place {
    fn word(fd: c_int, outdated: u32) -> u64 {
        u64::from(outdated) << 32 | u64::from(fd as u32)
    }

    fn get(&self) -> (c_int, u32) {
        let word = self.0.load(Ordering::Acquire);
        (word as u32 as c_int, (word >> 32) as u32)
    }

    fn set(&self, fd: c_int, outdated: u32) {
        self.0.store(Place::word(fd, outdated), Ordering::Release);
    }
}

impl User {
    /// One that is about to wait for the number of that record.
    pub(super) fn new(fd: c_int, record: &Descriptor, direction: Direction) -> User {
        User {
            place: Place(AtomicU64::new(Place::word(fd, record.outdated.load(Ordering::SeqCst)))),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
            direction,
        }
    }

    /// The descriptor that the call is for.
    pub(super) fn fd(&self) -> c_int {
        self.place.get().0
    }

    /// Whether the number was closed, without a duplicate, since the call joined its users.
    pub(super) fn is_outdated(&self) -> bool {
        let (fd, outdated) = self.place.get();
        Descriptor::existing(fd).is_none_or(|record| record.outdated.load(Ordering::SeqCst) != outdated)
    }

    /// Ends the use; closes the number if it is lent to its users, and this is the last one.
    #[inline(never)]
    pub(super) fn leave(&self) {
        loop {
            let fd = self.fd();
            // It was listed with that record.
            let Some(record) = Descriptor::existing(fd) else { return };
            let mut state = record.state.lock();
            if self.fd() != fd {
                continue; // moved meanwhile
            }
            state.take_out(self);
            let last = state.users.is_null() && std::mem::take(&mut state.lent);
            drop(state);
            record.waiting.fetch_sub(1, Ordering::SeqCst);
            // If somebody else has closed it, the number may be another open file's.
            if last && !self.is_outdated() {
                close_quietly(fd);
            }
            return;
        }
    }
}

impl State {
    pub(super) const fn new() -> State {
        State { users: ptr::null(), lent: false, interest: [0; 2] }
    }

    fn put_in(&mut self, user: &User) {
        user.next.set(self.users);
        user.previous.set(ptr::null());
        // SAFETY: users in the list are alive, and ours under the lock.
        if let Some(next) = unsafe { self.users.as_ref() } {
            next.previous.set(user);
        }
        self.users = user;
    }

    /// Takes a user out of the list.
    fn take_out(&mut self, user: &User) {
        let (previous, next) = (user.previous.replace(ptr::null()), user.next.replace(ptr::null()));
        // SAFETY: neighbours in the list are alive, and ours under the lock.
        unsafe {
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.users = next,
            }
            if let Some(next) = next.as_ref() {
                next.previous.set(previous);
            }
        }
    }
}

impl Descriptor {
    #[inline(never)]
    pub(super) fn join(&self, user: &User) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.state.lock().put_in(user);
    }

    /// Whether a close has to do something about the number.
    pub(super) fn is_in_use(&self) -> bool {
        self.has_users() || self.watched.load(Ordering::Relaxed)
    }

    /// Whether epoll watches the number for this record.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Whether calls wait, or are about to. After a close: those that are not seen here see that the number
    /// is closed.
    pub(super) fn has_users(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// Calls that wait now are to fail.
    pub(super) fn outdate(&self) {
        self.outdated.fetch_add(1, Ordering::SeqCst);
    }

    /// Called before the number is closed, or given to another open file: what waits for it goes on with a
    /// duplicate.
    pub(super) fn before_close(&self, fd: c_int) {
        let duplicate = if self.has_users() { Duplicate::of(fd) } else { None };
        let Some(duplicate) = duplicate else {
            self.unwatch(fd, &mut self.state.lock());
            return self.outdate();
        };
        let target = duplicate.record;
        let inside = runtime_section::enter();
        // In the order of the addresses, as other closes take them.
        let moved = if ptr::from_ref(self) < ptr::from_ref(target) {
            let mut state = self.state.lock_inside();
            let mut other = target.state.lock_inside_beside(&state);
            self.move_users(fd, &mut state, &duplicate, &mut other)
        } else {
            let mut other = target.state.lock_inside();
            let mut state = self.state.lock_inside_beside(&other);
            self.move_users(fd, &mut state, &duplicate, &mut other)
        };
        drop(inside);
        if moved == 0 {
            close_quietly(duplicate.fd);
        }
    }

    /// epoll is not to watch the number any more.
    fn unwatch(&self, fd: c_int, _state: &mut State) {
        if self.watched.load(Ordering::Relaxed)
            && let Some(registration) = self.known_registration()
        {
            self.watched.store(false, Ordering::Relaxed);
            self.forget_watch();
            // SAFETY: used for the call only; if the number is closed, the call fails.
            registration.unwatch(unsafe { BorrowedFd::borrow_raw(fd) });
        }
    }

    /// Lets the users go on with the duplicate. Returns how many there are; from then on, they own it.
    fn move_users(&self, fd: c_int, state: &mut State, duplicate: &Duplicate, other: &mut State) -> u32 {
        self.unwatch(fd, state);
        // If it was lent, too, who closes it now takes our place.
        state.lent = false;
        let target = duplicate.record;
        let outdated = target.outdated.load(Ordering::SeqCst);
        let mut count = 0;
        // SAFETY: users in the list are alive, and ours under the locks.
        while let Some(user) = unsafe { state.users.as_ref() } {
            state.take_out(user);
            user.place.set(duplicate.fd, outdated);
            other.put_in(user);
            count += 1;
        }
        if count != 0 {
            other.lent = true;
            target.waiting.fetch_add(count, Ordering::SeqCst);
            self.moved_away.store(true, Ordering::SeqCst);
            self.waiting.fetch_sub(count, Ordering::SeqCst);
        }
        count
    }

    /// After a close: whether calls wait in the poll words that do not know of it.
    pub(in crate::transparent) fn has_users_to_wake(&self) -> bool {
        self.moved_away.load(Ordering::SeqCst) || self.has_users()
    }

    /// Wakes what waits in the poll words, to look again.
    pub(in crate::transparent) fn wake_users(&self) {
        self.moved_away.store(false, Ordering::SeqCst);
        if let Some(registration) = self.known_registration() {
            registration.kick(Direction::Read);
            registration.kick(Direction::Write);
        }
    }
}

/// A descriptor that stands for one which is about to be closed.
struct Duplicate {
    fd: c_int,
    record: &'static Descriptor,
}

impl Duplicate {
    /// `None`: the process has no number left.
    fn of(fd: c_int) -> Option<Duplicate> {
        // SAFETY: no memory is passed.
        let made =
            unsafe { syscall6(libc::SYS_fcntl, fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0) };
        let fd = c_int::try_from(made).ok().filter(|&fd| fd >= 0)?;
        match Descriptor::of(fd) {
            Some(record) => Some(Duplicate { fd, record }),
            None => {
                close_quietly(fd);
                None
            }
        }
    }
}
