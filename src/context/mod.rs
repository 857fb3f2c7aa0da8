//! Contexts, as in Go: deadlines, cancellation and values that accompany a request.
//!
//! A [`Context`] is derived from another one and ends when that one ends, at the latest. Its creator can end
//! it earlier; then all contexts derived from it end too. A goroutine checks its context where it waits:
//!
//! ```
//! use gort::chan::{bounded, select};
//! use gort::context::Context;
//!
//! gort::run(|| {
//!     let (ctx, cancel) = Context::background().with_cancel();
//!     let (_s, r) = bounded::<i32>(0);
//!     let waiting = gort::spawn(move || {
//!         select! {
//!             recv(r) -> message => message.ok(),
//!             recv(ctx.done()) -> _ => None,
//!         }
//!     });
//!     cancel.cancel();
//!     assert_eq!(waiting.join().unwrap(), None);
//! });
//! ```
//!
//! To wait for a single thing, there are forms that take a context:
//! [`recv_ctx`](crate::chan::Receiver::recv_ctx), [`send_ctx`](crate::chan::Sender::send_ctx),
//! [`lock_ctx`](LockCtx::lock_ctx), [`sleep_ctx`](crate::time::sleep_ctx) and others. [`Context::limit`] is
//! the general way: it makes every wait with a timeout end with the context.

mod errors;
mod inner;
mod limit;
mod wait;

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::inner::Canceler;
use crate::chan::{Receiver, never};
use crate::goroutine::deferred::Deferred;
use crate::sched::park::{self, clock};

pub use self::errors::{AcquireCtxError, Cause, Error, RecvCtxError, SendCtxError};
pub use self::wait::{LockCtx, RwLockCtx};

/// A type that serves as the name of a value in contexts.
///
/// ```
/// use gort::context::{Context, Key};
/// struct User;
/// impl Key for User {
///     type Value = String;
/// }
/// let ctx = Context::background().with_value::<User>("gopher".into());
/// assert_eq!(ctx.value::<User>().unwrap(), "gopher");
/// ```
pub trait Key: 'static {
    /// The type of the value under this name.
    type Value: Send + Sync + 'static;
}

/// Carries a deadline, a cancellation signal and values. A clone is the same context. See the [module](self).
#[derive(Clone, Default)]
pub struct Context {
    /// `None` in a context that never ends.
    canceler: Option<Arc<Canceler>>,
    deadline: Option<Instant>,
    values: Option<Arc<Value>>,
}

/// A value of a context: a node of a linked list, the latest value first.
struct Value {
    key: TypeId,
    value: Box<dyn Any + Send + Sync>,
    next: Option<Arc<Value>>,
}

impl Drop for Value {
    fn drop(&mut self) {
        // The list may be long, so this is a loop, not a recursion.
        let mut next = self.next.take();
        while let Some(mut value) = next.and_then(Arc::into_inner) {
            next = value.next.take();
        }
    }
}

impl Context {
    /// The root of all contexts. It never ends and has neither a deadline nor values.
    ///
    /// ```
    /// use gort::context::Context;
    /// assert!(Context::background().err().is_none());
    /// ```
    #[must_use]
    pub const fn background() -> Context {
        Context { canceler: None, deadline: None, values: None }
    }

    /// A context that [`Cancel::cancel`] can end.
    ///
    /// ```
    /// use gort::context::{Context, Error};
    /// let (parent, cancel) = Context::background().with_cancel();
    /// let (child, _) = parent.with_cancel();
    /// cancel.cancel();
    /// assert_eq!(child.err(), Some(Error::Canceled));
    /// ```
    #[must_use]
    pub fn with_cancel(&self) -> (Context, Cancel) {
        let canceler = Canceler::derive(self.canceler.as_ref());
        let cancel = Cancel { canceler: canceler.clone() };
        (Context { canceler: Some(canceler), deadline: self.deadline, values: self.values.clone() }, cancel)
    }

    /// A context that ends after `timeout` at the latest. `Duration::MAX` means that it has no deadline of
    /// its own.
    ///
    /// ```
    /// use gort::context::{Context, Error};
    /// use std::time::Duration;
    /// let (ctx, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    /// assert!(ctx.done().recv().is_err());
    /// assert_eq!(ctx.err(), Some(Error::DeadlineExceeded));
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> (Context, Cancel) {
        match clock::now().checked_add(timeout) {
            Some(deadline) => self.with_deadline(deadline),
            None => self.with_cancel(),
        }
    }

    /// A context that ends at `deadline` at the latest.
    ///
    /// ```
    /// use gort::context::{Context, Error};
    /// use std::time::Instant;
    /// let (ctx, _cancel) = Context::background().with_deadline(Instant::now());
    /// assert_eq!(ctx.err(), Some(Error::DeadlineExceeded));
    /// ```
    #[must_use]
    pub fn with_deadline(&self, deadline: Instant) -> (Context, Cancel) {
        self.until(deadline, None)
    }

    /// Like [`with_deadline`](Context::with_deadline). If the deadline ends the context,
    /// [`cause`](Context::cause) returns this cause.
    ///
    /// ```
    /// use gort::context::Context;
    /// use std::time::Instant;
    /// let slow = std::io::Error::other("the database is slow");
    /// let (ctx, _cancel) = Context::background().with_deadline_cause(Instant::now(), slow);
    /// assert_eq!(ctx.cause().unwrap().to_string(), "the database is slow");
    /// ```
    #[must_use]
    pub fn with_deadline_cause(
        &self,
        deadline: Instant,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> (Context, Cancel) {
        self.until(deadline, Some(Arc::new(cause)))
    }

    fn until(&self, deadline: Instant, cause: Option<Cause>) -> (Context, Cancel) {
        let (mut ctx, cancel) = self.with_cancel();
        if self.deadline.is_some_and(|earlier| earlier <= deadline) {
            return (ctx, cancel); // the parent's deadline comes first
        }
        ctx.deadline = Some(deadline);
        if deadline <= clock::now() {
            cancel.canceler.cancel(Error::DeadlineExceeded, cause);
        } else if cancel.canceler.error().is_none() {
            let canceler = Arc::downgrade(&cancel.canceler);
            let timer = Deferred::new(Box::new(move || {
                if let Some(canceler) = canceler.upgrade() {
                    canceler.cancel(Error::DeadlineExceeded, cause.clone());
                }
            }));
            cancel.canceler.set_timer(timer, clock::nanos_at(deadline));
        }
        (ctx, cancel)
    }

    /// A context that carries one more value.
    ///
    /// ```
    /// use gort::context::{Context, Key};
    /// struct RequestId;
    /// impl Key for RequestId {
    ///     type Value = u64;
    /// }
    /// let ctx = Context::background().with_value::<RequestId>(7);
    /// assert_eq!(ctx.value::<RequestId>(), Some(&7));
    /// ```
    #[must_use]
    pub fn with_value<K: Key>(&self, value: K::Value) -> Context {
        let next = self.values.clone();
        let value = Value { key: TypeId::of::<K>(), value: Box::new(value), next };
        Context { values: Some(Arc::new(value)), ..self.clone() }
    }

    /// The value that was last set under this name.
    #[must_use]
    pub fn value<K: Key>(&self) -> Option<&K::Value> {
        let mut value = self.values.as_deref();
        while let Some(found) = value {
            if found.key == TypeId::of::<K>() {
                return found.value.downcast_ref();
            }
            value = found.next.as_deref();
        }
        None
    }

    /// A context with the same values that never ends, for work that must be done even after a cancellation.
    ///
    /// ```
    /// use gort::context::Context;
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// cancel.cancel();
    /// assert!(ctx.without_cancel().err().is_none());
    /// ```
    #[must_use]
    pub fn without_cancel(&self) -> Context {
        Context { canceler: None, deadline: None, values: self.values.clone() }
    }

    /// The deadline of the context, if it has one.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A channel for `select!`: it never delivers a message and is disconnected when the context ends. A
    /// clone of the receiver does not keep the context alive: when the last reference to the context and to
    /// its [`Cancel`] is gone, the channel is disconnected, too.
    ///
    /// ```
    /// use gort::chan::select;
    /// use gort::context::Context;
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// select! { recv(ctx.done()) -> _ => unreachable!(), default => {} }
    /// cancel.cancel();
    /// select! { recv(ctx.done()) -> _ => {}, default => unreachable!() }
    /// ```
    #[must_use]
    pub fn done(&self) -> &Receiver<()> {
        static NEVER: Receiver<()> = never();
        self.canceler.as_ref().map_or(&NEVER, |canceler| canceler.done())
    }

    /// Why the context ended, or `None` if it has not ended.
    #[must_use]
    pub fn err(&self) -> Option<Error> {
        self.canceler.as_ref()?.error()
    }

    /// The reason given for the end of the context, or its [`err`](Context::err) if none was given. `None` if
    /// it has not ended.
    ///
    /// ```
    /// use gort::context::Context;
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// cancel.cancel_with(std::io::Error::other("the client left"));
    /// assert_eq!(ctx.cause().unwrap().to_string(), "the client left");
    /// assert_eq!(ctx.err().unwrap().to_string(), "context canceled");
    /// ```
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.canceler.as_ref()?.cause()
    }

    /// Runs `f` as a goroutine when the context ends, or at once if it has ended. [`StopFunc::stop`] on the
    /// result prevents that. If the last reference to the context, to its [`Cancel`] and to the result is
    /// dropped before the context ends, `f` is dropped without being called.
    ///
    /// ```
    /// use gort::context::Context;
    /// let (ctx, cancel) = Context::background().with_cancel();
    /// let (s, r) = gort::chan::bounded(1);
    /// ctx.after_func(move || s.send("ended").unwrap());
    /// let stopped = ctx.after_func(|| unreachable!()).stop();
    /// assert!(stopped);
    /// cancel.cancel();
    /// assert_eq!(r.recv(), Ok("ended"));
    /// ```
    pub fn after_func(&self, f: impl FnOnce() + Send + 'static) -> StopFunc {
        StopFunc(match &self.canceler {
            Some(canceler) => match canceler.at_end(Box::new(f)) {
                Some(number) => AfterFunc::Waiting(canceler.clone(), number),
                None => AfterFunc::Started,
            },
            None => AfterFunc::Never(AtomicBool::new(false)),
        })
    }

    /// Runs `f`. Every wait in `f` that has a timeout or a deadline also gives up when this context ends, as
    /// if it had timed out. This is the general way to wait with a context in gort:
    /// `try_lock_for(Duration::MAX)` in `f` waits until it has the lock or the context ends.
    ///
    /// Waits without a timeout are not affected, nor are goroutines that `f` starts. In nested calls only the
    /// innermost context applies. Waits for sockets and other descriptors are not affected either. Their
    /// deadlines can be set during a wait, so this ends them:
    /// `ctx.after_func(move || stream.set_deadline(Some(Instant::now())))`.
    ///
    /// ```
    /// use gort::context::Context;
    /// use gort::sync::{Condvar, Mutex};
    /// use std::time::Duration;
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let (ctx, _cancel) = Context::background().with_timeout(Duration::from_millis(1));
    /// let gave_up = ctx.limit(|| {
    ///     changed.wait_while_for(&mut ready.lock(), |ready| !*ready, Duration::MAX).timed_out()
    /// });
    /// assert!(gave_up);
    /// ```
    pub fn limit<T>(&self, f: impl FnOnce() -> T) -> T {
        match self.canceler.as_deref() {
            Some(canceler) => park::limit::enforce(canceler, f),
            None => {
                let _restore = park::limit::suspend();
                f()
            }
        }
    }

    /// The number of contexts and functions that the end of this context would end or start.
    #[cfg(test)]
    fn derived_count(&self) -> usize {
        self.canceler.as_ref().map_or(0, |canceler| canceler.derived_count())
    }
}

// A panic never leaves these half-changed.
impl UnwindSafe for Context {}
impl RefUnwindSafe for Context {}
impl UnwindSafe for Cancel {}
impl RefUnwindSafe for Cancel {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("err", &self.err())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Ends a context. Dropping a `Cancel` does not end the context: it then ends with its parent or at its
/// deadline.
///
/// ```
/// let (ctx, cancel) = gort::context::Context::background().with_cancel();
/// cancel.cancel();
/// cancel.cancel(); // nothing happens
/// assert!(ctx.err().is_some());
/// ```
#[derive(Clone)]
pub struct Cancel {
    canceler: Arc<Canceler>,
}

impl Cancel {
    /// Ends the context and all that are derived from it. When this returns all of them have ended, even if
    /// another caller was first. Goroutines that wait for the end may not have run yet.
    pub fn cancel(&self) {
        self.canceler.cancel(Error::Canceled, None);
    }

    /// Like [`cancel`](Cancel::cancel), with a reason for [`Context::cause`]. If the context has already
    /// ended, it keeps its earlier cause.
    pub fn cancel_with(&self, cause: impl std::error::Error + Send + Sync + 'static) {
        self.canceler.cancel(Error::Canceled, Some(Arc::new(cause)));
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("err", &self.canceler.error()).finish()
    }
}

/// Cancels a [`Context::after_func`] before its function is started.
pub struct StopFunc(AfterFunc);

enum AfterFunc {
    Waiting(Arc<Canceler>, u64),
    Started,
    /// The context never ends. The flag says whether `stop` was called.
    Never(AtomicBool),
}

impl StopFunc {
    /// Returns true if the function has not been started and never will be. Does not wait for a function that
    /// runs.
    pub fn stop(&self) -> bool {
        match &self.0 {
            AfterFunc::Waiting(canceler, number) => canceler.forget(*number),
            AfterFunc::Started => false,
            AfterFunc::Never(stopped) => !stopped.swap(true, Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for StopFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopFunc").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
