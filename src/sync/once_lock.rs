//! [`OnceLock`]: a cell whose value is set once.

use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::once::Once;

/// A cell that is written once and can then be read from anywhere, with std's API.
///
/// If an initialiser panics, the cell stays empty: one of the waiting callers, or the next new one, runs its
/// own initialiser.
///
/// ```
/// use gort::sync::OnceLock;
/// static CONFIG: OnceLock<String> = OnceLock::new();
/// assert_eq!(CONFIG.get(), None);
/// assert_eq!(CONFIG.get_or_init(|| "fast".to_owned()), "fast");
/// assert_eq!(CONFIG.set("slow".to_owned()), Err("slow".to_owned()));
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// Initialised if `once` is completed. Only the function that `once` runs writes it.
    value: UnsafeCell<MaybeUninit<T>>,
    owns: PhantomData<T>,
}

// SAFETY: shared access gives `&T`, and one thread may drop a `T` that another has made.
unsafe impl<T: Sync + Send> Sync for OnceLock<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for OnceLock<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty cell.
    #[must_use]
    pub const fn new() -> OnceLock<T> {
        OnceLock { once: Once::new(), value: UnsafeCell::new(MaybeUninit::uninit()), owns: PhantomData }
    }

    /// The value, if there is one. Never waits.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: completed means that the value is initialised and no longer written.
        self.once.is_completed().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, if there is one.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: completed means that the value is initialised.
        self.once.is_completed().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Waits until the cell has a value.
    pub fn wait(&self) -> &T {
        self.once.wait();
        self.get().expect("a completed cell has a value")
    }

    /// Sets the value of an empty cell. If the cell has a value, returns `value` as an error. Waits for an
    /// initialiser that is running.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("run once"));
        match value {
            None => Ok(()),
            Some(value) => Err(value),
        }
    }

    /// The value. If there is none, `f` makes it. Waits for an initialiser that is running.
    #[inline]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        match self.get_or_try_init(|| Ok::<T, Infallible>(f())) {
            Ok(value) => value,
        }
    }

    /// Like [`get_or_init`](OnceLock::get_or_init), for an initialiser that may fail. If it fails the cell
    /// stays empty, and one of the waiting callers runs its own initialiser.
    #[inline]
    pub fn get_or_try_init<E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        self.init(f)
    }

    #[cold]
    fn init<E>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let mut f = Some(f);
        let mut error = None;
        self.once.run(&mut || {
            let f = f.take().expect("run once");
            match f() {
                Ok(value) => {
                    // SAFETY: `once` runs one function at a time, and nobody reads the value before it is
                    // completed.
                    unsafe { (*self.value.get()).write(value) };
                    true
                }
                Err(e) => {
                    error = Some(e);
                    false
                }
            }
        });
        match error {
            Some(error) => Err(error),
            None => Ok(self.get().expect("a completed cell has a value")),
        }
    }

    /// Consumes the cell and returns its value, if it has one.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out, if there is one, and leaves the cell empty.
    pub fn take(&mut self) -> Option<T> {
        self.once.is_completed().then(|| {
            self.once.reset();
            // SAFETY: the value was initialised, and after the reset the cell counts as empty, so it is read
            // once.
            unsafe { self.value.get_mut().assume_init_read() }
        })
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        let cell = OnceLock::new();
        let set = cell.set(value);
        debug_assert!(set.is_ok());
        cell
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}
