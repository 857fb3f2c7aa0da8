//! One goroutine, looked at as a dump looks at all: for the debug server.
//!
//! Unlike a dump, this leaves a queued goroutine where it is: it copies the stack (`stack_copy.rs`). It may
//! be called very often, so it waits for a dump that is being made only for a moment.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::GoroutineTrace;
use super::snapshot::{self, Collection, Holder, ONE};
use super::stack_copy;
use crate::sched::park::hold_parked;
use crate::sched::park::wait::WaitPlace;
use crate::sched::types::g::G;
use crate::sched::word::status::{Status, WaitReason};

/// What a parked goroutine waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitsFor {
    /// The address of the channel or lock.
    pub(crate) object: Option<usize>,
    /// The goroutine that it joins.
    pub(crate) joins: Option<u64>,
    /// The goroutines that hold the lock, as far as they are known, and how many hold it.
    pub(crate) holders: Vec<u64>,
    pub(crate) held_by: u64,
}

/// How much a look may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// It says what a goroutine waits for, and sends a signal to one that computes, which takes a moment.
    Full,
    /// Only the stack, and only if the goroutine does not run.
    Stack,
}

/// Takes the lock of reports, unless that takes too long.
fn take_turn() -> Option<MutexGuard<'static, ()>> {
    const PATIENCE: Duration = Duration::from_millis(500);
    let start = Instant::now();
    loop {
        match ONE.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The goroutine with that id, which `g` was. `None`: it has ended, or a dump is being made.
pub(crate) fn look(g: &'static G, id: u64, effort: Effort) -> Option<(GoroutineTrace, WaitsFor)> {
    let _turn = take_turn()?;
    let mut collection = Collection::default();
    let mut waits_for = WaitsFor::default();
    match g.status() {
        Status::Waiting => {
            if effort == Effort::Full {
                waits_for = object_of(g, id);
            }
            snapshot::look_at_parked(g, &mut collection);
        }
        Status::Syscall => snapshot::look_at_syscall(g, false, &mut collection),
        Status::Running if effort == Effort::Full => snapshot::look_at_running(g, false, &mut collection),
        _ => {}
    }
    let seen = collection.found.into_iter().find(|snapshot| snapshot.id == id);
    let snapshot = match seen {
        Some(snapshot) => snapshot,
        None => of_other(g),
    };
    if snapshot.id != id || snapshot.status == Status::Dead {
        return None;
    }
    (waits_for.held_by, waits_for.holders) = match &snapshot.holder {
        Some(Holder::One(id)) => (1, id.iter().copied().collect()),
        Some(Holder::Readers(count, known)) => (*count, known.clone()),
        None => (0, Vec::new()),
    };
    Some((GoroutineTrace(snapshot), waits_for))
}

/// A goroutine that is queued, in an unmarked call, or on its way.
fn of_other(g: &'static G) -> snapshot::Snapshot {
    let status = g.status();
    let frames = match status {
        Status::Runnable | Status::Preempted => {
            // The mark may be the stall watchdog's: then it stays.
            let own = g.mark_status();
            let frames = stack_copy::queued(g).filter(|_| g.has_marked_status());
            if own {
                g.unmark_status();
            }
            frames
        }
        Status::Syscall => g.peek_m().and_then(|m| stack_copy::in_call(g, m)),
        _ => None,
    };
    let mut snapshot = snapshot::with_frames(g, frames.as_ref());
    snapshot.status = status;
    snapshot
}

fn object_of(g: &'static G, id: u64) -> WaitsFor {
    let seen = hold_parked::while_held(g, || {
        let (reason, object) = (g.wait_reason(), g.wait_object.load(Ordering::Relaxed));
        use WaitReason::{ChanReceive, ChanSend, Join, Mutex, RwLockRead, RwLockWrite, WaitGroup};
        let object = match reason {
            Join => object,
            // SAFETY: for these reasons the object is the address of a `WaitPlace` on the stack of the
            // goroutine, which we hold; or a number that is no address (no channel at all).
            ChanReceive | ChanSend if object < 4096 => 0,
            ChanReceive | ChanSend | Mutex | RwLockRead | RwLockWrite | WaitGroup => {
                // SAFETY: as above.
                unsafe { WaitPlace::at(object) }.object
            }
            _ => 0,
        };
        (g.id(), reason, object)
    });
    let mut found = WaitsFor::default();
    match seen {
        Some((seen, WaitReason::Join, info)) if seen == id && info != 0 => {
            G::for_each(|other| {
                if other.status() != Status::Dead && other.info.load(Ordering::Relaxed) as usize == info {
                    found.joins = Some(other.id());
                }
            });
        }
        Some((seen, _, object)) if seen == id && object >= 4096 => found.object = Some(object),
        _ => {}
    }
    found
}
