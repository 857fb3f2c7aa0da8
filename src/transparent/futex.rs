//! The futex table: goroutines and threads that wait on the private futexes of std, parking_lot and other
//! crates. These call `syscall(SYS_futex, …)`, which ends up here (`futex_call.rs`).
//!
//! All that wait through the table are in one queue for each address, in the order of their arrival. A
//! goroutine parks; a thread blocks on a Note. A wake-up takes the first of the queue, and if there are not
//! enough of them, the kernel wakes the rest: those that wait by another way than libc's function `syscall`,
//! those that began to wait before the table was in use, and threads of the runtime and goroutines in marked
//! calls, which wait in the kernel.
//!
//! **No wake-up is lost.** A waiter adds itself to the count of its bucket (F1), takes the lock of the bucket,
//! reads the futex word (F2), and goes away if the word is not what its caller expects; otherwise it queues
//! and releases the lock. The program changes the word (F3) before it calls wake, which reads the count (F4)
//! and, if that is not 0, takes the lock and looks through the queue. Fences separate F1 from F2 and F3 from
//! F4. Either F4 sees the waiter's F1: then wake takes the lock, before F2, which then sees F3, or after the
//! waiter has queued, and finds it. Or F4 comes before F1: then F2 sees F3. The kernel's queues work the same
//! way, so a thread that waits there is safe, too.
//!
//! **Signal handlers** may wake futexes. The thread that a handler interrupted may hold the lock of a bucket,
//! or a lock of the scheduler: so wake-ups of a thread that is inside the runtime, and of one that holds the
//! lock of a bucket, are made by the housekeeper a moment later ([`late`](super::late)).

use std::cell::{Cell, UnsafeCell};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::Instant;

use crossbeam_utils::CachePadded;

use super::caller::{Errno, Outcome};
use super::late;
use crate::base::lock::RawLock;
use crate::base::note::Note;
use crate::sched::machine::SCHED;
use crate::sched::park::limit;
use crate::sched::park::wait::{FIRST_FREE_CLAIM, TIMED_OUT, Wait, WaitPlace};
use crate::sched::park::wait_queue::{ClaimedList, Node, Queue};
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sched::types::waiter::{Hook, Waiter};
use crate::sched::word::status::WaitReason;
use crate::sys::thread;

/// What a waiter waits for.
struct Entry {
    /// Changed under the locks of both buckets, by a requeue.
    address: AtomicUsize,
    /// A wake-up with a bit in common ends the wait.
    bitset: u32,
}

/// The claim of a wait that a wake-up has ended.
const WOKEN: usize = FIRST_FREE_CLAIM;
/// How many buckets there are. Addresses that share one share its lock.
const BUCKETS: usize = 512;

struct Bucket {
    /// Waiters that are in the queue, or about to be.
    count: AtomicUsize,
    lock: RawLock,
    queue: UnsafeCell<Queue<Entry>>,
}

// SAFETY: the queue is used under the lock only.
unsafe impl Sync for Bucket {}

static TABLE: [CachePadded<Bucket>; BUCKETS] = [const {
    CachePadded::new(Bucket {
        count: AtomicUsize::new(0),
        lock: RawLock::new(),
        queue: UnsafeCell::new(Queue::new()),
    })
}; BUCKETS];

thread_local! {
    /// This thread, which is foreign, holds the lock of a bucket.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

fn bucket_of(address: usize) -> &'static Bucket {
    // The multiplier is 2^64 divided by the golden ratio: neighbours get different buckets.
    &TABLE[((address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.trailing_zeros())) % BUCKETS]
}

/// Runs `f` with the queues of one or two buckets. Nothing stops the caller meanwhile, unless it is a foreign
/// thread that a signal handler of the program interrupts.
fn with_queues<R>(
    first: &'static Bucket,
    second: Option<&'static Bucket>,
    f: impl FnOnce(&mut Queue<Entry>, Option<&mut Queue<Entry>>) -> R,
) -> R {
    let second = second.filter(|second| !std::ptr::eq(*second, first));
    let locked = || {
        // In the order of the addresses, so that nobody waits in a circle.
        let swapped = second.is_some_and(|second| std::ptr::from_ref(second) < std::ptr::from_ref(first));
        let order = if swapped { [second, Some(first)] } else { [Some(first), second] };
        order.iter().flatten().for_each(|bucket| bucket.lock.lock());
        // SAFETY: under the locks, which are those of two different buckets.
        let result = unsafe { f(&mut *first.queue.get(), second.map(|bucket| &mut *bucket.queue.get())) };
        order.iter().flatten().for_each(|bucket| bucket.lock.unlock());
        result
    };
    match current() {
        Some(g) => runtime_section::on_own_m(g, |_| locked()),
        None => {
            HOLDS.set(true);
            compiler_fence(Ordering::SeqCst);
            let result = locked();
            compiler_fence(Ordering::SeqCst);
            HOLDS.set(false);
            result
        }
    }
}

fn with_queue<R>(bucket: &'static Bucket, f: impl FnOnce(&mut Queue<Entry>) -> R) -> R {
    with_queues(bucket, None, |queue, _| f(queue))
}

/// How the caller stands to the runtime.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Outside: it may do what user code does.
    Outside,
    /// A goroutine in user code, but in a marked call or in a signal handler: it has no P, or must not act as
    /// the goroutine.
    Beside,
    /// Inside, or in the handler of a signal that came there: it may hold locks.
    Inside,
}

fn place() -> Place {
    match current() {
        Some(g) if g.in_runtime.get() != 0 => Place::Inside,
        Some(_) if super::caller::caller().is_some() => Place::Outside,
        Some(_) => Place::Beside,
        None if HOLDS.get() || is_runtimes(thread::tid()) => Place::Inside,
        None => Place::Outside,
    }
}

/// Whether it is the thread of an M, or one that serves the runtime.
fn is_runtimes(tid: u32) -> bool {
    let machine = &SCHED.platform;
    machine.m_of_thread(tid).is_some() || machine.is_service_thread(tid)
}

/// Whether the calling thread, on which no goroutine runs, may wait in the table.
pub(super) fn thread_may_wait() -> bool {
    current().is_none() && place() == Place::Outside
}

/// Waits while the word at `address` holds `expected`, until a wake-up with a bit of `bitset` comes or the
/// deadline. The caller is the goroutine `g`, or a foreign thread, and may stop.
pub(super) fn wait(
    g: Option<&'static G>,
    address: *const AtomicU32,
    expected: u32,
    bitset: u32,
    deadline: Option<Instant>,
) -> Outcome<isize> {
    let bucket = bucket_of(address as usize);
    let thread = ThreadWait::new();
    let waiter = g.map_or_else(|| thread.waiter(), Waiter::of);
    let wait = Wait::of(waiter);
    thread.wait.set(&wait);
    let node = Node::new(waiter, &wait, Entry { address: AtomicUsize::new(address as usize), bitset });
    bucket.count.fetch_add(1, Ordering::SeqCst); // F1
    fence(Ordering::SeqCst);
    let queued = with_queue(bucket, |queue| {
        // SAFETY: the caller passed the address of a futex word. (F2)
        let as_expected = unsafe { &*address }.load(Ordering::SeqCst) == expected;
        if as_expected {
            // SAFETY: in no queue; it is taken out below.
            unsafe { queue.push_back(&node) };
        }
        as_expected
    });
    if !queued {
        bucket.count.fetch_sub(1, Ordering::SeqCst);
        return Err(libc::EAGAIN);
    }
    let claim = match g {
        Some(_) => {
            let place = WaitPlace { object: address as usize, node: std::ptr::from_ref(&node) as usize };
            limit::park_until(&wait, WaitReason::Futex, place.address(), deadline)
        }
        None => thread.block(&wait, deadline),
    };
    // It may have been moved to the queue of another address meanwhile.
    loop {
        let address = node.data.address.load(Ordering::Relaxed);
        let bucket = bucket_of(address);
        let done = with_queue(bucket, |queue| {
            let still = node.data.address.load(Ordering::Relaxed) == address;
            if still {
                // SAFETY: if linked, then in the queue of its address.
                unsafe { queue.remove(&node) };
            }
            still
        });
        if done {
            bucket.count.fetch_sub(1, Ordering::SeqCst);
            break;
        }
    }
    if claim == TIMED_OUT { Err(libc::ETIMEDOUT) } else { Ok(0) }
}

/// Wakes at most `count` waiters at `address` whose bitset has a bit of `bitset`. Returns how many; those that
/// the housekeeper will wake count as none.
pub(super) fn wake(address: usize, count: usize, bitset: u32) -> usize {
    fence(Ordering::SeqCst); // between the program's F3 and F4
    if count == 0 || bucket_of(address).count.load(Ordering::SeqCst) == 0 {
        return 0;
    }
    let place = place();
    if place == Place::Inside {
        late::add(address, count, bitset);
        return 0;
    }
    let claimed = take(address, count, bitset);
    let woken = claimed.len();
    match place {
        Place::Outside => claimed.ready_all(),
        _ => claimed.for_each(Waiter::ready_without_p),
    }
    woken
}

/// As [`wake`], for the housekeeper. An address of 0 stands for all of them.
pub(super) fn wake_late(address: usize, count: usize, bitset: u32) {
    if address != 0 {
        return take(address, count, bitset).ready_all();
    }
    for bucket in &TABLE {
        with_queue(bucket, |queue| queue.take_all(WOKEN)).ready_all();
    }
}

fn take(address: usize, count: usize, bitset: u32) -> ClaimedList<Entry> {
    with_queue(bucket_of(address), |queue| claim(queue, address, count, bitset))
}

/// Claims the first waiters at `address`.
fn claim(queue: &mut Queue<Entry>, address: usize, count: usize, bitset: u32) -> ClaimedList<Entry> {
    let mut claimed = ClaimedList::new();
    let matches = |node: &Node<Entry>| {
        node.data.address.load(Ordering::Relaxed) == address && node.data.bitset & bitset != 0
    };
    while claimed.len() < count
        && let Some(waiter) = queue.pop_if(matches, |_| WOKEN)
    {
        claimed.push(waiter);
    }
    claimed
}

/// The rest of a requeue that the kernel has to do.
pub(super) struct Requeued {
    pub(super) woken: usize,
    pub(super) moved: usize,
}

/// Wakes at most `wake` waiters at `from` and moves at most `most` others to `to`, if the word at `from` holds
/// `expected`. The caller is outside of the runtime.
pub(super) fn requeue(
    from: *const AtomicU32,
    to: usize,
    wake: usize,
    most: usize,
    expected: Option<u32>,
) -> Result<Requeued, Errno> {
    let (source, target) = (bucket_of(from as usize), bucket_of(to));
    fence(Ordering::SeqCst);
    let (claimed, moved) = with_queues(source, Some(target), |queue, other| {
        // SAFETY: the caller passed the address of a futex word.
        if expected.is_some_and(|expected| unsafe { &*from }.load(Ordering::SeqCst) != expected) {
            return Err(libc::EAGAIN);
        }
        let claimed = claim(queue, from as usize, wake, u32::MAX);
        let mut moved = 0;
        let mut other = other;
        while moved < most
            && let Some(node) = queue.find(|node| node.data.address.load(Ordering::Relaxed) == from as usize)
        {
            // SAFETY: linked, hence alive while the lock is held; it goes from one queue to the other. Its
            // owner looks at the address again before it takes it out.
            unsafe {
                queue.remove(node);
                (*node).data.address.store(to, Ordering::Relaxed);
                other.as_deref_mut().unwrap_or(queue).push_back(node);
            }
            moved += 1;
        }
        source.count.fetch_sub(moved, Ordering::SeqCst);
        target.count.fetch_add(moved, Ordering::SeqCst);
        Ok((claimed, moved))
    })?;
    let woken = claimed.len();
    claimed.ready_all();
    Ok(Requeued { woken, moved })
}

/// The wait of a thread: a Hook whose wake-up sets a Note. Lies on the thread's stack.
#[repr(C)]
struct ThreadWait {
    hook: Hook,
    note: Note,
    wait: Cell<*const Wait>,
}

impl ThreadWait {
    fn new() -> ThreadWait {
        let hook = Hook { ready: Self::ready, ready_inside: Self::ready_inside, retract: |_| () };
        ThreadWait { hook, note: Note::new(), wait: Cell::new(std::ptr::null()) }
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

/// Whether the caller may move waiters: not where it may hold a lock.
pub(super) fn may_requeue() -> bool {
    place() == Place::Outside
}
