//! Fetching memory into the CPU's cache before it is needed. Thousands of goroutines do not fit into the
//! cache: a switch to a cold one costs a dozen misses in a row, unless the lines were prefetched.

use crate::arch;

/// Prefetches the cache line at `address`.
#[inline(always)]
pub(crate) fn line(address: usize) {
    arch::prefetch(address);
}
