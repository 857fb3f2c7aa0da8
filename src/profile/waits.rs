//! The profiles `block` and `mutex`: where goroutines wait, and who lets them wait.
//!
//! A goroutine that parks marks the time, behind the branch that the tracer uses (`sched/event/`). The thread
//! that readies it calls [`wait_ended`]: the wait is over, its length is known, and the goroutine, which is
//! switched out, belongs to that thread. So the thread can walk the goroutine's stack for `block`. It walks
//! its own for `mutex`: it is the thread that has just released the lock.
//!
//! Samples are as in Go, and unbiased. For `block`: a wait of at least the rate (ns) counts, a shorter one
//! counts with probability length/rate, as rate/length waits. For `mutex`: a wait counts with probability
//! 1/rate, as `rate` waits.
//!
//! [`wait_ended`] runs inside the runtime, perhaps under a lock. It allocates nothing and takes no lock
//! (`buckets.rs`); nor does the unwinder (`diag/dump/unwind.rs`).

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::buckets::Buckets;
use super::data::{Kind, Labels, Profile, Stack};
use crate::arch;
use crate::diag::dump::unwind::{self, Frames};
use crate::sched::event::{EVENTS, Waker};
use crate::sched::types::g::G;
use crate::sched::word::status::WaitReason;

static BLOCK: Buckets = Buckets::new();
static MUTEX: Buckets = Buckets::new();
/// The rate of `block` (ns), and that of `mutex`: one in so many waits. 0: off.
static BLOCK_RATE: AtomicU64 = AtomicU64::new(0);
static MUTEX_FRACTION: AtomicU32 = AtomicU32::new(0);

/// Begins, changes or ends (with `Duration::ZERO`) the collection of the profile [`block`](super::block), as
/// Go's `runtime.SetBlockProfileRate`: on average one wait is sampled for each `rate` that goroutines wait.
/// Longer waits are all sampled; of shorter ones a random part, so that the sums are right all the same. A
/// rate of one nanosecond samples every wait, which costs a microsecond or two for each; 10 µs is cheap.
///
/// # Errors
/// If there is no memory for it.
pub fn set_block_profile_rate(rate: Duration) -> io::Result<()> {
    if !rate.is_zero() {
        BLOCK.fill()?;
    }
    BLOCK_RATE.store(u64::try_from(rate.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    turn_on_or_off();
    Ok(())
}

/// Begins, changes or ends (with 0) the collection of the profile [`mutex`](super::mutex), as Go's
/// `runtime.SetMutexProfileFraction`: one in `fraction` waits is sampled, at random. Returns the former
/// fraction.
///
/// # Errors
/// If there is no memory for it.
pub fn set_mutex_profile_fraction(fraction: u32) -> io::Result<u32> {
    if fraction != 0 {
        MUTEX.fill()?;
    }
    let former = MUTEX_FRACTION.swap(fraction, Ordering::Relaxed);
    turn_on_or_off();
    Ok(former)
}

pub(super) fn mutex_fraction() -> u32 {
    MUTEX_FRACTION.load(Ordering::Relaxed)
}

fn turn_on_or_off() {
    EVENTS.profile_waits(|| BLOCK_RATE.load(Ordering::Relaxed) != 0 || mutex_fraction() != 0);
}

/// Whether the profile `block` has waits of this kind: those for other goroutines, as in Go, but not those
/// for time and I/O, nor those of the runtime's own goroutines.
fn is_blocking(reason: WaitReason) -> bool {
    match reason {
        WaitReason::Join
        | WaitReason::ChanSend
        | WaitReason::ChanReceive
        | WaitReason::Select
        | WaitReason::SelectNoCases
        | WaitReason::Condvar
        | WaitReason::Once
        | WaitReason::Barrier
        | WaitReason::WaitGroup
        | WaitReason::Semaphore
        | WaitReason::Group
        | WaitReason::Scope
        | WaitReason::Context
        | WaitReason::Futex => true,
        WaitReason::Sleep
        | WaitReason::Future
        | WaitReason::IoRead
        | WaitReason::IoWrite
        | WaitReason::TimerService
        | WaitReason::Crew
        | WaitReason::ForkHelper
        | WaitReason::Bubble => false,
        lock => is_for_lock(lock),
    }
}

/// Whether it is a wait for somebody who holds a lock.
fn is_for_lock(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Mutex | WaitReason::RwLockRead | WaitReason::RwLockWrite)
}

/// The wait of `g`, which belongs to the caller and is switched out, has ended after `nanos`.
pub(crate) fn wait_ended(g: &G, nanos: u64, waker: Waker<'_>) {
    let reason = g.wait_reason();
    let rate = BLOCK_RATE.load(Ordering::Relaxed);
    if rate != 0 && is_blocking(reason) && (nanos >= rate || random() % rate < nanos) {
        add_block(g, nanos.max(1) as f64, rate as f64);
    }
    let fraction = mutex_fraction();
    if fraction != 0 && is_for_lock(reason) && random().is_multiple_of(fraction.into()) {
        add_mutex(nanos as f64, fraction.into(), waker);
    }
}

fn add_block(g: &G, nanos: f64, rate: f64) {
    let mut frames = Frames::new();
    // SAFETY: the goroutine is switched out, and the caller's.
    unsafe {
        if let Some(registers) = arch::saved_registers(g.context.get()) {
            unwind::stopped(&registers, g.slot.stack(), &mut frames);
        }
    }
    match nanos < rate {
        true => BLOCK.add(frames.as_slice(), rate / nanos, rate),
        false => BLOCK.add(frames.as_slice(), 1.0, nanos),
    }
}

fn add_mutex(nanos: f64, fraction: f64, waker: Waker<'_>) {
    let mut frames = Frames::new();
    match waker {
        Waker::Goroutine(place) => unwind::here(place.stack.clone(), &mut frames),
        Waker::Thread => unwind::here(0..usize::MAX, &mut frames),
        // A timeout: nobody released anything.
        Waker::Runtime => return,
    }
    MUTEX.add(frames.as_slice(), fraction, nanos * fraction);
}

/// A random number.
fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut x = STATE.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

fn profile(kind: Kind, buckets: &Buckets) -> Profile {
    let mut profile = Profile::new(kind);
    buckets.each(|frames, count, nanos| {
        let stack = frames.map_or(Stack::Named("gort::profile::other_stacks"), Stack::Addresses);
        profile.add(stack, Labels::default(), [count, nanos]);
    });
    profile
}

pub(super) fn block() -> Profile {
    profile(Kind::Block, &BLOCK)
}

pub(super) fn mutex() -> Profile {
    profile(Kind::Mutex, &MUTEX)
}
