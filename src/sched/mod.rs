//! The scheduler: goroutines (G), OS threads (M), processors (P). README.md tells the path of a goroutine and
//! argues why none is forgotten.
//!
//! | folder | what |
//! | --- | --- |
//! | `types/` | G, M, P, and whoever waits |
//! | `word/` | words in which two sides meet without a lock |
//! | `queue/` | the queues of runnable goroutines |
//! | `idle/` | making goroutines runnable, waking and stopping Ms, waiting for timers and I/O |
//! | `run/` | choosing the next goroutine, switching, starting and ending one |
//! | `park/` | waiting: everything above blocks through it |
//! | `block/` | goroutines that keep their thread |
//! | `monitor/` | sysmon, the housekeeper, preemption by signal |
//!
//! Imports go from the lower lines of this table to the upper ones, never back (`word` and `queue` know
//! nothing of `types`). `schedt.rs` has the one `Sched`, `machine.rs` the state of its threads, `platform.rs`
//! what decisions need of the world, `idle_protocol.rs` the counts of who sleeps, `hooks.rs` how reports are
//! reached, `boot.rs` the start, `gomaxprocs.rs` the number of Ps.

pub(crate) mod block;
pub(crate) mod boot;
pub(crate) mod gomaxprocs;
pub(crate) mod hooks;
pub(crate) mod idle;
pub(crate) mod idle_protocol;
pub(crate) mod machine;
pub(crate) mod monitor;
pub(crate) mod park;
pub(crate) mod platform;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod schedt;
pub(crate) mod types;
pub(crate) mod word;
