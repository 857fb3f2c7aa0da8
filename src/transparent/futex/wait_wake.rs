//! Waiting on futexes and waking: goroutines and threads that wait on the private futexes of std, parking_lot
//! and other crates. These call `syscall(SYS_futex, …)`, which ends up here (`call.rs`).
//!
//! All that wait through the table (`table.rs`) are in one queue for each address, in the order of
//! their arrival. A goroutine parks; a thread blocks on a Note. A wake-up takes the first of the queue, and
//! if there are not enough of them, the kernel wakes the rest: those that wait by another way than libc's
//! function `syscall`, those that began to wait before the table was in use, and threads of the runtime and
//! goroutines in marked calls, which wait in the kernel.
//!
//! A thread that is inside the runtime, or holds the lock of a bucket, makes a wake-up only in a signal
//! handler. The housekeeper performs those a moment later ([`late`](super::late)).

use std::hint::black_box;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use super::late;
use super::table::{Entry, Requeued, Table, WOKEN, new_bucket};
use crate::base::note::Note;
use crate::sched::park::limit;
use crate::sched::park::park_ready::park_goroutine;
use crate::sched::park::wait::{TIMED_OUT, Wait, WaitPlace};
use crate::sched::park::wait_queue::Node;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sched::types::waiter::{Hook, Waiter};
use crate::sched::word::status::WaitReason;
use crate::transparent::who::caller::{Errno, Outcome};
use crate::transparent::who::place::Place;

/// 512 KiB of address space, of which the used pages need memory. With a hundred thousand waiters, a queue
/// has about twelve.
static TABLE: Table<8192> = Table { buckets: [const { new_bucket!() }; 8192] };

/// Waits while the word at `address` holds `expected`, until a wake-up with a bit of `bitset` comes. The
/// caller is the goroutine `g`.
#[inline(never)]
pub(super) fn wait(g: &'static G, address: *const AtomicU32, expected: u32, bitset: u32) -> Outcome<isize> {
    wait_by(g, address, expected, bitset, |wait, place| {
        park_goroutine(g, WaitReason::Futex, place.address());
        wait.claim()
    })
}

/// As [`wait`], until a deadline.
#[inline(never)]
pub(super) fn wait_until(
    g: &'static G,
    address: *const AtomicU32,
    expected: u32,
    bitset: u32,
    deadline: Instant,
) -> Outcome<isize> {
    wait_by(g, address, expected, bitset, |wait, place| {
        limit::park_again_until(wait, WaitReason::Futex, place.address(), deadline, place.object)
    })
}

#[inline(always)]
fn wait_by(
    g: &'static G,
    address: *const AtomicU32,
    expected: u32,
    bitset: u32,
    park: impl FnOnce(&Wait, &WaitPlace) -> usize,
) -> Outcome<isize> {
    let wait = Wait::of(Waiter::of(g));
    let node = Node::new(wait.waiter(), &wait, Entry::new(address as usize, bitset));
    // SAFETY: the caller passed the address of a futex word; `leave` follows.
    if !unsafe { TABLE.enter(&node, &*address, expected) } {
        return Err(libc::EAGAIN);
    }
    let place = WaitPlace { object: address as usize, node: std::ptr::from_ref(&node) as usize };
    let claim = park(&wait, &place);
    leave(&node, claim)
}

/// As [`wait`], for a foreign thread.
#[inline(never)]
pub(super) fn wait_as_thread(
    address: *const AtomicU32,
    expected: u32,
    bitset: u32,
    deadline: Option<Instant>,
) -> Outcome<isize> {
    let thread = ThreadWait::new();
    let wait = Wait::of(thread.waiter());
    let node = Node::new(wait.waiter(), &wait, Entry::new(address as usize, bitset));
    // SAFETY: the caller passed the address of a futex word; `leave` follows.
    if !unsafe { TABLE.enter(&node, &*address, expected) } {
        return Err(libc::EAGAIN);
    }
    leave(&node, thread.block(&wait, deadline))
}

fn leave(node: &Node<Entry>, claim: usize) -> Outcome<isize> {
    if claim == WOKEN {
        TABLE.leave_woken(node);
        Ok(0)
    } else {
        TABLE.leave(node);
        Err(libc::ETIMEDOUT)
    }
}

/// Wakes at most `count` waiters at `address` whose bitset has a bit of `bitset`. Returns how many; those
/// that the housekeeper will wake count as none.
pub(super) fn wake(address: usize, count: usize, bitset: u32) -> usize {
    if !TABLE.may_have_waiters(address) {
        return 0;
    }
    let place = Place::own();
    if place == Place::Inside {
        late::add(address, count, bitset);
        return 0;
    }
    let claimed = TABLE.claim(address, count, bitset);
    let woken = claimed.len();
    match (place, current()) {
        // Not as the goroutine, and without a signal that stops it meanwhile.
        (Place::Marked | Place::Beside, Some(g)) => {
            runtime_section::on_own_m(g, |_| claimed.for_each(Waiter::ready_without_p));
        }
        _ => claimed.ready_all(),
    }
    woken
}

/// As [`wake`], for the housekeeper.
pub(super) fn wake_late(address: usize, count: usize, bitset: u32) {
    TABLE.claim(address, count, bitset).ready_all();
}

/// Wakes all waiters of all addresses, for the housekeeper.
pub(super) fn wake_everybody() {
    TABLE.claim_all().for_each(|claimed| claimed.ready_all());
}

/// Wakes at most `wake` waiters at `from` and moves at most `most` others to `to`, if the word at `from`
/// holds `expected`. The caller is outside of the runtime.
pub(super) fn requeue(
    from: *const AtomicU32,
    to: usize,
    (wake, most): (usize, usize),
    expected: Option<u32>,
) -> Result<Requeued, Errno> {
    // SAFETY: the caller passed the address of a futex word.
    let word = unsafe { &*from };
    let (claimed, done) =
        TABLE.requeue((from as usize, word), to, (wake, most), expected).ok_or(libc::EAGAIN)?;
    claimed.ready_all();
    Ok(done)
}

/// The wait of a thread: a Hook whose wake-up sets a Note. Lies on the thread's stack.
#[repr(C)]
struct ThreadWait {
    hook: Hook,
    note: Note,
}

impl ThreadWait {
    fn new() -> ThreadWait {
        let hook = Hook { ready: Self::ready, ready_inside: Self::ready_inside, retract: |_| () };
        ThreadWait { hook, note: Note::new() }
    }

    fn waiter(&self) -> Waiter {
        // SAFETY: `block` does not return before the Hook was woken, or nobody can wake it any more.
        unsafe { Waiter::from_hook(black_box(&raw const self.hook)) }
    }

    unsafe fn ready(hook: *const Hook) {
        // SAFETY: the Hook is the first field of a ThreadWait, which is there until its Note is set.
        unsafe { &*hook.cast::<ThreadWait>() }.note.set();
    }

    unsafe fn ready_inside(hook: *const Hook) -> Option<Waiter> {
        // SAFETY: as above.
        unsafe { ThreadWait::ready(hook) };
        None
    }

    /// Blocks the thread until a wake-up has claimed the wait, or the deadline. Returns the claim.
    fn block(&self, wait: &Wait, deadline: Option<Instant>) -> usize {
        if !self.note.wait_until(deadline) && !wait.try_claim(TIMED_OUT) {
            // A waker claimed the wait and is about to set the Note.
            self.note.wait();
        }
        wait.claim()
    }
}
