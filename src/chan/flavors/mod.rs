//! The kinds of channels, one folder or file each, and what they share.
//!
//! | flavor | channel |
//! | --- | --- |
//! | `array/` | with a buffer of fixed size: a ring |
//! | `list/` | without a limit, or with a very large one: linked blocks |
//! | `zero/` | without a buffer: sender and receiver meet |
//! | `at.rs`, `tick.rs` | one message at a time, a message at a regular pace: no sender, the receivers wait |
//! | `alarm.rs` | a timer that can be set again |

pub(crate) mod alarm;
pub(crate) mod array;
pub(crate) mod at;
mod discard;
pub(crate) mod list;
pub(crate) mod pad;
pub(crate) mod payload;
pub(crate) mod relax;
pub(crate) mod slot;
pub(crate) mod tick;
pub(crate) mod zero;
