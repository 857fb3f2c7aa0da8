//! The functions of libc that code calls, but for those that close, duplicate and change descriptors
//! (`descriptor/`) and `syscall` (`futex/call.rs`).

pub(super) mod blocking;
pub(super) mod multiplex;
pub(super) mod real;
pub(super) mod sleep;
pub(super) mod sockets;
pub(super) mod streams;
