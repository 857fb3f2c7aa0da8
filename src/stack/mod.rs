//! Where goroutines live: slots of address space, committed page by page (see the picture in `sched/g.rs`).
//!
//! - [`slab`] cuts slots out of large reservations and puts guards under them.
//! - [`cache`] keeps the slots of ended goroutines: a list for each P, and lists that all share.
//! - [`trim`] gives pages back that nobody has used for a while.
//! - [`size`] turns a wanted stack size into a slot size.

pub(crate) mod cache;
pub(crate) mod size;
pub(crate) mod slab;
pub(crate) mod trim;
