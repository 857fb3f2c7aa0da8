//! The models. Each function checks one property and panics when an execution breaks it.

pub mod chan;
pub mod idle;
pub mod join;
pub mod netpoll;
pub mod park;
pub mod runq;
pub mod task;
mod world;

pub use crate::sync::models as sync;

/// Checks every execution; with a bound, those with at most that many preemptions: for models whose whole
/// space is too large.
fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}
