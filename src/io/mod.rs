//! I/O on any descriptor that can be polled: see [`Pollable`]. Sockets are in [`net`](crate::net).

pub(crate) mod core;
mod gate;
mod pollable;

pub use self::pollable::Pollable;
