//! Receivers as iterators.

use std::fmt;
use std::iter::FusedIterator;

use crate::chan::receiver::Receiver;

/// An iterator over the messages of a channel, which waits for each. See [`Receiver::iter`].
///
/// ```
/// let (s, r) = gort::chan::bounded(2);
/// s.send(1).unwrap();
/// drop(s);
/// assert_eq!(r.iter().next(), Some(1));
/// assert_eq!(r.iter().next(), None);
/// ```
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// An iterator over the messages that are in a channel now. See [`Receiver::try_iter`].
///
/// ```
/// let (s, r) = gort::chan::bounded(2);
/// s.send(1).unwrap();
/// assert_eq!(r.try_iter().count(), 1);
/// ```
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// An iterator over the messages of a channel, which waits for each and owns the receiver.
///
/// ```
/// let (s, r) = gort::chan::bounded(2);
/// s.send(1).unwrap();
/// drop(s);
/// assert_eq!(r.into_iter().collect::<Vec<_>>(), [1]);
/// ```
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Iter<'a, T> {
        Iter { receiver }
    }
}

impl<'a, T> TryIter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> TryIter<'a, T> {
        TryIter { receiver }
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("TryIter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}
