//! Goroutines that keep their thread: in a blocking call, marked or not, or bound to it.

pub(crate) mod lock_os_thread;
pub(crate) mod marked_call;
pub(crate) mod setxid;
pub(crate) mod unmarked;
