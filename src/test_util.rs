//! Waiting for a condition, and a process of its own, for unit tests. Integration tests have `tests/common/`.

use std::process::Command;
use std::time::{Duration, Instant};

/// How long a condition may take before the test fails. Long, because the machine may be busy with other
/// work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Yields the thread until `condition` holds.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "the condition did not come true within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Runs the unit test `test` (its whole path) alone, in a process of its own. Returns true in that process,
/// which must go on with the test, and false in the process that started it and has waited for its success.
#[track_caller]
pub(crate) fn alone(test: &str) -> bool {
    const CHILD: &str = "GORT_UNIT_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let child = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    // A name that is wrong runs no test, and succeeds.
    let passed = child.status.success() && stdout.contains("1 passed");
    assert!(passed, "{}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", child.status);
    false
}
