//! Bubbles: goroutines that run one at a time, in an order drawn from a seed, on a clock that jumps. `testing` is the
//! face of it.
//!
//! A bubbled goroutine (`G::bubble` is not 0) that becomes runnable does not go to a run queue but to its bubble's list. One
//! of the bubble runs, and is in the scheduler's hands as any other; when it stops, the bubble draws the next one
//! and gives that to the scheduler. When there is none, everybody waits, and the clock jumps to the next timer. So what
//! happens in a bubble depends on the seed only, as long as it is not disturbed from outside.
//!
//! - B1. `running`: a goroutine of the bubble is in the scheduler's hands, or somebody moves the clock. Who sets it has
//!   the bubble's turn; whoever ends the turn calls `next_turn`.
//! - B2. `runnable` holds goroutines whose wait has ended, and new ones. The list owns them.
//! - B3. A goroutine that waits is in neither. It is readied through `ready`, once for each park, which may come
//!   before its `stopped`: then it is in the list while its own turn lasts, and the end of that turn finds it there.
//! - B4. `io` counts those of B3 that wait for I/O. `pending` counts timers that fired and whose goroutine was not started
//!   yet, and goroutines that somebody holds (`hold.rs`). With either above 0, something will happen without the clock.
//!
//! Lock order: a heap's, then the bubble's. The clock is moved without the bubble's lock, by who has the turn: timers
//! fire under the lock of their heap and ready goroutines.
//!
//! A `Bubble` is never freed, but used again when no timer is left in it: a timer may be stopped long after.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::g::G;
use super::glist::GList;
use super::lock::Lock;
use super::p::P;
use super::reason::WaitReason;
use super::waiter::Waiter;
use super::{hold, poller, section, wake};
use crate::stack::slab;
use crate::sys::clock::nanotime;
use crate::timer::{NEVER, Timers};

/// How a bubble came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// All goroutines have ended.
    Finished,
    /// All that are left wait for each other.
    Deadlock,
}

pub(crate) struct Bubble {
    state: Lock<State>,
    timers: Timers,
    /// Its time, in nanoseconds of the monotonic clock. At the start it is the real one.
    now: AtomicU64,
}

struct State {
    random: u64,
    running: bool,
    runnable: GList,
    live: usize,
    io: isize,
    pending: usize,
    /// The id of the first goroutine, until it has ended.
    root: Option<u64>,
    /// A goroutine that waits until all others wait.
    last: Option<&'static G>,
    /// Who is to be told of the end.
    observer: Option<Waiter>,
    verdict: Option<Verdict>,
}

// SAFETY: the list is reached through the lock only.
unsafe impl Sync for Bubble {}

const COUNT: usize = 256;
/// By number; number 0 is no bubble.
static BUBBLES: [AtomicPtr<Bubble>; COUNT] = [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT];
/// A time, in both forms.
static SAME_TIME: OnceLock<(Instant, u64)> = OnceLock::new();
static UNUSED: Mutex<Vec<&'static Bubble>> = Mutex::new(Vec::new());

/// The bubble of that number, which exists.
fn get(number: u8) -> &'static Bubble {
    // Acquire pairs with the store in `make`. SAFETY: bubbles are never freed.
    match unsafe { BUBBLES[usize::from(number)].load(Ordering::Acquire).as_ref() } {
        Some(bubble) => bubble,
        None => unreachable!("a goroutine's bubble exists"),
    }
}

/// The bubble of the calling goroutine.
#[inline]
pub(crate) fn current() -> Option<&'static Bubble> {
    match number() {
        0 => None,
        number => Some(get(number)),
    }
}

/// The number of the calling goroutine's bubble, or 0.
#[inline]
pub(crate) fn number() -> u8 {
    section::current().map_or(0, |g| g.bubble.get())
}

/// The heap for the timers of `g`, if it is in a bubble.
#[inline]
pub(crate) fn timers_of(g: &G) -> Option<&'static Timers> {
    match g.bubble.get() {
        0 => None,
        number => Some(&get(number).timers),
    }
}

/// Makes a bubble. `None`: there are too many. Allocates.
pub(crate) fn make(seed: u64, observer: Waiter) -> Option<u8> {
    let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let bubble = unused.unwrap_or_else(|| {
        Box::leak(Box::new(Bubble {
            state: Lock::new(State::new(0)),
            timers: Timers::new(),
            now: AtomicU64::new(0),
        }))
    });
    let mut state = State::new(seed);
    state.observer = Some(observer);
    *bubble.state.lock() = state;
    SAME_TIME.get_or_init(|| (Instant::now(), nanotime()));
    bubble.now.store(nanotime(), Ordering::Relaxed);
    let new = std::ptr::from_ref(bubble).cast_mut();
    for (number, place) in BUBBLES.iter().enumerate().skip(1) {
        if place.compare_exchange(std::ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Some(number as u8);
        }
    }
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(bubble);
    None
}

/// Gives a finished bubble's number back.
pub(crate) fn retire(number: u8) {
    let bubble = get(number);
    debug_assert_eq!(bubble.verdict(), Some(Verdict::Finished));
    BUBBLES[usize::from(number)].store(std::ptr::null_mut(), Ordering::Release);
    if bubble.timers.next() == NEVER {
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(bubble);
    }
}

/// The end of that bubble, if it has come.
pub(crate) fn verdict(number: u8) -> Option<Verdict> {
    get(number).verdict()
}

impl State {
    fn new(seed: u64) -> State {
        State {
            random: seed,
            running: false,
            runnable: GList::new(),
            live: 0,
            io: 0,
            pending: 0,
            root: None,
            last: None,
            observer: None,
            verdict: None,
        }
    }

    /// splitmix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let hash = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// Draws one of the runnable.
    fn draw(&mut self) -> Option<&'static G> {
        let len = self.runnable.len();
        if len > 1 {
            let skipped = (self.random() % len as u64) as usize;
            for _ in 0..skipped {
                if let Some(g) = self.runnable.pop_front() {
                    self.runnable.push_back(g);
                }
            }
        }
        self.runnable.pop_front()
    }
}

impl Bubble {
    /// Its time in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Its time.
    pub(crate) fn instant(&self) -> Instant {
        match SAME_TIME.get() {
            Some((instant, nanos)) => *instant + Duration::from_nanos(self.nanos() - nanos),
            None => unreachable!("set before the first bubble"),
        }
    }

    /// A number from the seed.
    pub(crate) fn random(&self) -> u64 {
        self.state.lock().random()
    }

    /// What was pending has happened.
    fn no_longer_pending(&self) {
        let section = section::enter();
        self.state.lock_inside().pending -= 1;
        run(self.next_turn(), section.as_ref().map(section::Section::p));
    }

    fn verdict(&self) -> Option<Verdict> {
        self.state.lock().verdict
    }

    /// Somebody may have the next turn, if nobody has it. Whom the scheduler has to run. Inside the runtime.
    #[must_use]
    fn next_turn(&self) -> Option<&'static G> {
        loop {
            let mut state = self.state.lock_inside();
            if state.running || state.pending != 0 {
                return None;
            }
            if let Some(g) = state.draw() {
                state.running = true;
                return Some(g);
            }
            if state.io != 0 {
                return None;
            }
            if let Some(g) = state.last.take() {
                if !g.park.notify() {
                    return None; // it is held, and the holder readies it
                }
                state.runnable.push_back(g);
                continue;
            }
            let next = self.timers.next();
            let verdict = match state.live {
                0 => Some(Verdict::Finished),
                // Time stops when the first goroutine has ended.
                _ if next == NEVER || state.root.is_none() => Some(Verdict::Deadlock),
                _ => None,
            };
            if verdict.is_some() {
                if state.verdict.is_none() {
                    state.verdict = verdict;
                }
                let observer = state.observer.take();
                drop(state);
                if let Some(observer) = observer {
                    observer.ready_without_p();
                }
                return None;
            }
            state.running = true;
            drop(state);
            let now = self.nanos().max(next);
            self.now.store(now, Ordering::Relaxed);
            let ready = GList::new();
            self.timers.run_due(now, &ready);
            // Bubbled goroutines were readied through their bubbles; what is left is the service of `timer`.
            poller::make_runnable_anywhere(&ready);
            self.state.lock_inside().running = false;
        }
    }
}

/// A new goroutine of a bubble. In a section, or on a foreign thread.
pub(crate) fn started(g: &'static G, parent: Option<&'static P>) {
    let bubble = get(g.bubble.get());
    let mut state = bubble.state.lock_inside();
    if state.live == 0 && state.root.is_none() {
        state.root = Some(g.id());
    }
    state.live += 1;
    state.runnable.push_back(g);
    drop(state);
    run(bubble.next_turn(), parent);
}

/// The wait of a goroutine of a bubble has ended. By a goroutine, or on g0.
pub(crate) fn ready(g: &'static G) {
    let section = section::enter();
    ready_on(g, section.as_ref().map(section::Section::p));
}

/// As [`ready`], with a P of the caller's or without.
pub(crate) fn ready_on(g: &'static G, p: Option<&'static P>) {
    let bubble = get(g.bubble.get());
    let mut state = bubble.state.lock_inside();
    if waits_for_io(g) {
        state.io -= 1;
    }
    state.runnable.push_back(g);
    drop(state);
    run(bubble.next_turn(), p);
}

/// The goroutine that had the turn has parked: it may be somebody else's already, so its number and whether it waits
/// for I/O were asked before.
pub(crate) fn parked(number: u8, for_io: bool, p: &'static P) {
    let bubble = get(number);
    let mut state = bubble.state.lock_inside();
    state.running = false;
    state.io += isize::from(for_io);
    drop(state);
    run(bubble.next_turn(), Some(p));
}

/// The goroutine that has the turn lets others run.
pub(crate) fn yielded(g: &'static G, p: &'static P) {
    let bubble = get(g.bubble.get());
    let mut state = bubble.state.lock_inside();
    state.running = false;
    state.runnable.push_back(g);
    drop(state);
    run(bubble.next_turn(), Some(p));
}

/// The goroutine of that id, which had the turn, has ended.
pub(crate) fn ended(number: u8, id: u64, p: &'static P) {
    let bubble = get(number);
    let mut state = bubble.state.lock_inside();
    state.running = false;
    state.live -= 1;
    if state.root == Some(id) {
        state.root = None;
    }
    drop(state);
    run(bubble.next_turn(), Some(p));
}

/// A timer of that bubble fired, and a goroutine will be started for it.
pub(crate) fn expect_start(number: u8) {
    get(number).state.lock_inside().pending += 1;
}

/// As [`expect_start`], outside of the runtime.
pub(crate) fn expect_start_outside(number: u8) {
    get(number).state.lock().pending += 1;
}

/// It was started, or could not be.
pub(crate) fn start_done(number: u8) {
    get(number).no_longer_pending();
}

/// Lets nobody have the next turn as long as the result lives. `None`: there are no goroutines in that bubble, any more or
/// yet. Outside of the runtime.
pub(crate) fn pin(number: u8) -> Option<Pin> {
    // Acquire as in `get`. SAFETY: bubbles are never freed.
    let bubble = unsafe { BUBBLES[usize::from(number)].load(Ordering::Acquire).as_ref() }?;
    let mut state = bubble.state.lock();
    // As long as there are, it does not finish, and is not used again.
    if state.live == 0 {
        return None;
    }
    state.pending += 1;
    Some(Pin(bubble))
}

/// See [`pin`].
pub(crate) struct Pin(&'static Bubble);

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.no_longer_pending();
    }
}

/// Says that the calling goroutine, which parks next, is to be readied when all others wait. False: somebody else is.
pub(crate) fn wait_for_all_others(g: &'static G) -> bool {
    let mut state = get(g.bubble.get()).state.lock();
    if state.last.is_some() {
        return false;
    }
    state.last = Some(g);
    true
}

fn run(g: Option<&'static G>, p: Option<&'static P>) {
    match (g, p) {
        (Some(g), Some(p)) => wake::run_on(p, g),
        (Some(g), None) => wake::run_globally(g),
        (None, _) => {}
    }
}

/// Whether its last wait was for I/O.
pub(crate) fn waits_for_io(g: &G) -> bool {
    matches!(g.wait_reason(), WaitReason::IoRead | WaitReason::IoWrite)
}

/// What the goroutines of a bubble that came to a deadlock wait for, one line each.
pub(crate) fn report(number: u8) -> String {
    let mut lines = String::new();
    slab::for_each_g(|g| {
        if g.bubble.get() != number {
            return;
        }
        // Held, it cannot go on and end while we look.
        hold::while_held(g, || {
            // SAFETY: the info of a goroutine that has not ended is valid.
            let info = unsafe { g.info.load(Ordering::Acquire).as_ref() };
            let name = info.and_then(|info| info.name.as_deref());
            let name = name.map(|name| format!(" '{name}'")).unwrap_or_default();
            let site = g.site.get().map(|site| format!(", spawned at {site}")).unwrap_or_default();
            lines += &format!("\n  goroutine {}{name}: {}{site}", g.id(), g.wait_reason().name());
        });
    });
    lines
}
