//! Models of channels.

pub mod exchange;
pub mod ring;
pub mod select;

/// Checks a model, with at most two preemptions: bugs show with few of them, and without a limit the larger
/// models take forever.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 5_000;
    builder.check(f);
}
