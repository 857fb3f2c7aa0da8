//! Contexts: deadlines, cancellation and values that go along with a request, as Go's.
//!
//! A [`Context`] is derived from another one and ends with it at the latest. Whoever made it can end it earlier, and
//! everything that was derived from it ends too. A goroutine looks at its context where it waits:
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
//! Waits of one thing have forms with a context: [`recv_ctx`](crate::chan::Receiver::recv_ctx),
//! [`send_ctx`](crate::chan::Sender::send_ctx), [`lock_ctx`](LockCtx::lock_ctx),
//! [`sleep_ctx`](crate::time::sleep_ctx) and others. [`Context::limit`] is the general way: it makes every wait with a
//! timeout end with the context.

pub(crate) mod ambient;
mod errors;
mod inner;
mod wait;

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::ambient::InForce;
use self::inner::Canceler;
use crate::chan::{Receiver, never};
use crate::time::clock;
use crate::timer::Deferred;

pub use self::errors::{AcquireCtxError, Cause, Error, RecvCtxError, SendCtxError};
pub use self::wait::{LockCtx, RwLockCtx};

/// Names a value that contexts carry, by its type.
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
    /// What is carried under this name.
    type Value: Send + Sync + 'static;
}

/// Carries a deadline, a cancellation signal and values. Clones are the same context. See the [module](self).
#[derive(Clone, Default)]
pub struct Context {
    /// `None` in those that never end.
    canceler: Option<Arc<Canceler>>,
    deadline: Option<Instant>,
    values: Option<Arc<Value>>,
}

/// A list, the latest first.
struct Value {
    key: TypeId,
    value: Box<dyn Any + Send + Sync>,
    next: Option<Arc<Value>>,
}

impl Drop for Value {
    fn drop(&mut self) {
        // The list may be long: a loop, not a recursion.
        let mut next = self.next.take();
        while let Some(mut value) = next.and_then(Arc::into_inner) {
            next = value.next.take();
        }
    }
}

impl Context {
    /// The context that never ends, has no deadline and no values: where all others are derived from.
    ///
    /// ```
    /// use gort::context::Context;
    /// assert!(Context::background().err().is_none());
    /// ```
    #[must_use]
    pub const fn background() -> Context {
        Context { canceler: None, deadline: None, values: None }
    }

    /// A context that can be ended by [`Cancel::cancel`].
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

    /// A context that ends `timeout` from now at the latest. `Duration::MAX` means that time will not end it.
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

    /// As [`with_deadline`](Context::with_deadline), and [`cause`](Context::cause) will be `cause` if it is the time
    /// that ends it.
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
            return (ctx, cancel); // the parent's comes first
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

    /// A context that carries a value besides those it has.
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

    /// The value that was given last under this name.
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

    /// A context with the same values that never ends: for what must be done even after a cancellation.
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

    /// When time ends it, if it does.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A channel that never delivers a message and is disconnected when the context ends: for `select!`. A clone of it keeps
    /// the context neither alive nor waiting: when nobody has the context any more, and nobody its [`Cancel`], it is
    /// disconnected, too.
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

    /// Why it ended, or `None` as long as it has not.
    #[must_use]
    pub fn err(&self) -> Option<Error> {
        self.canceler.as_ref()?.error()
    }

    /// The reason that was given for its end; its [`err`](Context::err) if none was. `None` as long as it has not ended.
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

    /// Runs `f` as a goroutine when the context ends; at once, if it has. The result can take that back. If nobody has the
    /// context any more before it ends, nor its [`Cancel`], nor the result of this, `f` is dropped.
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

    /// Runs `f`, in which every wait that has a timeout or a deadline also gives up when this context ends, just as if
    /// its time were over. This is how anything in gort is waited for with a context: `try_lock_for(Duration::MAX)` in
    /// `f` waits for ever, but for the context.
    ///
    /// Waits without a timeout are not affected, nor are other goroutines that `f` starts. In nested calls the inner
    /// context counts. Waits for sockets and other descriptors are not affected either: they have deadlines that can be
    /// set while somebody waits, so `ctx.after_func(move || stream.set_deadline(Some(Instant::now())))` ends them.
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
        // SAFETY: dropped here, after `f`, by whoever runs it; the context is borrowed so long.
        let _in_force = unsafe { InForce::new(self.canceler.as_deref()) };
        f()
    }

    /// How many contexts and functions would be told of the end of this one.
    #[cfg(test)]
    fn derived_count(&self) -> usize {
        self.canceler.as_ref().map_or(0, |canceler| canceler.derived_count())
    }
}

// Nothing in it can be seen half-changed after a panic.
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

/// Ends a context. Dropping it does not: the context then ends with its parent, or when its time is over.
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
    /// Ends the context and all that are derived from it. When this returns they have ended, whoever was first; what
    /// waits for them may not have run yet.
    pub fn cancel(&self) {
        self.canceler.cancel(Error::Canceled, None);
    }

    /// As [`cancel`](Cancel::cancel), with a reason for [`Context::cause`]. If the context has ended before, its cause
    /// stays.
    pub fn cancel_with(&self, cause: impl std::error::Error + Send + Sync + 'static) {
        self.canceler.cancel(Error::Canceled, Some(Arc::new(cause)));
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("err", &self.canceler.error()).finish()
    }
}

/// Takes a [`Context::after_func`] back.
pub struct StopFunc(AfterFunc);

enum AfterFunc {
    Waiting(Arc<Canceler>, u64),
    Started,
    /// Of a context that never ends. Whether it was stopped.
    Never(AtomicBool),
}

impl StopFunc {
    /// True: the function has not been started and will not be. Does not wait for a function that runs.
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
