//! Waiting until a descriptor is ready that belongs to code which knows nothing of gort.
//!
//! Nobody tells us when such a descriptor is opened, closed (by a system call that bypasses libc, or inside
//! of libc) or duplicated. So a wait relies on nothing that was true before. It goes like this:
//!
//! 1. The attempt, which does not block, said that the call would block. O_NONBLOCK is not set.
//! 2. The call joins the users of this descriptor number (`User`) and takes the turn of its direction.
//! 3. It publishes itself in the poll word of the number's record, and then tells epoll to watch the number
//!    for the directions in which calls wait. epoll compares number and open file: if it does not know them
//!    together, they are added. If the descriptor is ready already, there is an edge at once. So between the
//!    attempt and the wait nothing is lost, and a reused number is watched anew.
//! 4. It parks, makes its attempt again, and goes on with 3 if that would block.
//!
//! An edge of an earlier open file of the same number wakes a waiter in vain, and does no other harm.
//!
//! **Closing.** With threads, a call that is waiting stays with the open file when another thread closes the
//! number. So `close` and its kin (`close.rs`) duplicate a descriptor that has users, let the users go on
//! with the duplicate, close the number, and wake the users. The last one closes the duplicate. A user that
//! comes between the look at the users and the close is woken after it, and its attempt fails with EBADF, as
//! that of a thread which called later.

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
use std::time::Duration;

use super::caller::{Errno, Outcome};
use super::limited::park_limited;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::netpoll::{Direction, Registration};
use crate::sched::park::{clock, limit};
use crate::sched::run::runtime_section;
use crate::sync::Mutex;
use crate::sys::syscall::syscall6;
use crate::timer::NEVER;

/// Records in a chunk, which is allocated when the first of its numbers is waited for, and never freed.
const CHUNK: usize = 256;
/// The most chunks: four million descriptors.
const CHUNKS: usize = 16 << 10;

static TABLE: [AtomicPtr<[Descriptor; CHUNK]>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// What is known of a descriptor number.
pub(super) struct Descriptor {
    /// A [`Kind`], as it was at the last look. A hint.
    kind: AtomicU8,
    /// Calls that wait, or are about to. For those that close: if it is 0, no lock is taken.
    waiting: AtomicU32,
    state: Lock<State>,
    /// For each direction, the right to wait in the poll word.
    turns: [Mutex<()>; 2],
}

struct State {
    /// The poll words; made for the first wait.
    registration: Option<Registration>,
    /// epoll watches the number, unless the open file was closed without our knowledge.
    watched: bool,
    /// The first of a list.
    users: *const User,
    /// How many calls wait in the poll word of each direction, or are about to: none or one.
    interest: [u32; 2],
}

// SAFETY: the users are alive while they are in the list, and are used under the lock.
unsafe impl Send for State {}

impl Ranked for State {
    const RANK: Rank = Rank::Alone;
}

/// A call that waits; lies on its goroutine's stack. It stays in the list of the number that it was made
/// with, also while it waits with a duplicate.
struct User {
    /// The descriptor of the open file that the call is for.
    fd: AtomicI32,
    /// The duplicate, once the number was closed. Guarded by the lock, like what follows.
    moved: Cell<*const Moved>,
    next: Cell<*const User>,
    previous: Cell<*const User>,
    direction: Direction,
}

/// A duplicate that stands for a closed descriptor.
struct Moved {
    fd: c_int,
    users: AtomicUsize,
}

impl Descriptor {
    const fn new() -> Descriptor {
        let state = State { registration: None, watched: false, users: ptr::null(), interest: [0; 2] };
        Descriptor {
            kind: AtomicU8::new(0),
            waiting: AtomicU32::new(0),
            state: Lock::new(state),
            turns: [Mutex::new(()), Mutex::new(())],
        }
    }

    fn place(fd: c_int) -> Option<(&'static AtomicPtr<[Descriptor; CHUNK]>, usize)> {
        let fd = usize::try_from(fd).ok()?;
        Some((TABLE.get(fd / CHUNK)?, fd % CHUNK))
    }

    /// The record of a number, if there is one.
    pub(super) fn existing(fd: c_int) -> Option<&'static Descriptor> {
        let (chunk, place) = Descriptor::place(fd)?;
        // SAFETY: chunks are never freed. Acquire pairs with the release in `of`.
        unsafe { chunk.load(Ordering::Acquire).as_ref() }.map(|chunk| &chunk[place])
    }

    /// The records of the numbers from `first` to `last`, as far as there are any.
    pub(super) fn known(first: u32, last: u32) -> impl Iterator<Item = (c_int, &'static Descriptor)> + Clone {
        let last = (last as usize).min(CHUNK * CHUNKS - 1);
        let chunks = TABLE.iter().enumerate().filter(|(_, chunk)| !chunk.load(Ordering::Acquire).is_null());
        let numbers = chunks.flat_map(|(number, _)| number * CHUNK..(number + 1) * CHUNK);
        let wanted = numbers.filter(move |fd| (first as usize..=last).contains(fd));
        wanted.filter_map(|fd| Some((fd as c_int, Descriptor::existing(fd as c_int)?)))
    }

    /// The record of a number.
    pub(super) fn of(fd: c_int) -> Option<&'static Descriptor> {
        if let Some(descriptor) = Descriptor::existing(fd) {
            return Some(descriptor);
        }
        let (chunk, _) = Descriptor::place(fd)?;
        let new = Box::into_raw(Box::new([const { Descriptor::new() }; CHUNK]));
        if chunk.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was faster, and nobody else has a pointer to ours.
            drop(unsafe { Box::from_raw(new) });
        }
        Descriptor::existing(fd)
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::from_u8(self.kind.load(Ordering::Relaxed))
    }

    pub(super) fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    /// The poll words, which the first wait makes.
    fn registration(&self) -> Outcome<Registration> {
        if let Some(registration) = self.state.lock().registration {
            return Ok(registration);
        }
        // One that is made in vain is lost: the records of the netpoller are never freed either.
        let new = Registration::unwatched(runtime_section::enter).map_err(errno_of)?;
        Ok(*self.state.lock().registration.get_or_insert(new))
    }

    fn join(&self, user: &User) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        user.next.set(state.users);
        // SAFETY: users in the list are alive, and ours under the lock.
        if let Some(next) = unsafe { state.users.as_ref() } {
            next.previous.set(user);
        }
        state.users = user;
    }

    /// Ends the use by a call; closes the duplicate if it was the last one that needed it.
    fn leave(&self, user: &User) {
        let moved = {
            let mut state = self.state.lock();
            if user.moved.get().is_null() {
                state.take_out(user);
            }
            user.moved.get()
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: it is freed below, by its last user.
        if let Some(duplicate) = unsafe { moved.as_ref() }
            && duplicate.users.fetch_sub(1, Ordering::AcqRel) == 1
        {
            super::close::close_quietly(duplicate.fd);
            // SAFETY: made by `Box` in `before_close`, and we are its last user.
            drop(unsafe { Box::from_raw(moved.cast_mut()) });
        }
    }

    /// Called before the number is closed, or given to another open file: what waits for it goes on with a
    /// duplicate.
    pub(super) fn before_close(&self, fd: c_int) {
        self.set_kind(Kind::Unknown);
        let waiting = self.waiting.load(Ordering::SeqCst) != 0;
        let duplicate = if waiting {
            // SAFETY: no memory is passed.
            unsafe { syscall6(libc::SYS_fcntl, fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0) }
        } else {
            -1
        };
        let moved = (duplicate >= 0)
            .then(|| Box::into_raw(Box::new(Moved { fd: duplicate as c_int, users: AtomicUsize::new(0) })));
        let mut state = self.state.lock();
        if state.watched
            && let Some(registration) = state.registration
        {
            state.watched = false;
            // SAFETY: used for the call only; if the number is closed, the call fails.
            registration.unwatch(unsafe { BorrowedFd::borrow_raw(fd) });
        }
        let Some(moved) = moved else { return };
        let mut count = 0;
        // SAFETY: users in the list are alive, and ours under the lock; `moved` is alive while it has users.
        unsafe {
            while let Some(user) = state.users.as_ref() {
                state.take_out(user);
                user.moved.set(moved);
                user.fd.store(duplicate as c_int, Ordering::Release);
                count += 1;
            }
            (*moved).users.store(count, Ordering::Release);
        }
        drop(state);
        if count == 0 {
            super::close::close_quietly(duplicate as c_int);
            // SAFETY: made above, and nobody else has it.
            drop(unsafe { Box::from_raw(moved) });
        }
    }

    /// Called after that: wakes what waits, to look again.
    pub(super) fn after_close(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let registration = self.state.lock().registration;
        if let Some(registration) = registration {
            registration.kick(Direction::Read);
            registration.kick(Direction::Write);
        }
    }

    /// Waits in the poll word until `fd` may be ready in that direction. The caller has the turn.
    fn wait(&self, user: &User, fd: c_int, deadline: u64) -> Outcome<()> {
        let registration = self.registration()?;
        let (mut failure, mut interested) = (0, false);
        let observed = registration.observe(user.direction);
        let watch = || {
            let mut state = self.state.lock();
            if user.fd.load(Ordering::Acquire) != fd {
                return false; // closed: go on with the duplicate
            }
            state.interest[user.direction as usize] += 1;
            interested = true;
            let [read, write] = state.interest.map(|calls| calls != 0);
            // SAFETY: used for the call only; if the number is closed, the call fails.
            let number = unsafe { BorrowedFd::borrow_raw(fd) };
            match registration.watch(number, read, write, state.watched) {
                Ok(()) => {
                    state.watched = true;
                    true
                }
                Err(error) => {
                    state.watched = false;
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
        if interested {
            self.state.lock().interest[user.direction as usize] -= 1;
        }
        if failure == 0 { Ok(()) } else { Err(failure) }
    }

    /// Takes the turn of a direction. `None`: the time is over.
    fn turn(&self, direction: Direction, deadline: u64) -> Option<crate::sync::MutexGuard<'_, ()>> {
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

impl State {
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

/// Waits until `attempt` does not fail with EAGAIN; it is called with the descriptor, after each edge. At the
/// deadline the result is EAGAIN. If a context ends that limits the caller, it is ETIMEDOUT.
pub(super) fn wait_for<R>(
    fd: c_int,
    direction: Direction,
    deadline: u64,
    mut attempt: impl FnMut(c_int) -> Outcome<R>,
) -> Outcome<R> {
    let Some(listed_at) = Descriptor::of(fd) else { return Err(libc::EBADF) };
    let user = User {
        fd: AtomicI32::new(fd),
        moved: Cell::new(ptr::null()),
        next: Cell::new(ptr::null()),
        previous: Cell::new(ptr::null()),
        direction,
    };
    /// Takes the user out also if something panics.
    struct Listed<'a>(&'static Descriptor, &'a User);
    impl Drop for Listed<'_> {
        fn drop(&mut self) {
            self.0.leave(self.1);
        }
    }
    listed_at.join(&user);
    let listed = Listed(listed_at, &user);
    loop {
        let fd = user.fd.load(Ordering::Acquire);
        let Some(descriptor) = Descriptor::of(fd) else { return Err(libc::EBADF) };
        let over = || if limit::is_over() { libc::ETIMEDOUT } else { libc::EAGAIN };
        let Some(_turn) = descriptor.turn(direction, deadline) else { return Err(over()) };
        while user.fd.load(Ordering::Acquire) == fd {
            if limit::is_over() || clock::nanos() >= deadline {
                return Err(over());
            }
            descriptor.wait(listed.1, fd, deadline)?;
            let now = user.fd.load(Ordering::Acquire);
            match attempt(now) {
                Err(libc::EAGAIN | libc::EINTR) => {}
                result => return result,
            }
        }
    }
}

fn errno_of(error: std::io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::ENOMEM)
}

/// What a descriptor is, as far as it decides how to try without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Unknown,
    /// `recv` and `send` take MSG_DONTWAIT.
    Socket,
    /// A pipe, or what else takes RWF_NOWAIT.
    Stream,
    /// epoll can wait for it: a terminal, an eventfd, a device.
    Pollable,
    /// It is always ready: a regular file, a directory.
    File,
}

impl Kind {
    fn from_u8(value: u8) -> Kind {
        match value {
            1 => Kind::Socket,
            2 => Kind::Stream,
            3 => Kind::Pollable,
            4 => Kind::File,
            _ => Kind::Unknown,
        }
    }

    /// The kind of a descriptor, by a hint that was right not long ago, or by asking the kernel.
    #[inline]
    pub(super) fn of(fd: c_int) -> Kind {
        match Descriptor::existing(fd).map(Descriptor::kind) {
            None | Some(Kind::Unknown) => Kind::ask(fd),
            Some(known) => known,
        }
    }

    /// Asks the kernel.
    #[cold]
    pub(super) fn ask(fd: c_int) -> Kind {
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: fstat writes a stat.
        let result =
            unsafe { syscall6(libc::SYS_fstat, fd as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0) };
        if result < 0 {
            return Kind::Unknown;
        }
        // SAFETY: written, or zeros.
        let kind = match unsafe { status.assume_init() }.st_mode & libc::S_IFMT {
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFIFO => Kind::Stream,
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK | libc::S_IFLNK => Kind::File,
            _ => Kind::Pollable,
        };
        if let Some(descriptor) = Descriptor::of(fd) {
            descriptor.set_kind(kind);
        }
        kind
    }
}
