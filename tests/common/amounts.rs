//! How much a test does.

/// Whether `GORT_FULL=1` asks for a full run, which takes long.
pub(crate) fn full() -> bool {
    std::env::var_os("GORT_FULL").is_some_and(|value| value == "1")
}

/// `quick`, or `full_amount` in a full run.
pub(crate) fn amount(quick: usize, full_amount: usize) -> usize {
    if full() { full_amount } else { quick }
}
