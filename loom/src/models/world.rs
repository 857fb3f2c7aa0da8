//! A scheduler in miniature around the real `RunQueue` and the real `Sleep`: what `find.rs`, `wake.rs` and
//! `global.rs` do between them, with plain numbers for goroutines and Ps.
//!
//! An [`Actor`] is an OS thread of the model. An M that goes to sleep leaves the model; whoever wakes one plays its
//! part afterwards, on its own thread and therefore beside all other actors.

use std::collections::VecDeque;
use std::ptr;

use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::atomic::{AtomicU32, Ordering};
use crate::brisk::{Brisk, Verdict};
use crate::runq::{BATCH, RunQueue};
use crate::sleep::Sleep;

pub(super) type P = usize;

pub(super) struct World {
    sleep: Sleep,
    state: Mutex<State>,
    /// Length of the global queue, readable without the lock.
    queue_len: AtomicU32,
    runqs: Vec<RunQueue<u8>>,
    brisk: Vec<Brisk>,
    setup: Setup,
}

/// What is behind the scheduler lock.
struct State {
    queue: VecDeque<usize>,
    idle_ps: Vec<P>,
    idle_ms: usize,
}

/// How a model begins.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) ps: usize,
    /// Which of them are idle.
    pub(super) idle: &'static [P],
    pub(super) idle_ms: usize,
    /// Which of them are brisk.
    pub(super) brisk: &'static [P],
    /// Ms that begin with a token.
    pub(super) spinners: u32,
    /// The number of busy Ps that `try_spin` reckons with.
    pub(super) spin_procs: u32,
    /// Goroutines never end: whoever runs one keeps its P for good, and what waits in its queue must be stolen.
    pub(super) hogs: bool,
    /// False: an M does not look again after it gave up its P. Such a protocol is wrong, and the model must find
    /// out.
    pub(super) looks_again: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            ps: 2,
            idle: &[],
            brisk: &[],
            idle_ms: 1,
            spinners: 0,
            spin_procs: 2,
            hogs: true,
            looks_again: true,
        }
    }
}

/// An M with what it needs to look for work.
pub(super) struct M {
    p: Option<P>,
    spinning: bool,
}

impl M {
    pub(super) fn looking(p: P) -> M {
        M { p: Some(p), spinning: false }
    }

    pub(super) fn spinning(p: P) -> M {
        M { p: Some(p), spinning: true }
    }
}

enum Crew {
    Idle(P),
    NoM,
}

impl World {
    pub(super) fn new(setup: Setup) -> Arc<World> {
        let sleep = Sleep::new(AtomicU32::new(0), AtomicU32::new(0));
        setup.idle.iter().for_each(|_| sleep.p_idle());
        for _ in 0..setup.spinners {
            assert!(sleep.try_spin(u32::MAX));
        }
        let brisk: Vec<_> = (0..setup.ps).map(|_| Brisk::new()).collect();
        setup.brisk.iter().for_each(|p| assert_eq!(brisk[*p].judge(u32::MAX, 1), Verdict::Brisk));
        Arc::new(World {
            sleep,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                idle_ps: setup.idle.to_vec(),
                idle_ms: setup.idle_ms,
            }),
            queue_len: AtomicU32::new(0),
            runqs: (0..setup.ps).map(|_| RunQueue::new()).collect(),
            brisk,
            setup,
        })
    }

    fn publish_len(&self, state: &State) {
        self.queue_len.store(state.queue.len() as u32, Ordering::SeqCst);
    }

    fn work_anywhere(&self) -> bool {
        self.queue_len.load(Ordering::SeqCst) != 0
            || self
                .runqs
                .iter()
                .zip(&self.brisk)
                .any(|(queue, brisk)| !queue.is_empty() && !brisk.keeps(queue))
    }

    fn take_idle_p(&self) -> Option<P> {
        let mut state = self.state.lock().unwrap();
        let p = state.idle_ps.pop()?;
        self.sleep.p_busy();
        Some(p)
    }

    fn put_idle_p(&self, state: &mut State, p: P) {
        state.idle_ps.push(p);
        self.sleep.p_idle();
    }

    fn take_crew(&self) -> Option<Crew> {
        let mut state = self.state.lock().unwrap();
        if state.idle_ps.is_empty() {
            return None;
        }
        if state.idle_ms == 0 {
            return Some(Crew::NoM);
        }
        state.idle_ms -= 1;
        let p = state.idle_ps.pop()?;
        self.sleep.p_busy();
        Some(Crew::Idle(p))
    }

    /// Runs `actors` beside each other, and checks that goroutines `1..=goroutines` exist once each and that none
    /// of them waits while a P is idle.
    pub(super) fn play(this: &Arc<World>, goroutines: usize, actors: &[fn(&mut Actor)]) {
        let play = |actor: fn(&mut Actor), world: &Arc<World>| {
            let mut me = Actor { world: world.clone(), woken: VecDeque::new(), ran: Vec::new() };
            actor(&mut me);
            me.play_woken();
            me.ran
        };
        let (last, others) = actors.split_last().expect("somebody acts");
        let threads: Vec<_> = others
            .iter()
            .map(|actor| {
                let (world, actor) = (this.clone(), *actor);
                thread::spawn(move || play(actor, &world))
            })
            .collect();
        let mut seen = play(*last, this);
        for thread in threads {
            seen.extend(thread.join().unwrap());
        }
        this.check_end(seen, goroutines);
    }

    fn check_end(&self, mut seen: Vec<usize>, goroutines: usize) {
        let waits = self.work_anywhere();
        for p in 0..self.runqs.len() {
            seen.extend(std::iter::from_fn(|| self.take_local(p)));
        }
        let state = self.state.lock().unwrap();
        seen.extend(&state.queue);
        seen.sort_unstable();
        assert_eq!(seen, (1..=goroutines).collect::<Vec<_>>(), "a goroutine was lost or ran twice");
        assert!(self.sleep.claim(), "a spinner's token was lost");
        assert!(!waits || state.idle_ps.is_empty(), "a goroutine waits while a P is idle");
    }

    /// The next of the P's own queue. The caller owns the P.
    fn take_local(&self, p: P) -> Option<usize> {
        // SAFETY: every P has one owner at a time; it changes hands through the lock or by joining threads.
        let owner = unsafe { self.runqs[p].owner() };
        let next = owner.take_next();
        let g = if next.is_null() { owner.take() } else { next };
        (!g.is_null()).then(|| g.addr())
    }

    /// This P's share of the global queue: see `State::pop_share`.
    fn take_global(&self, p: P) -> Option<usize> {
        if self.queue_len.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut state = self.state.lock().unwrap();
        let share = state.queue.len() / self.setup.ps + 1;
        let first = state.queue.pop_front()?;
        for _ in 1..share {
            let Some(g) = state.queue.pop_front() else { break };
            self.put_last(p, g);
        }
        self.publish_len(&state);
        Some(first)
    }

    fn steal(&self, own: P) -> Option<usize> {
        for victim in (0..self.runqs.len()).filter(|p| *p != own) {
            let mut batch = [ptr::null_mut(); BATCH];
            let count = self.runqs[victim].steal(&mut batch, true);
            if let Some((last, rest)) = batch[..count].split_last() {
                rest.iter().for_each(|g| self.put_last(own, g.addr()));
                return Some(last.addr());
            }
        }
        None
    }

    fn put_last(&self, p: P, g: usize) {
        // SAFETY: as in `take_local`.
        let owner = unsafe { self.runqs[p].owner() };
        assert!(owner.try_put(ptr::without_provenance_mut(g)), "room for the model");
    }
}

/// A thread of the model.
pub(super) struct Actor {
    world: Arc<World>,
    /// Ms that this thread woke; it plays them when its own part is over.
    woken: VecDeque<Crew>,
    ran: Vec<usize>,
}

impl Actor {
    /// A goroutine on `p` starts goroutine `g`.
    pub(super) fn spawn(&mut self, p: P, g: usize) {
        // SAFETY: as in `take_local`.
        let kicked = unsafe { self.world.runqs[p].owner() }.put_next(ptr::without_provenance_mut(g));
        if !kicked.is_null() {
            self.world.put_last(p, kicked.addr());
        }
        if self.world.sleep.should_wake() && !self.world.brisk[p].keeps(&self.world.runqs[p]) {
            self.wake_p_slow();
        }
    }

    /// sysmon finds that a slice lasts on `p`.
    pub(super) fn find_slow(&mut self, p: P) {
        if self.world.brisk[p].judge(0, 1) == Verdict::NoLonger && !self.world.runqs[p].is_empty() {
            self.wake_p();
        }
    }

    /// The same, and does nothing about it: a protocol that is wrong.
    pub(super) fn forget_to_wake(&mut self, p: P) {
        let _ = self.world.brisk[p].judge(0, 1);
    }

    /// A foreign thread starts goroutine `g`, or a preempted one goes there.
    pub(super) fn push_global(&mut self, g: usize) {
        let mut state = self.world.state.lock().unwrap();
        state.queue.push_back(g);
        self.world.publish_len(&state);
        drop(state);
        self.wake_p();
    }

    /// Goroutine `g`, which runs on `p`, yields to the next one there, as `schedule::switch_away` does: it enters
    /// the ring after the other has left it.
    pub(super) fn yield_now(&mut self, p: P, g: usize) {
        let next = self.world.take_local(p);
        self.world.put_last(p, g);
        match next {
            Some(next) => {
                self.wake_p();
                self.ran.push(next);
            }
            None => self.run_m(M::looking(p)),
        }
    }

    /// A goroutine that came back from a blocking call takes an idle P and ends, and its M looks for more; or it
    /// queues itself.
    pub(super) fn need_p(&mut self, g: usize) {
        match self.world.take_idle_p() {
            Some(p) => {
                self.ran.push(g);
                self.run_m(M::looking(p));
            }
            None => self.push_global(g),
        }
    }

    /// An M that cannot use its P any longer gives it away, with all that is in its queue.
    pub(super) fn hand_off(&mut self, p: P) {
        let world = self.world.clone();
        let moved: Vec<_> = std::iter::from_fn(|| world.take_local(p)).collect();
        let mut state = world.state.lock().unwrap();
        state.queue.extend(moved);
        world.publish_len(&state);
        world.put_idle_p(&mut state, p);
        drop(state);
        if world.sleep.work_waits(|| world.work_anywhere()) {
            self.wake_p();
        }
    }

    /// The loop of an M on g0, until it goes to sleep or a goroutine keeps it.
    pub(super) fn run_m(&mut self, mut m: M) {
        let world = self.world.clone();
        while let Some(p) = m.p {
            let found = world.take_local(p).or_else(|| world.take_global(p)).or_else(|| self.spin(&mut m, p));
            match found {
                Some(g) => {
                    if std::mem::take(&mut m.spinning) && world.sleep.found_work() {
                        self.wake_p_slow();
                    }
                    self.ran.push(g);
                    if world.setup.hogs {
                        return;
                    }
                }
                None => self.give_up_idle_p(&mut m, p),
            }
        }
        world.state.lock().unwrap().idle_ms += 1;
    }

    fn spin(&mut self, m: &mut M, p: P) -> Option<usize> {
        if !m.spinning {
            m.spinning = self.world.sleep.try_spin(self.world.setup.spin_procs);
        }
        if m.spinning { self.world.steal(p) } else { None }
    }

    fn give_up_idle_p(&mut self, m: &mut M, p: P) {
        let world = &self.world;
        let mut state = world.state.lock().unwrap();
        if !state.queue.is_empty() {
            return;
        }
        m.p = None;
        world.put_idle_p(&mut state, p);
        drop(state);
        let was_spinning = std::mem::take(&mut m.spinning);
        if !world.setup.looks_again {
            if was_spinning {
                world.sleep.give_back();
            }
            return;
        }
        m.p = world.sleep.gave_up_p(was_spinning, || world.take_idle_p(), || world.work_anywhere());
        m.spinning = m.p.is_some();
    }

    fn wake_p(&mut self) {
        if self.world.sleep.should_wake() {
            self.wake_p_slow();
        }
    }

    fn wake_p_slow(&mut self) {
        let world = &self.world;
        if !world.sleep.claim() {
            return;
        }
        self.woken.extend(world.sleep.p_for_spinner(|| world.take_crew(), || world.work_anywhere()));
    }

    fn play_woken(&mut self) {
        while let Some(crew) = self.woken.pop_front() {
            let world = &self.world;
            let p = match crew {
                Crew::Idle(p) => Some(p),
                // The thread that the steward starts.
                Crew::NoM => world.sleep.p_for_spinner(|| world.take_idle_p(), || world.work_anywhere()),
            };
            self.run_m(M { p, spinning: p.is_some() });
        }
    }
}
