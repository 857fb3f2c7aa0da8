//! The gate at which the goroutines of `parked` wait, and which tells when all of them have passed. To
//! measure another primitive, change only this file.

#[cfg(feature = "chan")]
pub use closed_channel::gate;
#[cfg(not(feature = "chan"))]
pub use join_chain::gate;

/// A gate made of a channel on which nothing is ever sent. As in Go, all receivers wake when the channel is
/// closed; here that happens when its sender is dropped.
#[cfg(feature = "chan")]
mod closed_channel {
    use gort::JoinHandle;
    use gort::chan::{Receiver, Sender, bounded};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    pub struct Gate {
        closed: Receiver<()>,
        opener: Sender<()>,
        left: Arc<AtomicU64>,
        all_done: (Sender<()>, Receiver<()>),
    }

    /// A gate for `n` goroutines.
    pub fn gate(n: u64) -> Gate {
        let (opener, closed) = bounded(0);
        Gate { closed, opener, left: Arc::new(AtomicU64::new(n)), all_done: bounded(1) }
    }

    impl Gate {
        /// The whole work of the next goroutine after it has arrived.
        pub fn pass(&mut self) -> impl FnOnce() + Send + 'static {
            let (closed, left, all_done) = (self.closed.clone(), self.left.clone(), self.all_done.0.clone());
            move || {
                assert!(closed.recv().is_err());
                // AcqRel: the last goroutine sees what all others did before they decremented the counter.
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    all_done.send(()).unwrap();
                }
            }
        }

        /// The goroutine that was given the last `pass`.
        pub fn passer(&mut self, handle: JoinHandle<()>) {
            drop(handle);
        }

        /// Opens the gate and waits until all have passed.
        pub fn open(self) {
            drop(self.opener);
            self.all_done.1.recv().unwrap();
        }
    }
}

/// A gate without channels, where joining is the only way to park. Each goroutine joins the previous one, and
/// the first one yields until the gate opens. They wake one after the other.
#[cfg(not(feature = "chan"))]
mod join_chain {
    use gort::JoinHandle;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    pub struct Gate {
        open: Arc<AtomicBool>,
        last: Option<JoinHandle<()>>,
    }

    /// A gate for any number of goroutines.
    pub fn gate(_n: u64) -> Gate {
        Gate { open: Arc::new(AtomicBool::new(false)), last: None }
    }

    impl Gate {
        /// The whole work of the next goroutine after it has arrived.
        pub fn pass(&mut self) -> impl FnOnce() + Send + 'static {
            let (open, before) = (self.open.clone(), self.last.take());
            move || match before {
                Some(before) => before.join().unwrap(),
                None => {
                    while !open.load(Ordering::Relaxed) {
                        gort::yield_now();
                    }
                }
            }
        }

        /// The goroutine that was given the last `pass`.
        pub fn passer(&mut self, handle: JoinHandle<()>) {
            self.last = Some(handle);
        }

        /// Opens the gate and waits until all have passed.
        pub fn open(self) {
            self.open.store(true, Ordering::Relaxed);
            self.last.unwrap().join().unwrap();
        }
    }
}
