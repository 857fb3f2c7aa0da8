//! [`Labels`]: what a goroutine works for, as reports and profiles show it.

use std::fmt;

use crate::sched::account::labels as set;
use crate::sched::run::runtime_section;
use crate::sched::types::current::current;

/// Labels of a goroutine: keys with values, sorted by key, each key once.
///
/// A goroutine gets labels from [`Builder::label`](crate::Builder::label), for its life, or from
/// [`with_labels`], for the time of a call. It inherits those that its parent has at the spawn. Dumps and
/// profiles show them. Labels are like those of Go's `pprof.Do`.
///
/// A clone costs one atomic addition; goroutines with the same labels share them.
#[derive(Clone, Default)]
pub struct Labels(pub(crate) set::Labels);

impl Labels {
    /// The labels of the calling goroutine. An OS thread outside of gort has none.
    ///
    /// ```
    /// let handle = gort::Builder::new().label("shard", "7").spawn(gort::Labels::current).unwrap();
    /// assert_eq!(handle.join().unwrap().get("shard"), Some("7"));
    /// ```
    #[inline]
    pub fn current() -> Labels {
        // SAFETY: the info of a running goroutine is valid until it ends, and this is that goroutine.
        Labels(current().map_or(set::Labels::NONE, |g| unsafe { g.labels() }))
    }

    /// The value of the label with that key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|&(other, _)| other == key).map(|(_, value)| value)
    }

    /// Key and value of each label, sorted by key.
    ///
    /// ```
    /// gort::run(|| {
    ///     gort::with_labels([("tenant", "acme"), ("route", "/")], || {
    ///         let labels = gort::Labels::current();
    ///         let pairs: Vec<_> = labels.iter().collect();
    ///         assert_eq!(pairs, [("route", "/"), ("tenant", "acme")]);
    ///     });
    ///     assert!(gort::Labels::current().is_empty());
    /// });
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.pairs().iter().map(|pair| (&*pair.key, &*pair.value))
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn with<K: Into<String>, V: Into<String>>(
        &self,
        added: impl IntoIterator<Item = (K, V)>,
    ) -> Labels {
        let boxed = |(key, value): (K, V)| (key.into().into(), value.into().into());
        Labels(self.0.with(added.into_iter().map(boxed)))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Labels) -> bool {
        self.0.pairs() == other.0.pairs()
    }
}

impl Eq for Labels {}

/// As a map of texts: `{"route": "/", "tenant": "acme"}`.
impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// As dumps print it, in quotes only where needed: `{route: /, tenant: "acme corp"}`.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (key, value)) in self.iter().enumerate() {
            let before = if index == 0 { "" } else { ", " };
            write!(f, "{before}{}: {}", Text(key), Text(value))?;
        }
        f.write_str("}")
    }
}

/// A key or value, quoted if it could be mistaken for something else.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| !c.is_control() && !c.is_whitespace() && !"\"\\{}[],:=".contains(c);
        match !self.0.is_empty() && self.0.chars().all(plain) {
            true => f.write_str(self.0),
            false => write!(f, "{:?}", self.0),
        }
    }
}

/// Calls `f`. Until it returns or panics, the calling goroutine has these labels besides those that it has;
/// of two with the same key, the new one counts. Goroutines that it spawns meanwhile inherit them, and keep
/// them when `f` has returned.
///
/// A call costs about as much as an allocation for each label, so it is for requests, and not for loops.
///
/// On an OS thread outside of gort this only calls `f`: such a thread has no labels.
///
/// ```
/// gort::run(|| {
///     let child = gort::with_labels([("request", "17")], || gort::spawn(gort::Labels::current));
///     assert_eq!(child.join().unwrap().get("request"), Some("17"));
/// });
/// ```
pub fn with_labels<K, V, R>(labels: impl IntoIterator<Item = (K, V)>, f: impl FnOnce() -> R) -> R
where
    K: Into<String>,
    V: Into<String>,
{
    with_exactly(&Labels::current().with(labels), f)
}

/// Calls `f`. Until it returns or panics, the calling goroutine has these labels and no others.
pub(crate) fn with_exactly<R>(labels: &Labels, f: impl FnOnce() -> R) -> R {
    let _former = Restore(set_labels(labels.clone()));
    f()
}

/// Sets the labels of the calling goroutine, and returns those that it had.
fn set_labels(labels: Labels) -> Labels {
    let Some(g) = current() else { return Labels::default() };
    // What has been used until now is for the former labels.
    runtime_section::settle(g);
    // SAFETY: as in `Labels::current`.
    match unsafe { g.info() } {
        Some(info) => Labels(info.account.labels.replace(labels.0)),
        None => Labels::default(),
    }
}

/// Puts the former labels back when it is dropped.
struct Restore(Labels);

impl Drop for Restore {
    fn drop(&mut self) {
        set_labels(std::mem::take(&mut self.0));
    }
}
