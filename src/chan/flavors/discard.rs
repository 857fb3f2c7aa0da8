//! Dropping the messages that are left in a channel.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use crate::chan::errors::TryRecvError;

/// Receives and drops messages until there are none. If drops panic, the other messages are dropped all the
/// same, and then the first panic continues, unless the caller is unwinding already: that would abort.
pub(in crate::chan::flavors) fn discard_all<T>(try_recv: impl Fn() -> Result<T, TryRecvError>) {
    let mut first = None;
    while let Ok(msg) = try_recv() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(msg))) {
            // A payload that is not wanted is leaked, because its drop might panic, too.
            match first {
                None => first = Some(payload),
                Some(_) => mem::forget(payload),
            }
        }
    }
    match first {
        Some(payload) if thread::panicking() => mem::forget(payload),
        Some(payload) => resume_unwind(payload),
        None => {}
    }
}
