//! For reports: which goroutine holds a lock. The holder leaves a [`mark`] in the lock; read locks, which may
//! have many holders, are listed in [`reads`]; [`of_waiters`] names what a waiter waits for.

mod mark;
pub(in crate::sync) mod of_waiters;
pub(crate) mod reads;

pub(crate) use self::mark::StackPage;
pub(in crate::sync) use self::mark::{Holder, SOMEBODY, here};
