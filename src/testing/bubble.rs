//! Bubbles: goroutines that run one at a time, in an order drawn from a seed, on a clock that jumps.
//! `testing/mod.rs` has the public interface.
//!
//! A bubbled goroutine (`G::bubble` is not 0) that becomes runnable does not go to a run queue but to its
//! bubble's list. One goroutine of the bubble at a time is handed to the scheduler and runs as any other.
//! When it stops, the bubble draws the next one and hands that to the scheduler. When there is none, all
//! goroutines wait, and the clock jumps to the next timer. So what happens in a bubble depends on the seed
//! only, unless code outside of the bubble interferes.
//!
//! - B1. `running`: the scheduler has a goroutine of the bubble, or a thread moves the clock. The goroutine
//!   or thread for which it was set has the bubble's turn; the thread that ends the turn calls `next_turn`.
//! - B2. `runnable` holds goroutines whose wait has ended, and new ones. The list owns them.
//! - B3. A goroutine that waits is neither running nor in the list. It is readied through `ready`, once for
//!   each park. `ready` may come before its `parked`: then it is in the list while its own turn still lasts,
//!   and the end of that turn finds it there.
//! - B4. `io` counts the goroutines that wait for I/O. `pending` counts timers that fired and whose goroutine
//!   was not started yet, and goroutines that a report or the shrinker holds (`sched/park/hold_parked.rs`).
//!   While either is above 0, something will happen without a movement of the clock.
//!
//! Lock order: a timer heap's lock, then the bubble's. The thread that has the turn moves the clock without
//! the bubble's lock, because timers fire under the lock of their heap and ready goroutines.
//!
//! A `Bubble` is never freed, because a timer may be stopped long after. It is reused if no timer is left in
//! it.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::base::lock::{Lock, Rank, Ranked};
use crate::sched::event;
use crate::sched::hooks::BubbleHooks;
use crate::sched::idle::due_timers;
use crate::sched::machine::SCHED;
use crate::sched::park::hold_parked;
use crate::sched::run::runtime_section::{self, Section};
use crate::sched::types::g::{G, GList};
use crate::sched::types::p::P;
use crate::sched::types::waiter::Waiter;
use crate::sys::clock::nanotime;
use crate::timer::{NEVER, Timers};

/// The functions that the core calls.
pub(crate) const HOOKS: BubbleHooks = BubbleHooks {
    started,
    ready,
    parked,
    yielded,
    ended,
    timers: |number| &get(number).timers,
    nanos: |number| get(number).nanos(),
    instant: |number| get(number).instant(),
    random: |number| get(number).state.lock().random(),
    pin,
    pin_inside: |number| get(number).state.lock_inside().pending += 1,
    unpin: |number| get(number).no_longer_pending(),
};

/// How a bubble ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BubbleEnd {
    /// All goroutines have ended.
    Finished,
    /// All that are left wait for each other.
    Deadlock,
}

pub(crate) struct Bubble {
    state: Lock<State>,
    timers: Timers,
    /// Its time, in nanoseconds of the monotonic clock. It starts with the real time.
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
    /// The Waiter to ready at the end.
    observer: Option<Waiter>,
    end: Option<BubbleEnd>,
}

impl Ranked for State {
    const RANK: Rank = Rank::Fired;
}

// SAFETY: the list is reached through the lock only.
unsafe impl Sync for Bubble {}

const COUNT: usize = 256;
/// The bubbles by number; number 0 is not used.
static BUBBLES: [AtomicPtr<Bubble>; COUNT] = [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT];
/// One moment in both forms, to convert between them.
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
    debug_assert_eq!(bubble.end(), Some(BubbleEnd::Finished));
    BUBBLES[usize::from(number)].store(std::ptr::null_mut(), Ordering::Release);
    if bubble.timers.next() == NEVER {
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(bubble);
    }
}

/// The end of that bubble, if it has come.
pub(crate) fn end(number: u8) -> Option<BubbleEnd> {
    get(number).end()
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
            end: None,
        }
    }

    /// splitmix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let hash = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// Takes a random one of the runnable goroutines.
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
    fn nanos(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Its time.
    fn instant(&self) -> Instant {
        match SAME_TIME.get() {
            Some((instant, nanos)) => *instant + Duration::from_nanos(self.nanos() - nanos),
            None => unreachable!("set before the first bubble"),
        }
    }

    /// Ends one `pending`.
    fn no_longer_pending(&self) {
        let section = runtime_section::enter();
        self.state.lock_inside().pending -= 1;
        run(self.next_turn(), section.as_ref().map(Section::p));
    }

    fn end(&self) -> Option<BubbleEnd> {
        self.state.lock().end
    }

    /// Gives the next turn, if it is free. Returns the goroutine that the caller must hand to the scheduler.
    /// Called inside the runtime.
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
                if event::is_on() {
                    SCHED.platform.unblocked_anywhere(g);
                }
                state.runnable.push_back(g);
                continue;
            }
            let next = self.timers.next();
            let end = match state.live {
                0 => Some(BubbleEnd::Finished),
                // Time stops when the first goroutine has ended.
                _ if next == NEVER || state.root.is_none() => Some(BubbleEnd::Deadlock),
                _ => None,
            };
            if end.is_some() {
                if state.end.is_none() {
                    state.end = end;
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
            due_timers::run_due(&self.timers, now, &ready);
            // Goroutines of bubbles were readied through their bubbles. What is left is the service goroutine
            // (`goroutine/deferred.rs`).
            SCHED.inject_global(&ready);
            self.state.lock_inside().running = false;
        }
    }
}

/// A goroutine was spawned in a bubble. The caller is in a section, or on a foreign thread.
fn started(g: &'static G, parent: Option<&'static P>) {
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

/// The wait of a goroutine of a bubble has ended. The caller owns the P, if there is one.
fn ready(g: &'static G, p: Option<&'static P>) {
    let bubble = get(g.bubble.get());
    let mut state = bubble.state.lock_inside();
    if g.wait_reason().is_io() {
        state.io -= 1;
    }
    state.runnable.push_back(g);
    drop(state);
    run(bubble.next_turn(), p);
}

/// The goroutine that had the turn has parked. It may belong to another thread already, so the caller read
/// the bubble's number, and whether it waits for I/O, before that.
fn parked(number: u8, for_io: bool, p: &'static P) {
    let bubble = get(number);
    let mut state = bubble.state.lock_inside();
    state.running = false;
    state.io += isize::from(for_io);
    drop(state);
    run(bubble.next_turn(), Some(p));
}

/// The goroutine that has the turn lets others run.
fn yielded(g: &'static G, p: &'static P) {
    let bubble = get(g.bubble.get());
    let mut state = bubble.state.lock_inside();
    state.running = false;
    state.runnable.push_back(g);
    drop(state);
    run(bubble.next_turn(), Some(p));
}

/// The goroutine of that id, which had the turn, has ended.
fn ended(number: u8, id: u64, p: &'static P) {
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

/// Gives no goroutine the next turn until `unpin`. False: that bubble has no goroutines any more, or none
/// yet. Called outside of the runtime.
fn pin(number: u8) -> bool {
    // Acquire as in `get`. SAFETY: bubbles are never freed.
    let bubble = unsafe { BUBBLES[usize::from(number)].load(Ordering::Acquire).as_ref() };
    let Some(bubble) = bubble else { return false };
    let mut state = bubble.state.lock();
    // While there are goroutines, the bubble does not finish and is not reused.
    if state.live == 0 {
        return false;
    }
    state.pending += 1;
    true
}

/// Has the calling goroutine, which parks next, readied when all others wait. False: another goroutine has
/// asked for that already.
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
        (Some(g), Some(p)) => SCHED.ready_on(p, g),
        (Some(g), None) => SCHED.ready_global(g),
        (None, _) => {}
    }
}

/// What the goroutines of a deadlocked bubble wait for, one line each.
pub(crate) fn report(number: u8) -> String {
    let mut lines = String::new();
    G::for_each(|g| {
        if g.bubble.get() != number {
            return;
        }
        // While it is held, it cannot go on and end.
        hold_parked::while_held(g, || {
            // SAFETY: the info of a goroutine that has not ended is valid.
            let info = unsafe { g.info() };
            let name = info.and_then(|info| info.name.as_deref());
            let name = name.map(|name| format!(" '{name}'")).unwrap_or_default();
            let site = g.site.get().map(|site| format!(", spawned at {site}")).unwrap_or_default();
            lines += &format!("\n  goroutine {}{name}: {}{site}", g.id(), g.wait_reason().name());
        });
    });
    lines
}
