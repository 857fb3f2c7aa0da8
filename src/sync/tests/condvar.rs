//! The condition variable from inside.

use std::time::Duration;

use crate::sync::{Condvar, Mutex};

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let (mutex, cond) = (Mutex::new(()), Condvar::new());
    let mut guard = mutex.lock();
    assert!(cond.wait_for(&mut guard, Duration::from_micros(200)).timed_out());
    assert_eq!(cond.queued(), 0);
    assert_eq!(cond.notify_all(), 0);
}
