//! The methods of this module that start goroutines: `WaitGroup::go`, `Group::go` and `Group::try_go`.

use super::group::Group;
use super::wait_group::WaitGroup;

impl WaitGroup {
    /// Runs `f` as a goroutine that the group waits for. It counts as done when `f` returns or panics.
    ///
    /// ```
    /// use gort::sync::{Mutex, WaitGroup};
    /// use std::sync::Arc;
    /// let (group, sum) = (WaitGroup::new(), Arc::new(Mutex::new(0)));
    /// for n in 1..=4 {
    ///     let sum = sum.clone();
    ///     group.go(move || *sum.lock() += n);
    /// }
    /// group.wait();
    /// assert_eq!(*sum.lock(), 10);
    /// ```
    #[track_caller]
    pub fn go<F, T>(&self, f: F)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let entered = self.enter();
        drop(crate::spawn(move || {
            let _entered = entered;
            f();
        }));
    }
}

impl<E: Send + 'static> Group<E> {
    /// Runs `f` as a goroutine of the group. If the group is at its limit, waits first until a member is
    /// done.
    ///
    /// ```
    /// use gort::sync::Group;
    /// let group = Group::with_limit(2);
    /// for n in 1..=4 {
    ///     group.go(move || if n == 3 { Err("three") } else { Ok(()) });
    /// }
    /// assert_eq!(group.wait(), Err("three"));
    /// ```
    #[track_caller]
    pub fn go<F>(&self, f: F)
    where
        F: FnOnce() -> Result<(), E> + Send + 'static,
    {
        drop(crate::spawn(self.member(f)));
    }

    /// Like [`go`](Group::go), but returns `f` instead of waiting if the group is at its limit.
    #[track_caller]
    pub fn try_go<F>(&self, f: F) -> Result<(), F>
    where
        F: FnOnce() -> Result<(), E> + Send + 'static,
    {
        drop(crate::spawn(self.try_member(f)?));
        Ok(())
    }
}
