//! The scheduler: goroutines (G), OS threads (M), processors (P). README.md follows a goroutine through the
//! files and argues why no wake-up is lost.
//!
//! | folder | what |
//! | --- | --- |
//! | `types/` | G, M, P, Waiter |
//! | `word/` | atomic words in which two sides meet without a lock |
//! | `account/` | labels of goroutines; CPU time of goroutines and labels |
//! | `queue/` | the queues of runnable goroutines |
//! | `idle/` | making goroutines runnable, waking and stopping Ms, waiting for timers and I/O |
//! | `run/` | choosing the next goroutine, switching, starting and ending one |
//! | `park/` | waiting: everything above blocks through it |
//! | `block/` | goroutines that occupy their thread: blocking calls, lock_os_thread |
//! | `monitor/` | sysmon, the housekeeper, preemption by signal |
//!
//! Imports go from the lower lines of this table to the upper ones, never back (`word`, `queue` and `account`
//! know nothing of `types`). `schedt.rs` has `Sched`, the shared state; `machine.rs` the state of the
//! process's threads; `platform.rs` what the scheduler needs from its environment; `idle_protocol.rs` the
//! counts of idle Ps and spinning Ms; `hooks.rs` the calls to the layers above; `boot.rs` the start;
//! `gomaxprocs.rs` the number of Ps.

pub(crate) mod account;
pub(crate) mod block;
pub(crate) mod boot;
pub(crate) mod event;
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
