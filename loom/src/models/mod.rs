//! The models. Each function checks one property and panics when an execution breaks it.

pub mod chan;
pub mod fork;
pub mod idle;
pub mod join;
pub mod netpoll;
pub mod park;
pub mod runq;
pub mod task;
mod world;

pub use crate::event_log::models as event_log;
pub use crate::sync::models as sync;
pub use crate::transparent::known_models as known;
pub use crate::transparent::models as futex;

/// Checks every execution, or, for models with too many executions, those with at most `preemptions`
/// preemptions.
pub(crate) fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}
