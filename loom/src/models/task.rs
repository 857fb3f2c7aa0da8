//! Models of `future/task_word.rs`: wakers and polls of a task.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::check;
use crate::future::task_word::TaskWord;

struct World {
    word: TaskWord,
    /// How many times the task is in the queue.
    queued: Mutex<usize>,
    /// What the task waits for. Accesses are Relaxed, so that only the word can make it visible.
    came: AtomicUsize,
    /// The future. Loom panics if two threads poll at once.
    future: UnsafeCell<usize>,
}

// SAFETY: loom checks the accesses to the cell.
unsafe impl Sync for World {}

impl World {
    /// A task that was polled once and waits.
    fn waiting() -> Arc<World> {
        let world = World {
            word: TaskWord::new(),
            queued: Mutex::new(0),
            came: AtomicUsize::new(0),
            future: UnsafeCell::new(0),
        };
        world.word.assign();
        world.word.begin();
        assert!(!world.word.pause());
        Arc::new(world)
    }

    fn wake(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
        if self.word.wake() {
            self.queue();
        }
    }

    fn queue(&self) {
        let mut queued = self.queued.lock().unwrap();
        assert_eq!(*queued, 0, "it is in the queue once");
        *queued = 1;
    }

    /// Takes it out of the queue and polls it. `None`: it is not there.
    fn poll(&self) -> Option<usize> {
        let mut queued = self.queued.lock().unwrap();
        *queued = queued.checked_sub(1)?;
        drop(queued);
        self.word.begin();
        let seen = self.came.load(Ordering::Relaxed);
        // SAFETY: the thread that polls has the future.
        self.future.with_mut(|future| unsafe { *future = seen });
        if self.word.pause() {
            self.queue();
        }
        Some(seen)
    }
}

/// Two threads wake and two poll: in the end the task was polled after both wake-ups, and saw what came
/// before them.
pub fn every_call_is_followed_by_a_poll() {
    check(Some(3), || {
        let world = World::waiting();
        let others: Vec<_> = [0, 1]
            .map(|role| {
                let world = world.clone();
                thread::spawn(move || {
                    if role == 0 {
                        world.wake();
                    } else {
                        world.poll();
                    }
                })
            })
            .into();
        world.wake();
        world.poll();
        for other in others {
            other.join().unwrap();
        }
        while world.poll().is_some() {}
        // SAFETY: all other threads have ended.
        assert_eq!(world.future.with(|future| unsafe { *future }), 2, "what came is seen");
    });
}

/// A waker that is called when the task has ended does nothing; the slot's next task is queued once.
pub fn a_late_call_does_no_harm() {
    check(None, || {
        let world = World::waiting();
        assert!(world.word.wake());
        world.word.begin();
        let late = thread::spawn({
            let world = world.clone();
            move || world.wake()
        });
        world.word.end();
        world.word.assign();
        world.queue();
        while world.poll().is_some() {}
        late.join().unwrap();
        while world.poll().is_some() {}
        assert_eq!(*world.queued.lock().unwrap(), 0);
    });
}
