//! Reads execution traces in Go's format (header `go 1.26 trace`), which gort and Go 1.26 and 1.27 write.
//!
//! The way of the bytes:
//!
//! ```text
//! wire        numbers and bytes, each with its offset in the file
//! spec        the table of events: name and number of arguments
//! batch       the header, then batches: generation, M, time, data
//! generation  the batches of one generation, its strings, stacks, samples and clock
//! tables      strings and stacks of all generations, each stored once
//! event       the events of one M, one after the other
//! order       the one order of the events of all Ms, by time and by sequence numbers
//! model       what each goroutine and each P did, from when to when
//! summary     figures: utilisation, latencies, blocked time, tasks, groups
//! ```
//!
//! [`Trace::read`] never panics and never loops, whatever the bytes are. It needs memory for each event, so a
//! small multiple of the file's size. If a part of the file is broken or missing, the trace has everything
//! before that part, and [`Trace::damage`] says where the damage is.
//!
//! ```
//! let error = gort_trace::Trace::read(b"no trace").unwrap_err();
//! let says = "at byte 0: this is no Go execution trace: it does not begin with \"go 1.\"";
//! assert_eq!(error.to_string(), says);
//! ```

mod batch;
mod error;
mod event;
mod generation;
mod model;
mod order;
mod spec;
mod summary;
mod tables;
mod wire;

pub use error::Error;
pub use model::{
    Cause, GenerationInfo, Goroutine, Log, NONE, Proc, Range, Region, Sample, Span, State, Task, Trace,
};
pub use summary::{
    Blocked, Calls, Group, Latencies, Latency, Named, ProcUse, Range as LatencyRange, Sampled, Summary,
    Totals, summarise,
};
pub use tables::{Frame, StackId, Stacks, StringId, Strings};
