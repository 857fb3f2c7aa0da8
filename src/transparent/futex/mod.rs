//! Futexes: a table in which goroutines and threads wait in one order.

pub(super) mod call;
pub(super) mod late;
mod table;
mod wait_wake;
