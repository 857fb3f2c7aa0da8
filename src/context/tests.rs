//! Tests of the internals: how many derived contexts and functions a context remembers.

use super::Context;

#[test]
fn a_context_that_is_gone_or_has_ended_is_forgotten_by_its_parent() {
    let (parent, cancel) = Context::background().with_cancel();
    let (first, cancel_first) = parent.with_cancel();
    let with_value = first.clone();
    let (second, _) = parent.with_timeout(std::time::Duration::from_secs(3600));
    let stop = parent.after_func(|| {});
    assert_eq!(parent.derived_count(), 3);
    cancel_first.cancel();
    assert_eq!(parent.derived_count(), 2);
    drop((first, with_value, cancel_first));
    drop(second);
    assert_eq!(parent.derived_count(), 1);
    assert!(stop.stop());
    assert_eq!(parent.derived_count(), 0);
    let (third, _) = parent.with_cancel();
    cancel.cancel();
    assert_eq!(parent.derived_count(), 0);
    assert!(third.err().is_some());
}
