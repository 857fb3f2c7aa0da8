//! Waiting. Everything that blocks, be it a channel, a lock, a join, a sleep or a read, publishes a `Waiter`
//! and calls [`park`](park_ready::park); the primitives differ only in their queues.

pub(crate) mod channel_op;
pub(crate) mod clock;
pub(crate) mod hold_parked;
pub(crate) mod io_wait;
pub(crate) mod limit;
pub(crate) mod park_ready;
pub(crate) mod timers;
pub(crate) mod wait;
pub(crate) mod wait_queue;
