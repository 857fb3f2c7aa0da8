//! The macros `select!` and `select_biased!`. They only tell `gort-macros` the path of this crate; it does
//! the rest.

/// Waits for one of several channel operations and performs it.
///
/// ```text
/// select! {
///     recv(receiver) -> result => body,        result: Result<T, RecvError>
///     send(sender, message) -> result => body, result: Result<(), SendError<T>>
///     default => body,                         if nothing is ready now
///     default(duration) => body,               if nothing becomes ready in time
/// }
/// ```
/// If several operations are ready, one of them is chosen at random. An operation is ready if it does not
/// have to wait, even if it will only return an error. There is at most one `default`; without it, the select
/// waits as long as it takes.
///
/// Handles may be references, boxes, or anything else that dereferences to a [`Receiver`](super::Receiver) or
/// a [`Sender`](super::Sender), and `result` may be any irrefutable pattern. A message is evaluated only
/// after its send was selected. The comma after a body in braces may be left out. The value of the select is
/// that of the body, and `break`, `continue`, `return` and `?` in a body mean what they mean outside.
///
/// To select from a list that is known only at run time, use [`Select`](super::Select).
///
/// ```
/// use gort::chan::{bounded, select, unbounded};
/// use std::time::Duration;
///
/// let (s1, r1) = unbounded();
/// let (s2, r2) = bounded(1);
/// s1.send(10).unwrap();
///
/// // Both are ready: one of them is performed.
/// select! {
///     recv(r1) -> msg => assert_eq!(msg, Ok(10)),
///     send(s2, "text") -> res => {
///         res.unwrap();
///         assert_eq!(r2.recv(), Ok("text"));
///     }
/// }
///
/// // Nothing is ready.
/// let (_s, r) = bounded::<i32>(0);
/// let what = select! {
///     recv(r) -> msg => format!("got {msg:?}"),
///     default(Duration::from_millis(1)) => "timed out".to_string(),
/// };
/// assert_eq!(what, "timed out");
/// ```
///
/// Syntax errors are reported at the place of the mistake:
///
/// ```compile_fail
/// # let (_s, r) = gort::chan::unbounded::<i32>();
/// gort::chan::select! {
///     recv(r) => {} // expected `->` and a pattern for the result, as in `recv(..) -> result => ..`
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __chan_select {
    ($($tokens:tt)*) => { $crate::chan::internal::expand! { $crate false $($tokens)* } };
}

/// Like [`select!`](super::select), but if several operations are ready, the first in the list is chosen.
///
/// ```
/// use gort::chan::{select_biased, unbounded};
///
/// let (s, r) = unbounded();
/// s.send(1).unwrap();
/// s.send(2).unwrap();
/// select_biased! {
///     recv(r) -> msg => assert_eq!(msg, Ok(1)),
///     recv(r) -> _ => unreachable!(),
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __chan_select_biased {
    ($($tokens:tt)*) => { $crate::chan::internal::expand! { $crate true $($tokens)* } };
}
