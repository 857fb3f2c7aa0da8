//! Goroutine stacks: slots of address space, committed page by page.
//!
//! ```text
//! slot end    +--------------------------+
//!             | struct pthread           |  \ the private TLS block (tls/)
//!  block ---> +--------------------------+  |
//!             | static TLS of modules    |  /
//!             +--------------------------+
//!             | header, HEADER bytes     |  the scheduler's G, which ends in the `Slot`
//!  header --> +--------------------------+  = base of the stack
//!             | stack, grows downwards   |
//!             |            ...           |  committed page by page
//!             +--------------------------+
//!             | guard                    |  a stack overflow faults here
//! slot start  +--------------------------+
//! ```
//! The TLS block, the header and the first frames share the top page, so a parked goroutine needs one page.
//!
//! - [`slot`] has the addresses of a slot.
//! - [`slab`] cuts slots out of large reservations and puts guards under them.
//! - [`cache`] keeps the slots of ended goroutines: lists for each P, and shared lists.
//! - [`size`] says which slot a goroutine gets: a growable one, or one of a packed size.

pub(crate) mod cache;
pub(crate) mod size;
pub(crate) mod slab;
pub(crate) mod slot;
