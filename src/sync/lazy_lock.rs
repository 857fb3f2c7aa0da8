//! [`LazyLock`]: a value that is made at its first use.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Once;

/// A value that is made at its first use, with std's API.
///
/// The initialiser can run only once. If it panics, there will never be a value: all waiting callers and all
/// later ones panic, too.
///
/// ```
/// use gort::sync::LazyLock;
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "one way to wait".split(' ').collect());
/// assert_eq!(WORDS.len(), 4);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    /// Only the function that `once` runs changes it. Others read it when `once` is completed.
    state: UnsafeCell<State<T, F>>,
}

enum State<T, F> {
    Waiting(F),
    Made(T),
    /// The initialiser is running, or has panicked.
    Taken,
}

// SAFETY: shared access gives `&T`. One thread calls `F`, and another may drop the `T` that it made.
unsafe impl<T: Sync + Send, F: Send> Sync for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock { once: Once::new(), state: UnsafeCell::new(State::Waiting(f)) }
    }

    /// The value. Makes it first if that has not happened yet. Equivalent to `&*lazy`.
    ///
    /// # Panics
    /// If the initialiser panics, or has panicked before.
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.once.call_once(|| this.make());
        // SAFETY: `once` is completed, so nobody changes the state.
        match unsafe { &*this.state.get() } {
            State::Made(value) => value,
            _ => unreachable!("a completed LazyLock has a value"),
        }
    }

    #[cold]
    fn make(&self) {
        // SAFETY: `once` runs one function at a time, and nobody reads the state before it is completed.
        let state = unsafe { &mut *self.state.get() };
        let State::Waiting(f) = std::mem::replace(state, State::Taken) else {
            panic!("the initialiser of this LazyLock has panicked");
        };
        let value = f();
        // SAFETY: the run is still the only access to the state. `f` has not touched it: a nested `force`
        // would wait.
        unsafe { *self.state.get() = State::Made(value) };
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made. Never waits.
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        if !this.once.is_completed() {
            return None;
        }
        // SAFETY: `once` is completed, so nobody changes the state.
        match unsafe { &*this.state.get() } {
            State::Made(value) => Some(value),
            _ => None,
        }
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}
