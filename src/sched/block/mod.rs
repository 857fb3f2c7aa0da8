//! Goroutines that occupy their thread: in a blocking call, marked or not, or bound by lock_os_thread.

pub(crate) mod hidden_function;
pub(crate) mod lock_os_thread;
pub(crate) mod marked_call;
pub(crate) mod setxid;
pub(crate) mod thread_id;
pub(crate) mod thread_state;
pub(crate) mod unmarked;
