//! Goroutines that tests need often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{tid, until};

/// Spawns a goroutine with a name.
#[track_caller]
pub(crate) fn named<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> gort::JoinHandle<T> {
    gort::Builder::new().name(name.into()).spawn(f).unwrap()
}

/// Joins all of them and drops their results.
#[track_caller]
pub(crate) fn join_all<T>(handles: impl IntoIterator<Item = gort::JoinHandle<T>>) {
    handles.into_iter().for_each(|handle| drop(handle.join().unwrap()));
}

/// Goroutines that compute and never call the runtime. The drop ends and joins them.
pub(crate) struct Hogs {
    stop: Arc<AtomicBool>,
    all: Vec<gort::JoinHandle<()>>,
}

impl Hogs {
    pub(crate) fn start(n: usize) -> Hogs {
        let stop = Arc::new(AtomicBool::new(false));
        let hog = |_| {
            let stop = stop.clone();
            gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        Hogs { all: (0..n).map(hog).collect(), stop }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        join_all(self.all.drain(..));
    }
}

/// Moves the calling goroutine to another thread: a second goroutine binds itself to the thread of the first,
/// which can then go on only elsewhere.
#[track_caller]
pub(crate) fn migrate() {
    let before = tid();
    while tid() == before {
        let (elsewhere, moved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (not_here, let_go) = (elsewhere.clone(), moved.clone());
        gort::spawn(move || {
            let _bound = gort::runtime::os_thread_guard();
            if tid() == before {
                until("the other goroutine has moved", || let_go.load(Ordering::Acquire));
            } else {
                not_here.store(true, Ordering::Release);
            }
        });
        until("the goroutine has moved", || tid() != before || elsewhere.load(Ordering::Acquire));
        moved.store(true, Ordering::Release);
    }
}
