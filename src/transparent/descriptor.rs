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
//! that of a thread which called later. Where there can be no duplicate (the process has no number left, or a
//! signal handler closes), the users of that moment are outdated: their calls fail with EBADF.
//!
//! **Calls that cannot be waited for.** epoll says that a descriptor is ready, but the call would block: a
//! datagram for a full socket, an exceptional condition that poll does not know. A call that was woken twice
//! in vain although the descriptor is ready is made in a marked section, where it blocks its thread.

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use std::time::Duration;

use super::caller::{Errno, Outcome};
use super::kind::Kind;
use super::known::Known;
use super::limited::park_limited;
use super::streams::is_nonblocking;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::netpoll::{Direction, Registration};
use crate::sched::block::marked_call::blocking;
use crate::sched::park::{clock, limit};
use crate::sched::run::runtime_section;
use crate::sync::{Mutex, MutexGuard};
use crate::sys::fd;
use crate::sys::syscall::syscall6;
use crate::timer::NEVER;

/// Records in a chunk, which is allocated when the first of its numbers is waited for, and never freed.
const CHUNK: usize = 256;
/// The most chunks: four million descriptors.
const CHUNKS: usize = 16 << 10;

static TABLE: [AtomicPtr<[Descriptor; CHUNK]>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// What is known of a descriptor number. Padded, because neighbours are other goroutines' connections.
#[repr(align(128))]
pub(super) struct Descriptor {
    /// What holds until the number stands for another open file.
    pub(super) known: Known,
    /// The netpoller counts the number as one that it watches. Changed under the lock of `state`.
    watched: AtomicBool,
    /// Calls that wait, or are about to. For those that close: if it is 0, no lock is taken.
    waiting: AtomicU32,
    /// Calls that joined before this number changed fail.
    outdated: AtomicU32,
    /// The poll words; made for the first wait, and never changed. Null, or a leaked box.
    registration: AtomicPtr<Registration>,
    /// The poll word of reads as it was before the last one, if that emptied the stream: a hint that the next
    /// one had better wait first. Otherwise 0.
    drained: AtomicUsize,
    state: Lock<State>,
    /// For each direction, the right to wait in the poll word.
    turns: [Mutex<()>; 2],
}

struct State {
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
    /// `Descriptor::outdated` when the call joined.
    outdated: u32,
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
        Descriptor {
            known: Known { facts: AtomicU64::new(0), limits: [AtomicU64::new(0), AtomicU64::new(0)] },
            watched: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            outdated: AtomicU32::new(0),
            registration: AtomicPtr::new(ptr::null_mut()),
            drained: AtomicUsize::new(0),
            state: Lock::new(State { users: ptr::null(), interest: [0; 2] }),
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
        // Through a vector, because a box would be built on the goroutine's stack.
        let new: Box<[Descriptor]> = (0..CHUNK).map(|_| Descriptor::new()).collect();
        let new = Box::into_raw(new).cast::<[Descriptor; CHUNK]>();
        if chunk.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was faster, and nobody else has a pointer to ours.
            drop(unsafe { Box::from_raw(new) });
        }
        Descriptor::existing(fd)
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::from_u8(self.known.facts().kind())
    }

    /// The poll words, if there was a wait before.
    fn known_registration(&self) -> Option<Registration> {
        // SAFETY: never freed. Acquire pairs with the release in `registration`.
        unsafe { self.registration.load(Ordering::Acquire).as_ref() }.copied()
    }

    /// The poll words, which the first wait makes.
    #[inline(never)]
    fn registration(&self) -> Outcome<Registration> {
        if let Some(registration) = self.known_registration() {
            return Ok(registration);
        }
        // One that is made in vain is lost: the records of the netpoller are never freed either.
        let new = Registration::unwatched(runtime_section::enter).map_err(errno_of)?;
        let new = Box::into_raw(Box::new(new));
        let result =
            self.registration.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: never freed.
        Ok(unsafe { *result.map_or_else(|earlier| earlier, |_| new) })
    }

    /// To be called before a read. Pass the result to [`note_short_read`](Descriptor::note_short_read).
    pub(super) fn observe_reads(&self) -> usize {
        self.known_registration().map_or(0, |registration| {
            let observed = registration.observe(Direction::Read);
            if observed.is_plain_edge() { observed.to_word() } else { 0 }
        })
    }

    /// A read returned less than it asked for: if it is TCP, the stream is empty. A Unix socket may not be: a
    /// read there also ends where descriptors were sent along, or where another sender begins.
    pub(super) fn note_short_read(&self, observed: usize) {
        if self.kind() == Kind::Tcp {
            self.drained.store(observed, Ordering::Relaxed);
        }
    }

    /// Whether a read is likely to find nothing: the last one emptied the stream, and there was no edge
    /// since.
    pub(super) fn is_likely_empty(&self) -> bool {
        let drained = self.drained.load(Ordering::Relaxed);
        drained != 0 && self.observe_reads() == drained
    }

    #[inline(never)]
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
    #[inline(never)]
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

    /// Whether a close has to do something about the number.
    pub(super) fn is_in_use(&self) -> bool {
        self.has_users() || self.watched.load(Ordering::Relaxed)
    }

    /// Whether calls wait, or are about to. After a close: those that are not seen here see that the number
    /// is closed.
    pub(super) fn has_users(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// The number is another open file's, or nobody's. Takes no lock (K1 in known.rs).
    pub(super) fn forget(&self) {
        self.drained.store(0, Ordering::Relaxed);
        self.known.forget();
    }

    /// Somebody else has told epoll what to do about the number.
    pub(super) fn forget_watch(&self) {
        self.drained.store(0, Ordering::Relaxed);
        self.known.forget_watch();
    }

    /// Calls that wait now are to fail.
    pub(super) fn outdate(&self) {
        self.outdated.fetch_add(1, Ordering::SeqCst);
    }

    /// Called before the number is closed, or given to another open file: what waits for it goes on with a
    /// duplicate.
    pub(super) fn before_close(&self, fd: c_int) {
        let duplicate = if self.has_users() {
            // SAFETY: no memory is passed.
            unsafe { syscall6(libc::SYS_fcntl, fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0) }
        } else {
            -1
        };
        let moved = (duplicate >= 0)
            .then(|| Box::into_raw(Box::new(Moved { fd: duplicate as c_int, users: AtomicUsize::new(0) })));
        let mut state = self.state.lock();
        if self.watched.load(Ordering::Relaxed)
            && let Some(registration) = self.known_registration()
        {
            self.watched.store(false, Ordering::Relaxed);
            self.forget_watch();
            // SAFETY: used for the call only; if the number is closed, the call fails.
            registration.unwatch(unsafe { BorrowedFd::borrow_raw(fd) });
        }
        let Some(moved) = moved else {
            drop(state);
            return self.outdate();
        };
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

    /// Wakes what waits, to look again.
    pub(super) fn wake_users(&self) {
        if let Some(registration) = self.known_registration() {
            registration.kick(Direction::Read);
            registration.kick(Direction::Write);
        }
    }

    /// Waits in the poll word until `fd` may be ready in that direction. The caller has the turn.
    fn wait(&self, user: &User, fd: c_int, deadline: u64, interest: &mut Interest<'_>) -> Outcome<()> {
        let registration = self.registration()?;
        let mut failure = 0;
        let observed = registration.observe(user.direction);
        let watch = || {
            let mut state = self.state.lock();
            let facts = self.known.facts();
            if user.fd.load(Ordering::Acquire) != fd {
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

impl User {
    /// Whether the number was closed, without a duplicate, since the call joined its users. Only as long as
    /// the call has no duplicate.
    fn is_outdated(&self, descriptor: &Descriptor) -> bool {
        descriptor.outdated.load(Ordering::SeqCst) != self.outdated
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
pub(super) enum Mode {
    /// Without blocking: it fails with EAGAIN instead. Other calls may be made at the same time.
    First,
    /// As `First`, while the caller has the turn of the direction.
    Try,
    /// As the caller made it: it may block the thread.
    Block,
}

/// A call fails after this many wake-ups in vain: from then on it blocks its thread.
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
pub(super) fn wait_for<R>(
    number: c_int,
    direction: Direction,
    deadline: u64,
    mut call: impl FnMut(c_int, Mode) -> Outcome<R>,
) -> Outcome<R> {
    let Some(listed_at) = Descriptor::of(number) else { return block(number, call) };
    if listed_at.kind() == Kind::Unknown {
        Kind::ask(number);
    }
    let user = User {
        fd: AtomicI32::new(number),
        outdated: listed_at.outdated.load(Ordering::SeqCst),
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
    let _listed = Listed(listed_at, &user);
    let mut in_vain = 0;
    loop {
        let fd = user.fd.load(Ordering::Acquire);
        let Some(descriptor) = Descriptor::of(fd) else { return Err(libc::EBADF) };
        let Some(turn) = descriptor.turn(direction, deadline) else {
            return Err(end_of_wait(deadline).unwrap_or(libc::EAGAIN));
        };
        let mut interest = Interest { descriptor, direction, begun: false };
        while user.fd.load(Ordering::Acquire) == fd {
            if fd == number && user.is_outdated(listed_at) {
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
            let now = user.fd.load(Ordering::Acquire);
            if now == number && user.is_outdated(listed_at) {
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
pub(super) fn if_ready<R>(
    number: c_int,
    direction: Direction,
    mode: Mode,
    call: impl FnOnce() -> Outcome<R>,
) -> Outcome<R> {
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
pub(super) fn is_ready(number: c_int, direction: Direction) -> bool {
    fd::wait_until_ready(number, direction == Direction::Write, Duration::ZERO)
}

fn errno_of(error: std::io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::ENOMEM)
}
