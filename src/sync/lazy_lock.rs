//! [`LazyLock`]: a value that is made when it is first used.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Once;

/// A value that is made on first use, with std's surface.
///
/// If the initialiser panics it is gone, and so is the hope for a value: everybody who waits, and everybody
/// after, panics too.
///
/// ```
/// use gort::sync::LazyLock;
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "one way to wait".split(' ').collect());
/// assert_eq!(WORDS.len(), 4);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    /// Touched only by the run of `once`, and read when that is completed.
    state: UnsafeCell<State<T, F>>,
}

enum State<T, F> {
    Waiting(F),
    Made(T),
    /// The initialiser is running, or has panicked.
    Taken,
}

// SAFETY: shared access gives `&T`; `F` is called by one thread, and a `T` may come from another.
unsafe impl<T: Sync + Send, F: Send> Sync for LazyLock<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock { once: Once::new(), state: UnsafeCell::new(State::Waiting(f)) }
    }

    /// The value, made now if it was not before. The same as `&*lazy`.
    ///
    /// # Panics
    /// If the initialiser panics, or has panicked.
    #[inline]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.once.call_once(|| this.make());
        // SAFETY: completed, so nobody changes it.
        match unsafe { &*this.state.get() } {
            State::Made(value) => value,
            _ => unreachable!("a completed LazyLock has a value"),
        }
    }

    #[cold]
    fn make(&self) {
        // SAFETY: one run at a time, and nobody reads before it is completed.
        let state = unsafe { &mut *self.state.get() };
        let State::Waiting(f) = std::mem::replace(state, State::Taken) else {
            panic!("the initialiser of this LazyLock has panicked");
        };
        let value = f();
        // SAFETY: as above; `f` has not touched it, a nested `force` waits.
        unsafe { *self.state.get() = State::Made(value) };
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it was made already. Never waits.
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        if !this.once.is_completed() {
            return None;
        }
        // SAFETY: completed, so nobody changes it.
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
