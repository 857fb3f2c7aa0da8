//! The message of a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message in a panic's payload.
pub(crate) fn message_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    }
}

/// Runs `f`, which must panic. Returns the message.
#[track_caller]
pub(crate) fn panic_message(f: impl FnOnce()) -> String {
    message_of(catch_unwind(AssertUnwindSafe(f)).expect_err("it did not panic"))
}
