//! gort's event logs, the library's own files. The scheduler of the models writes none (`sched/mod.rs`).

#[path = "../../../src/sched/event/log.rs"]
pub(crate) mod log;
#[path = "../../../src/sched/event/logs.rs"]
pub(crate) mod logs;
pub mod models;
#[path = "../../../src/sched/event/outside.rs"]
pub(crate) mod outside;
#[path = "../../../src/sched/event/pool.rs"]
pub(crate) mod pool;
#[path = "../../../src/sched/event/reader.rs"]
pub(crate) mod reader;
#[path = "../../../src/sched/event/record.rs"]
pub(crate) mod record;
