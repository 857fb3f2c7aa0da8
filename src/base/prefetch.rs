//! Fetching memory into the cache before it is needed. Thousands of goroutines do not fit there: each switch
//! to a cold one costs a dozen misses in a row, unless they have begun before.

use crate::arch;

/// The cache line at `address` will be touched soon.
#[inline(always)]
pub(crate) fn line(address: usize) {
    arch::prefetch(address);
}
