//! A model of the scheduler: the real `Sched` on a platform that uses loom's threads instead of the kernel's.
//!
//! An [`Actor`] is an OS thread of the model. An M that goes to sleep leaves the model. The actor that wakes
//! an M plays the part of that M after its own script, concurrently with all other actors.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr;

use loom::sync::Arc;
use loom::thread;

use crate::base::atomic::{AtomicU32, Ordering, fence};
use crate::sched::platform::Platform;
use crate::sched::queue::deferred_wake::Pace;
use crate::sched::schedt::{Sched, new_sched};
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::stack::slot::Slot;

/// An M that an actor woke, and whose part the actor has to play.
enum Woken {
    /// It was idle, and has a P.
    Idle(&'static M),
    /// It is a new thread, which will look for a P.
    New,
}

loom::thread_local! {
    static WOKEN: RefCell<VecDeque<Woken>> = RefCell::new(VecDeque::new());
}

/// The platform of the models. Time stands still, and there are no timers and no descriptors. There may be a
/// pending fork and a helper, as in `sched/idle/fork_helpers.rs`.
pub(super) struct Model {
    /// Pending forks.
    forks: AtomicU32,
    /// The number of the goroutine that is the idle helper, or 0.
    helper: AtomicU32,
    /// The address of that goroutine.
    helper_g: std::sync::OnceLock<usize>,
}

impl Platform for Model {
    fn now(&self) -> u64 {
        0
    }

    fn cpu(&self) -> usize {
        0
    }

    fn busy_wait(&self, _nanos: u64) {}

    fn wake_m(&self, m: &'static M) {
        WOKEN.with(|woken| woken.borrow_mut().push_back(Woken::Idle(m)));
    }

    fn start_spinning_m(&self) {
        WOKEN.with(|woken| woken.borrow_mut().push_back(Woken::New));
    }

    fn start_spare_m(&self) {}

    fn measure_cpu_time_if_late(&self, _p: &'static P) {}

    fn in_burst(&self) -> bool {
        false
    }

    fn all_ps_busy(&self) {}

    fn p_became_busy(&self) {}

    fn prefetch(&self, _m: &'static M, _next: *const G, _after: *const G) {}

    fn is_near(&self, _thief: usize, _victim: usize, _round: usize) -> bool {
        true
    }

    fn is_uneven(&self) -> bool {
        false
    }

    fn stop_m(sched: &Sched<Model>, m: &'static M) -> bool {
        sched.lock().put_idle_m(m);
        false
    }

    fn run_timers(_: &Sched<Model>, _own: &'static P, _of: &'static P) {}

    fn waits_for_time_or_io(_: &Sched<Model>) -> bool {
        true // so spinners do not linger
    }

    fn poll_if_due(_: &Sched<Model>, _p: &'static P) -> bool {
        false
    }

    fn forks_wait(&self) -> bool {
        self.helper.load(Ordering::SeqCst) != 0 && self.forks.load(Ordering::SeqCst) != 0
    }

    fn take_fork_helper(&self, _all: bool) -> Option<&'static G> {
        if !self.forks_wait() || self.helper.swap(0, Ordering::SeqCst) == 0 {
            return None;
        }
        // SAFETY: the world keeps it until all threads of the model have ended.
        self.helper_g.get().map(|g| unsafe { &*(*g as *const G) })
    }

    fn poll_wait(_: &Sched<Model>, _m: &'static M) {}

    fn ensure_poller(_: &Sched<Model>) {}

    fn give_up_unused(&self, _p: &'static P) {}

    fn p_retired(_: &Sched<Model>, _p: &'static P) {
        unreachable!("no model changes GOMAXPROCS")
    }
}

/// The initial state of a model.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) ps: usize,
    /// Which Ps are idle.
    pub(super) idle: &'static [usize],
    pub(super) idle_ms: usize,
    /// Which Ps are brisk.
    pub(super) brisk: &'static [usize],
    /// How many Ms begin with a token.
    pub(super) spinners: u32,
    /// Goroutines never end: an M that runs one keeps its P for good, and other Ms must steal what waits in
    /// its queue.
    pub(super) hogs: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { ps: 2, idle: &[], brisk: &[], idle_ms: 1, spinners: 0, hogs: true }
    }
}

pub(super) struct World {
    sched: Sched<Model>,
    setup: Setup,
    ms: std::sync::Mutex<Vec<*mut M>>,
    gs: Vec<*mut G>,
    ps: Vec<*mut P>,
}

// SAFETY: the world owns what the pointers point to; the scheduler's rules say which thread may use it.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// How many goroutines a model may have.
const GOROUTINES: usize = 4;

impl World {
    pub(super) fn new(setup: Setup) -> Arc<World> {
        let sched: Sched<Model> = new_sched!(Model {
            forks: AtomicU32::new(0),
            helper: AtomicU32::new(0),
            helper_g: std::sync::OnceLock::new(),
        });
        let ps: Vec<*mut P> = (0..setup.ps).map(|id| Box::into_raw(Box::new(P::new(id as u32)))).collect();
        let gs = (0..GOROUTINES).map(|_| Box::into_raw(Box::new(G::new(Slot)))).collect();
        let world = World { sched, setup, ms: std::sync::Mutex::new(Vec::new()), gs, ps };
        for (id, p) in world.ps.iter().enumerate() {
            // SAFETY: the world keeps it until all threads of the model have ended.
            let p: &'static P = unsafe { &**p };
            assert!(world.sched.ps[id].set(p).is_ok());
            if world.setup.brisk.contains(&id) {
                assert_eq!(p.deferred_wake.judge(u32::MAX, 1), Pace::Brisk);
            }
        }
        world.sched.procs.store(world.setup.ps as u32, Ordering::Relaxed);
        for (number, g) in world.gs.iter().enumerate() {
            // SAFETY: as above.
            unsafe { (**g).id.store(number as u64 + 1, Ordering::Relaxed) };
        }
        let locked = world.sched.lock();
        world.setup.idle.iter().for_each(|&id| locked.put_idle_p(world.p(id)));
        (0..world.setup.idle_ms).for_each(|_| locked.put_idle_m(world.new_m()));
        drop(locked);
        (0..world.setup.spinners).for_each(|_| world.sched.idle.add_spinner());
        Arc::new(world)
    }

    fn p(&self, id: usize) -> &'static P {
        self.sched.p(id).expect("it was made")
    }

    /// Goroutine `number`, from 1 on.
    fn g(&self, number: usize) -> &'static G {
        // SAFETY: the world keeps it until all threads of the model have ended.
        unsafe { &*self.gs[number - 1] }
    }

    fn new_m(&self) -> &'static M {
        let mut ms = self.ms.lock().unwrap();
        let m = Box::into_raw(Box::new(M::new(ms.len() as u32)));
        ms.push(m);
        // SAFETY: as in `g`.
        unsafe { &*m }
    }

    /// An M that has a P, and perhaps a token.
    fn m_with(&self, p: usize, spinning: bool) -> &'static M {
        let m = self.new_m();
        m.set_p(Some(self.p(p)));
        m.spinning.set(spinning);
        m
    }

    /// Runs `actors` concurrently, and checks that goroutines `1..=goroutines` exist once each and that none
    /// of them waits while a P is idle.
    pub(super) fn play(this: &Arc<World>, goroutines: usize, actors: &[fn(&mut Actor)]) {
        let play = |actor: fn(&mut Actor), world: &Arc<World>| {
            let mut me = Actor { world: world.clone(), ran: Vec::new() };
            actor(&mut me);
            me.play_woken();
            me.ran
        };
        let (last, others) = actors.split_last().expect("an actor acts");
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
        let waits = self.sched.work_anywhere();
        let helper = self.sched.platform.helper.load(Ordering::SeqCst) as usize;
        seen.extend((helper != 0).then_some(helper));
        for p in 0..self.setup.ps {
            // SAFETY: all threads have ended.
            let owner = unsafe { self.p(p).runq.owner() };
            let left = std::iter::from_fn(|| {
                let next = owner.take_next();
                let g = if next.is_null() { owner.take() } else { next };
                // SAFETY: the queue holds pointers to Gs only.
                unsafe { g.as_ref() }
            });
            seen.extend(left.map(|g| g.id() as usize));
        }
        let mut locked = self.sched.lock();
        seen.extend(std::iter::from_fn(|| locked.pop_global()).map(|g| g.id() as usize));
        seen.sort_unstable();
        assert_eq!(seen, (1..=goroutines).collect::<Vec<_>>(), "a goroutine was lost or ran twice");
        assert!(self.sched.idle.claim_token(), "a spinner's token was lost");
        assert!(!waits || !locked.has_idle_p(), "a goroutine waits while a P is idle");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: all threads of the model have ended, and nothing else has the pointers.
        unsafe {
            self.ps.iter().for_each(|p| drop(Box::from_raw(*p)));
            self.gs.iter().for_each(|g| drop(Box::from_raw(*g)));
            self.ms.lock().unwrap().iter().for_each(|m| drop(Box::from_raw(*m)));
        }
    }
}

/// A thread of the model.
pub(super) struct Actor {
    world: Arc<World>,
    ran: Vec<usize>,
}

impl Actor {
    /// A goroutine on `p` starts goroutine `g`.
    pub(super) fn spawn(&mut self, p: usize, g: usize) {
        self.world.sched.ready_on(self.world.p(p), self.world.g(g));
    }

    /// A goroutine, on any P, pushes a fork: the first one of an outermost `join`.
    pub(super) fn push_fork(&mut self) {
        let sched = &self.world.sched;
        sched.platform.forks.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if sched.idle.should_wake() && sched.platform.helper.load(Ordering::SeqCst) != 0 {
            sched.wake_p_slow();
        }
    }

    /// Goroutine `g`, a helper, which runs on `p`, becomes idle; its M looks for more.
    pub(super) fn rest(&mut self, p: usize, g: usize) {
        let world = self.world.clone();
        let sched = &world.sched;
        sched.platform.helper_g.get_or_init(|| ptr::from_ref(world.g(g)) as usize);
        sched.platform.helper.fetch_add(g as u32, Ordering::SeqCst);
        if sched.idle.should_wake() && sched.platform.forks_wait() {
            sched.wake_p_slow();
        }
        if p < world.setup.ps {
            self.look(p);
        }
    }

    /// sysmon finds that `p` is no longer brisk.
    pub(super) fn find_slow(&mut self, p: usize) {
        let p = self.world.p(p);
        if p.deferred_wake.judge(0, 1) == Pace::NoLongerBrisk && !p.runq.is_empty() {
            self.world.sched.wake_p();
        }
    }

    /// As `find_slow`, but wakes no M: a wrong protocol.
    pub(super) fn forget_to_wake(&mut self, p: usize) {
        let _ = self.world.p(p).deferred_wake.judge(0, 1);
    }

    /// A foreign thread starts goroutine `g`.
    pub(super) fn push_global(&mut self, g: usize) {
        self.world.sched.ready_global(self.world.g(g));
    }

    /// Goroutine `g`, which runs on `p`, is preempted: it is queued, and its M looks for the next one.
    pub(super) fn preempt(&mut self, p: usize, g: usize) {
        let sched = &self.world.sched;
        sched.lock().push_preempted(self.world.g(g));
        sched.wake_p();
        self.look(p);
    }

    /// Goroutine `g`, which runs on `p`, yields to the next one there, as `schedule::switch_away` does: it
    /// enters the ring after the other has left it. (It always executes the barrier that `requeue_yielded`
    /// executes only if a P seems idle.)
    pub(super) fn yield_now(&mut self, p: usize, g: usize) {
        let world = self.world.clone();
        let m = world.m_with(p, false);
        let next = world.sched.next_local(m);
        world.sched.put_last(world.p(p), world.g(g));
        match next {
            Some(next) => {
                fence(Ordering::SeqCst);
                world.sched.wake_p();
                self.ran.push(next.id() as usize);
            }
            None => self.run_m(m),
        }
    }

    /// A goroutine that came back from a blocking call takes an idle P and ends, and its M looks for more; or
    /// it queues itself.
    pub(super) fn need_p(&mut self, g: usize) {
        if let Some(p) = self.world.sched.take_p_or_queue(self.world.g(g)) {
            self.ran.push(g);
            self.look(p.id as usize);
        }
    }

    /// An M that cannot use its P any longer gives it away, with all that is in its queue.
    pub(super) fn hand_off(&mut self, p: usize) {
        self.world.sched.hand_off_p(self.world.p(p));
    }

    /// An M with `p` looks for work.
    pub(super) fn look(&mut self, p: usize) {
        self.run_m(self.world.m_with(p, false));
    }

    /// An M with `p` and a token looks for work.
    pub(super) fn spin(&mut self, p: usize) {
        self.run_m(self.world.m_with(p, true));
    }

    /// As `spin`, but if it finds nothing it does not look again after it gave up its P: a wrong protocol.
    pub(super) fn spin_without_recheck(&mut self, p: usize) {
        let world = self.world.clone();
        let (m, p) = (world.m_with(p, true), world.p(p));
        if let Some(g) = world.sched.steal(m, p) {
            self.ran.push(g.id() as usize);
        } else {
            world.sched.lock().put_idle_p(p);
        }
        world.sched.idle.release_token();
    }

    /// The loop of an M on g0, until it goes to sleep or a goroutine keeps it.
    fn run_m(&mut self, m: &'static M) {
        let world = self.world.clone();
        while let Some(g) = world.sched.find_runnable(m) {
            self.ran.push(g.id() as usize);
            if world.setup.hogs {
                return;
            }
        }
    }

    fn play_woken(&mut self) {
        let sched = self.world.clone();
        while let Some(woken) = WOKEN.with(|woken| woken.borrow_mut().pop_front()) {
            let m = match woken {
                Woken::Idle(m) => {
                    m.set_p(m.next_p.take());
                    m
                }
                // The thread that the housekeeper starts.
                Woken::New => {
                    let m = self.world.new_m();
                    let sched = &sched.sched;
                    let p = sched.idle.find_p_for_token(|| sched.take_idle_p(), || sched.work_anywhere());
                    m.set_p(p);
                    m.spinning.set(p.is_some());
                    m
                }
            };
            self.run_m(m);
        }
    }
}
