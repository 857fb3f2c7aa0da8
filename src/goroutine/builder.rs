//! [`Builder`]: starts a goroutine with a name, another stack size, or in a scope.

use std::io;
use std::panic::Location;
use std::sync::Arc;

use super::join::{self, JoinHandle};
use super::labels::Labels;
use super::scope::{Scope, ScopedJoinHandle};
use super::stack;
use crate::sched::run::spawn::Spec;
use crate::sched::types::g::Info;
use crate::stack::size::Need;

/// Configures a goroutine before it starts, as `std::thread::Builder` does for threads.
///
/// ```
/// let handle = gort::Builder::new()
///     .name("parser".into())
///     .stack_size(1 << 20)
///     .spawn(|| "done")
///     .unwrap();
/// assert_eq!(handle.join().unwrap(), "done");
/// ```
#[derive(Debug, Default)]
#[must_use = "a goroutine starts with `spawn`"]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
    /// Boxed, so that a builder without labels is small and quick to drop.
    labels: Option<Box<Added>>,
}

/// Labels to be added to those of the parent.
#[derive(Debug, Default)]
struct Added(Vec<(String, String)>);

impl Added {
    #[cold]
    fn into_labels(self) -> Labels {
        Labels::current().with(self.0)
    }
}

impl Builder {
    /// The defaults: no name, and a stack that grows as needed (see [`guide::stacks`](crate::guide::stacks)).
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Sets the name, which appears in panic messages, dumps and traces. `std::thread::current().name()` is
    /// this name, too, unless it contains a NUL, or std keeps the names of threads in a way that gort does
    /// not know.
    pub fn name(mut self, name: String) -> Builder {
        self.name = Some(name);
        self
    }

    /// Adds a label to those that the goroutine inherits from its parent. Of two labels with the same key the
    /// later one counts. See [`Labels`].
    ///
    /// ```
    /// let job = gort::Builder::new().label("job", "index").spawn(gort::Labels::current).unwrap();
    /// assert_eq!(job.join().unwrap().get("job"), Some("index"));
    /// ```
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Builder {
        self.labels.get_or_insert_default().0.push((key.into(), value.into()));
        self
    }

    /// Sets how much stack, in bytes, the goroutine can use at least, however many others there are. Only
    /// pages that it touches cost memory.
    ///
    /// The size may be up to 1 GiB. Anything below 16 KiB counts as 16 KiB. A stack of less than the usual
    /// 256 KiB does not grow: it is for programs with very many small goroutines.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    fn parts(self, private_tls: bool, site: &'static Location<'static>) -> io::Result<(Spec, Info)> {
        let stack = stack(|| self.stack_size.map_or(Ok(Need::usual(private_tls)), Need::for_stack))?;
        let labels = match self.labels {
            None => Labels::current(),
            Some(added) => added.into_labels(),
        };
        let info = Info::new(self.name.map(Arc::from), labels.0);
        Ok((Spec { stack, private_tls, site, bubble: None }, info))
    }

    /// Starts a goroutine.
    ///
    /// # Errors
    /// If the stack size is more than 1 GiB, or if memory, address space or mappings are exhausted; the
    /// error says which limit was reached. The error's kind is `Unsupported` if the system lacks something
    /// that gort needs.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_at(Location::caller(), f)
    }

    /// Like [`spawn`](Builder::spawn); reports say that it was started at `site`.
    pub(crate) fn spawn_at<F, T>(self, site: &'static Location<'static>, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (spec, info) = self.parts(true, site)?;
        // SAFETY: everything is 'static.
        unsafe { join::start(&spec, info, None, f) }.map(JoinHandle)
    }

    /// Starts a goroutine inside a [`scope`](crate::scope), with this configuration.
    ///
    /// # Errors
    /// As [`spawn`](Builder::spawn).
    #[track_caller]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (spec, info) = self.parts(true, Location::caller())?;
        // SAFETY: the scope ends only after the goroutine has ended and its packet is dropped.
        unsafe { join::start(&spec, info, Some(scope.data()), f) }.map(ScopedJoinHandle::new)
    }

    /// Starts a goroutine that uses the thread-local storage of the OS thread it runs on. It is smaller and
    /// faster to switch to, but its code can no longer treat it as a thread. Its default stack is 64 KiB of
    /// address space.
    ///
    /// # Errors
    /// As [`spawn`](Builder::spawn).
    ///
    /// # Safety
    /// Any call into gort may park the goroutine and resume it on another OS thread. Across such a call, the
    /// code must not use a reference to a thread-local, nor state that is kept in one (a panic that is
    /// unwinding, a lock that remembers its thread, errno). The code must not block inside a `Drop` while it
    /// unwinds.
    ///
    /// ```
    /// // SAFETY: the closure uses no thread-local.
    /// let handle = unsafe { gort::Builder::new().spawn_shared_tls(|| 1 + 1) }.unwrap();
    /// assert_eq!(handle.join().unwrap(), 2);
    /// ```
    #[track_caller]
    pub unsafe fn spawn_shared_tls<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (spec, info) = self.parts(false, Location::caller())?;
        // SAFETY: everything is 'static, and the caller promises the rules for thread-locals.
        unsafe { join::start(&spec, info, None, f) }.map(JoinHandle)
    }
}
