//! [`current`]: the id and name of the calling goroutine.

use std::sync::Arc;

use crate::sched::types;

/// A goroutine's id and name.
#[derive(Clone, PartialEq, Eq)]
pub struct Goroutine {
    id: u64,
    name: Option<Arc<str>>,
}

impl Goroutine {
    pub(super) fn new(id: u64, name: Option<Arc<str>>) -> Goroutine {
        Goroutine { id, name }
    }

    /// The id: unique in this process and never reused. 0 for an OS thread outside of gort.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name given to [`Builder::name`](crate::Builder::name). For an OS thread, the thread's name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl std::fmt::Debug for Goroutine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Goroutine").field("id", &self.id).field("name", &self.name()).finish()
    }
}

/// The calling goroutine. On an OS thread outside of gort, the id is 0 and the name is the thread's.
///
/// ```
/// let handle = gort::Builder::new().name("reader".into()).spawn(|| gort::current()).unwrap();
/// let id = handle.id();
/// let seen = handle.join().unwrap();
/// assert_eq!((seen.id(), seen.name()), (id, Some("reader")));
/// ```
pub fn current() -> Goroutine {
    match types::current::current() {
        Some(g) => {
            // SAFETY: the info of a running goroutine is valid until it ends, and this is that goroutine.
            let info = unsafe { g.info() };
            Goroutine::new(g.id(), info.and_then(|info| info.name.clone()))
        }
        None => Goroutine::new(0, std::thread::current().name().map(Arc::from)),
    }
}
