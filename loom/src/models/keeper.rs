//! keeper.rs: timers are started while the part of the keeper changes hands.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;

use super::check;
use crate::keeper::Keeper;

const NEVER: u64 = u64::MAX;
/// The time of the timer that is started.
const SOON: u64 = 5;

/// An M may wait in each of two places.
struct World {
    keeper: Keeper,
    /// The next timer.
    next: AtomicU64,
    taken: [AtomicBool; 2],
    interrupted: [AtomicBool; 2],
}

impl World {
    fn new() -> Arc<World> {
        let no = || [AtomicBool::new(false), AtomicBool::new(false)];
        let keeper = Keeper::new(AtomicU64::new(0), AtomicUsize::new(0));
        Arc::new(World { keeper, next: AtomicU64::new(NEVER), taken: no(), interrupted: no() })
    }

    fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    fn new_deadline(&self, when: u64) {
        let until = self.keeper.until();
        if until != 0 && when < until {
            self.interrupted[self.keeper.place()].store(true, Ordering::SeqCst);
        }
    }

    fn start_timer(&self) {
        self.next.store(SOON, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.new_deadline(SOON);
    }

    /// An M comes to wait. Until when it would sleep, and where; 0 if it found no place, or was told of a timer first.
    fn wait(&self) -> (u64, usize) {
        let Some(place) = self.taken.iter().position(|taken| !taken.swap(true, Ordering::SeqCst)) else {
            self.new_deadline(self.next());
            return (0, 0);
        };
        if self.keeper.begin(place) {
            let until = self.next();
            self.keeper.will_wake_at(until);
            return (until, place);
        }
        fence(Ordering::SeqCst);
        self.new_deadline(self.next());
        (NEVER, place)
    }

    /// The M at `place` woke up.
    fn leave(&self, place: usize, kept_time: bool) {
        if kept_time {
            self.keeper.end();
        }
        self.taken[place].store(false, Ordering::SeqCst);
    }

    /// Nobody does anything any more: the timer is somebody's, or an M that is `awake` comes by again.
    fn assert_seen(&self, awake: bool) {
        let until = self.keeper.until();
        let told = self.interrupted[self.keeper.place()].load(Ordering::SeqCst);
        assert!((until != 0 && (until <= SOON || told)) || awake, "a timer is nobody's");
    }
}

/// A timer is started while an M begins to wait.
pub fn who_begins_to_wait_sees_the_timer_or_is_interrupted() {
    check(None, || {
        let world = World::new();
        let starter = {
            let world = world.clone();
            thread::spawn(move || world.start_timer())
        };
        world.wait();
        starter.join().unwrap();
        world.assert_seen(false);
    });
}

/// The keeper wakes up and goes, another M comes, and a timer is started.
pub fn the_part_changes_hands() {
    check(Some(3), || {
        let world = World::new();
        assert_eq!(world.wait(), (NEVER, 0));
        let starter = {
            let world = world.clone();
            thread::spawn(move || world.start_timer())
        };
        let next = {
            let world = world.clone();
            thread::spawn(move || world.wait())
        };
        world.leave(0, true);
        starter.join().unwrap();
        let (until, _place) = next.join().unwrap();
        // The one that left comes by again; if the other one keeps the time, that does not matter.
        world.assert_seen(world.keeper.until() == 0 || until == 0);
    });
}

/// Both Ms come at once: one of them keeps the time.
pub fn one_of_two_keeps_the_time() {
    check(Some(3), || {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.wait())
        };
        let starter = {
            let world = world.clone();
            thread::spawn(move || world.start_timer())
        };
        world.wait();
        other.join().unwrap();
        starter.join().unwrap();
        world.assert_seen(false);
    });
}

/// As [`the_part_changes_hands`], but the place is given up before the part, against K2: who takes the place does not keep
/// the time, and nobody does.
pub fn a_place_that_is_given_up_first_leaves_nobody() {
    check(Some(3), || {
        let world = World::new();
        assert_eq!(world.wait(), (NEVER, 0));
        world.start_timer();
        let next = {
            let world = world.clone();
            thread::spawn(move || world.wait())
        };
        world.taken[0].store(false, Ordering::SeqCst);
        world.keeper.end();
        let (_, place) = next.join().unwrap();
        // The first one found no idle P, and stops; all places that have somebody: one.
        assert!(place != 0 || world.keeper.until() != 0, "a timer is nobody's");
    });
}
