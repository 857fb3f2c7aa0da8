//! I/O on any descriptor that epoll can wait for, without blocking a thread: see [`Pollable`]. Sockets are in
//! [`net`](crate::net).

pub(crate) mod core;
mod gate;
mod pollable;
#[cfg(feature = "hyper")]
pub(crate) mod polled;

pub use self::pollable::Pollable;
