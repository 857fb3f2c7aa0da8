//! Taking a runtime lock (`base/lock.rs`) outside of the runtime: a goroutine enters a runtime section first
//! and leaves it when the guard is dropped.

use crate::base::lock::{Guard, Lock, Ranked};
use crate::sched::run::runtime_section::{self, Outermost, Section};

/// Kept with a [`Guard`]: the section that was entered for it; `None` on a foreign thread.
pub(crate) type Entered = Option<Section>;

impl<T: Ranked> Lock<T> {
    /// Takes the lock, for code that may run anywhere.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T, Entered> {
        self.lock_with(runtime_section::enter())
    }

    /// As [`lock`](Lock::lock), for user code: no section is open.
    #[inline(always)]
    pub(crate) fn lock_from_user_code(&self) -> Guard<'_, T, Option<Outermost>> {
        self.lock_with(runtime_section::enter_from_user_code())
    }
}
