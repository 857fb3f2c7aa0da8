//! For reports: who holds the lock that a goroutine waits for, and whom it waits for.

use super::holder::StackPage;
use super::raw_mutex::RawMutex;
use super::raw_rwlock::{RawRwLock, TO_READ_UPGRADABLY, TO_UPGRADE, UPGRADABLE, WRITER, readers};
use super::waitq::Node;
use crate::atomic::Ordering;
use crate::sched::reason::WaitReason;
use crate::sched::waiter::Place;

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// Nobody.
    Nobody,
    /// One writer.
    Writer(StackPage),
    /// So many readers of the lock at this address, and perhaps an upgradable one.
    Readers { count: u64, lock: usize, upgradable: Option<StackPage> },
}

impl Holders {
    /// Who holds the lock that a goroutine waits for with this reason and object; nobody, if it waits for something else.
    ///
    /// # Safety
    /// The goroutine stays parked meanwhile.
    pub(crate) unsafe fn of_wait(reason: WaitReason, object: usize) -> Holders {
        // SAFETY: waits for locks come with a place, and it borrows the lock.
        unsafe {
            match reason {
                WaitReason::Mutex => {
                    RawMutex::holder_of(Place::at(object).object).map_or(Holders::Nobody, Holders::Writer)
                }
                WaitReason::RwLockRead | WaitReason::RwLockWrite => {
                    RawRwLock::holders_of(Place::at(object).object)
                }
                _ => Holders::Nobody,
            }
        }
    }
}

impl RawRwLock {
    /// Who holds the lock. `object` is what a goroutine that waits for it gave to `park`.
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

/// Who has to do something before a goroutine can have the lock that it waits for.
#[derive(Clone, Copy)]
pub(crate) struct Blockers {
    /// The holder, if there can be only one and it is known.
    pub(crate) holder: Option<StackPage>,
    /// And all of these.
    pub(crate) crowd: Option<Crowd>,
    /// Where it keeps others out itself.
    pub(crate) member_of: Option<Crowd>,
}

/// Those at the `RwLock` of this address who keep others out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Crowd {
    /// Whoever has locked it for reading.
    Readers(usize),
    /// Whoever is queued to write: new readers are behind it.
    Writers(usize),
}

impl Blockers {
    /// For a goroutine that waits with this reason and object. `None`: it does not wait for a lock, or is about to get it.
    ///
    /// # Safety
    /// The goroutine stays parked meanwhile, and nobody else changes the lock.
    pub(crate) unsafe fn of_wait(reason: WaitReason, object: usize) -> Option<Blockers> {
        // SAFETY: the caller's promise.
        let holders = unsafe { Holders::of_wait(reason, object) };
        if holders == Holders::Nobody {
            return None;
        }
        // SAFETY: waits for locks come with a place, and its node is on the stack of who waits.
        let (place, node) = unsafe {
            let place = Place::at(object);
            (place, &*(place.node as *const Node))
        };
        let writes = reason == WaitReason::RwLockWrite;
        let (holder, crowd) = match holders {
            Holders::Readers { lock, upgradable, .. } if writes => {
                // Who upgrades is the upgradable one itself.
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
