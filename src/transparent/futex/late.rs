//! Deferred wake-ups: signal handlers that may have interrupted the runtime store them without a lock; the
//! housekeeper performs them. If there are more than fit, it wakes all waiters of the futex table: each looks
//! at its futex word again, as after any wake-up.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::wait_wake;
use crate::sched::idle::start_m::wake_housekeeper;
use crate::transparent::descriptor::Descriptor;

/// The number of wake-ups that fit: what signal handlers may store before the housekeeper gets to run.
const MOST: usize = 64;

const FREE: u32 = 0;
const WRITING: u32 = 1;
const FULL: u32 = 2;

struct Late {
    state: AtomicU32,
    address: AtomicUsize,
    count: AtomicUsize,
    bitset: AtomicU32,
}

static LATE: [Late; MOST] = [const {
    Late {
        state: AtomicU32::new(FREE),
        address: AtomicUsize::new(0),
        count: AtomicUsize::new(0),
        bitset: AtomicU32::new(0),
    }
}; MOST];
static ANY: AtomicBool = AtomicBool::new(false);
static TOO_MANY: AtomicBool = AtomicBool::new(false);
/// A descriptor that calls wait for was closed.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Leaves a wake-up for the housekeeper. Safe in a signal handler.
pub(in crate::transparent) fn add(address: usize, count: usize, bitset: u32) {
    let free = LATE.iter().find(|late| {
        late.state.compare_exchange(FREE, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    });
    match free {
        Some(late) => {
            late.address.store(address, Ordering::Relaxed);
            late.count.store(count, Ordering::Relaxed);
            late.bitset.store(bitset, Ordering::Relaxed);
            // Release: the housekeeper sees the other fields.
            late.state.store(FULL, Ordering::Release);
        }
        None => TOO_MANY.store(true, Ordering::Relaxed),
    }
    // Release pairs with the swap in `make_all`.
    ANY.store(true, Ordering::Release);
    wake_housekeeper();
}

/// Lets the housekeeper wake the users of all descriptors. Safe in a signal handler.
pub(in crate::transparent) fn wake_users() {
    CLOSED.store(true, Ordering::Relaxed);
    // Release pairs with the swap in `make_all`.
    ANY.store(true, Ordering::Release);
    wake_housekeeper();
}

/// Called by the housekeeper when it is awake.
pub(crate) fn make_all() {
    if !ANY.swap(false, Ordering::AcqRel) {
        return;
    }
    for late in &LATE {
        if late.state.load(Ordering::Acquire) == FULL {
            let (address, count) = (late.address.load(Ordering::Relaxed), late.count.load(Ordering::Relaxed));
            let bitset = late.bitset.load(Ordering::Relaxed);
            late.state.store(FREE, Ordering::Release);
            wait_wake::wake_late(address, count, bitset);
        }
    }
    if TOO_MANY.swap(false, Ordering::Relaxed) {
        wait_wake::wake_everybody();
    }
    if CLOSED.swap(false, Ordering::Relaxed) {
        let all = Descriptor::known(0, u32::MAX);
        all.filter(|(_, one)| one.has_users_to_wake()).for_each(|(_, one)| one.wake_users());
    }
}
