//! Tells reports which goroutines hold the lock that a parked goroutine waits for, and which ones block it.

use super::StackPage;
use crate::base::atomic::Ordering;
use crate::sched::park::wait::WaitPlace;
use crate::sched::word::status::WaitReason;
use crate::sync::Once;
use crate::sync::raw::condvar::RawCondvar;
use crate::sync::raw::mutex::RawMutex;
use crate::sync::raw::rwlock::{RawRwLock, TO_READ_UPGRADABLY, TO_UPGRADE, UPGRADABLE, WRITER, readers};
use crate::sync::raw::waitq::Node;

/// The holders of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// The lock is free, or its holder is not known.
    Nobody,
    /// One writer, or the one that runs the function of a `Once`.
    Writer(StackPage),
    /// `count` readers of the lock at this address, and perhaps an upgradable reader besides.
    Readers { count: u64, lock: usize, upgradable: Option<StackPage> },
}

impl Holders {
    /// The holders of the lock that a goroutine waits for with this reason and object. `Nobody` if it does
    /// not wait for a lock.
    ///
    /// # Safety
    /// The goroutine stays parked until this returns.
    pub(crate) unsafe fn of_wait(reason: WaitReason, object: usize) -> Holders {
        // SAFETY: the object of a wait for a lock is a `WaitPlace`. The parked goroutine borrows the lock in
        // it.
        unsafe {
            match reason {
                WaitReason::Mutex => {
                    RawMutex::holder_of(WaitPlace::at(object).object).map_or(Holders::Nobody, Holders::Writer)
                }
                WaitReason::Once => {
                    Once::runner_of(WaitPlace::at(object).object).map_or(Holders::Nobody, Holders::Writer)
                }
                WaitReason::RwLockRead | WaitReason::RwLockWrite => {
                    RawRwLock::holders_of(WaitPlace::at(object).object)
                }
                _ => Holders::Nobody,
            }
        }
    }
}

impl RawRwLock {
    /// The holders of the lock. `object` is what a goroutine that waits for the lock gave to `park`.
    ///
    /// # Safety
    /// `object` is the address of a live `RawRwLock`.
    pub(crate) unsafe fn holders_of(object: usize) -> Holders {
        // SAFETY: the caller's promise.
        let raw = unsafe { &*(object as *const RawRwLock) };
        let state = raw.state.load(Ordering::Relaxed);
        if state & WRITER != 0 {
            raw.holder.page().map_or(Holders::Nobody, Holders::Writer)
        } else if state & UPGRADABLE != 0 || readers(state) != 0 {
            let upgradable = raw.holder.page().filter(|_| state & UPGRADABLE != 0);
            Holders::Readers { count: readers(state), lock: object, upgradable }
        } else {
            Holders::Nobody
        }
    }
}

/// The goroutines that must act before a parked goroutine can get the lock that it waits for.
#[derive(Clone, Copy)]
pub(crate) struct Blockers {
    /// The one holder that blocks it, if there is one and it is known.
    pub(crate) holder: Option<StackPage>,
    /// The group of goroutines that blocks it besides the holder.
    pub(crate) crowd: Option<Crowd>,
    /// The group that the parked goroutine itself belongs to, and which blocks others.
    pub(crate) member_of: Option<Crowd>,
}

/// A group of goroutines that together block others at the `RwLock` of this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Crowd {
    /// All that have locked it for reading.
    Readers(usize),
    /// All that are queued to write: new readers wait behind them.
    Writers(usize),
}

impl Blockers {
    /// The blockers of a goroutine that waits with this reason and object. `None` if it does not wait for a
    /// lock, or is about to get it.
    ///
    /// # Safety
    /// The goroutine stays parked until this returns, and nobody changes the lock meanwhile.
    pub(crate) unsafe fn of_wait(reason: WaitReason, object: usize) -> Option<Blockers> {
        // SAFETY: the caller's promise.
        let holders = unsafe { Holders::of_wait(reason, object) };
        if holders == Holders::Nobody {
            return None;
        }
        // SAFETY: the object of a wait for a lock is a `WaitPlace`. Its node is on the parked goroutine's
        // stack.
        let (place, node) = unsafe {
            let place = WaitPlace::at(object);
            (place, &*(place.node as *const Node))
        };
        let writes = reason == WaitReason::RwLockWrite;
        let (holder, crowd) = match holders {
            Holders::Readers { lock, upgradable, .. } if writes => {
                // A goroutine that waits to upgrade is itself the upgradable reader.
                (upgradable.filter(|_| node.tag() != TO_UPGRADE), Some(Crowd::Readers(lock)))
            }
            Holders::Readers { lock, upgradable, .. } => {
                (upgradable.filter(|_| node.tag() == TO_READ_UPGRADABLY), Some(Crowd::Writers(lock)))
            }
            Holders::Writer(page) => (Some(page), None),
            Holders::Nobody => (None, None),
        };
        let member_of = writes.then_some(Crowd::Writers(place.object));
        node.waits().then_some(Blockers { holder, crowd, member_of })
    }
}

/// Whether a goroutine that waits at a condition variable is in its queue, and was not notified.
///
/// # Safety
/// The goroutine stays parked there until this returns, and nobody changes the queue meanwhile.
pub(crate) unsafe fn waits_for_notification(place: &WaitPlace) -> bool {
    // SAFETY: the parked goroutine borrows the condition variable.
    let raw = unsafe { &*(place.object as *const RawCondvar) };
    !raw.queue.is_locked()
        && raw.queue.lock_inside().has_claimable(|node| std::ptr::from_ref(node) as usize == place.node)
}
