//! Models of locks.

pub mod condvar;
pub mod mutex;
pub mod rwlock;
pub mod semaphore;
pub mod wait_group;

/// Checks every execution with at most `preemptions` preemptions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
