//! Where goroutines live: slots of address space, committed page by page.
//!
//! ```text
//! slot end    +--------------------------+
//!             | struct pthread           |  \ the private TLS block (tls/)
//!  block ---> +--------------------------+  |
//!             | static TLS of modules    |  /
//!             +--------------------------+
//!             | header, HEADER bytes     |  the scheduler's G (sched/types/g.rs); its last words are the `Slot`
//!  header --> +--------------------------+  = base of the stack
//!             | stack, grows downwards   |
//!             |            ...           |  committed page by page
//!             +--------------------------+
//!             | guard page               |  a stack overflow faults here
//! slot start  +--------------------------+
//! ```
//! TLS block, header and the first frames share the top page: one page for a parked goroutine.
//!
//! - [`slot`] is what the stack layer knows of a slot.
//! - [`slab`] cuts slots out of large reservations and puts guards under them.
//! - [`cache`] keeps the slots of ended goroutines: a list for each P, and lists that all share.
//! - [`size`] turns a wanted stack size into a slot size.

pub(crate) mod cache;
pub(crate) mod size;
pub(crate) mod slab;
pub(crate) mod slot;
