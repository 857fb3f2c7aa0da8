//! On whose account the CPU works: the labels of goroutines, and the CPU time that goroutines and labels have
//! used.

pub(crate) mod cpu_time;
pub(crate) mod label_times;
pub(crate) mod labels;
