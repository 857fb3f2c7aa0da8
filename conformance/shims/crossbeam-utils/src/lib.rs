//! `crossbeam_utils::thread::scope` with goroutines instead of threads.

/// Scoped goroutines.
pub mod thread {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    #[cfg(feature = "gort")]
    use gort::{scope as inner_scope, Scope as InnerScope, ScopedJoinHandle};
    #[cfg(not(feature = "gort"))]
    use std::thread::{scope as inner_scope, Scope as InnerScope, ScopedJoinHandle};

    /// A scope to spawn in.
    #[derive(Clone, Copy)]
    pub struct Scope<'scope, 'env: 'scope>(&'scope InnerScope<'scope, 'env>);

    /// Runs `f` and waits for everything that it spawned. Returns an error if any of them panicked.
    pub fn scope<'env, F, R>(f: F) -> std::thread::Result<R>
    where
        F: for<'scope> FnOnce(&Scope<'scope, 'env>) -> R,
    {
        catch_unwind(AssertUnwindSafe(|| inner_scope(|scope| f(&Scope(scope)))))
    }

    impl<'scope> Scope<'scope, '_> {
        /// Spawns a goroutine, which can spawn others.
        pub fn spawn<F, T>(&self, f: F) -> ScopedJoinHandle<'scope, T>
        where
            F: FnOnce(&Self) -> T + Send + 'scope,
            T: Send + 'scope,
        {
            let scope = *self;
            scope.0.spawn(move || f(&scope))
        }
    }
}
