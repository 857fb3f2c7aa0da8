//! Futures that have no goroutine of their own: the crew's goroutines poll them, each whichever is ready.
//!
//! For servers: between two requests a connection needs no stack, and when the next one comes it is served on a stack, with
//! thread-locals and an allocator's cache, that were in use a moment ago. A thousand connections with a goroutine each take
//! turns in the CPU's cache instead. What is polled may block as any code in a goroutine: then others of the crew go on.
//!
//! There is a crew for each watch (`netpoll/watch.rs`), and what became ready goes to the one of the CPU on which that was heard: so
//! who has heard it goes on with it, and a request stays on its core. If polls take long, all go to the first one, in turn.
//!
//! A task lies in a slot that is never freed, so its waker is just an address, as that of a goroutine: see `taskword.rs` for its
//! states. Ready ones are in a crew's queue. A goroutine of the crew is *idle* (parked, in the list), *coming* (readied or started
//! for the queue's sake, and has not looked at it yet: one at most), or at work.
//!
//! - C1. If the queue is not empty, somebody is coming: whoever fills it, or leaves something in it, sees to that.
//! - C2. Somebody is idle or coming whenever the others are at work: whoever begins to poll, and may block, sees to that.
//!   So a waker that is called where no goroutine can be started finds one that it can ready.
//!
//! Wake-up: by T3 of a task's word every call of a waker leads to a queued task, by C1 to one who comes; and who comes takes at
//! least one task before it becomes idle, or finds the queue empty. The lock orders them all. From the choice of who comes
//! until it is told so (unless it has to be started), and from the list of idle ones to the park, one stays inside the
//! runtime: whoever were preempted there would keep all others waiting.
//!
//! Who comes waits in the ring of who is at work, and comes when that one blocks or has had its turn. Another P is called for it only
//! if what waits takes long (`is_worth_help`), by the pace so far. If that was wrong, sysmon sees that nothing goes on (`progress`).
//!
//! C2 fails while there is no memory for a goroutine. Then the queue waits for those at work, who look at it when they are
//! done.
//!
//! One that has polled for [`TURN`] leaves the rest to the one that comes, which waits at the end of the P's ring: so all
//! goroutines have their turns, and none of the crew is taken for a hog because it served many. The idle ones are taken last
//! in, first out: as few as possible are in use.

use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;

use crossbeam_utils::CachePadded;

use super::poller;
use super::taskword::TaskWord;
use crate::goroutine::spawn_in_bubble;
use crate::netpoll::watch;
use crate::sched::glist::GList;
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;
use crate::sched::visit::Inside;
use crate::sched::waiter::{Hook, Waiter};
use crate::sched::{boot, bubble, prefetch, section, wake};
use crate::sync::Mutex;
use crate::sys::clock::nanotime;
use crate::sys::thread;
use crate::timer::Fire;

const MICRO: u64 = 1_000;

/// So long, in nanoseconds, one polls what is ready before it lets others run.
const TURN: u64 = 150 * MICRO;
/// What waits in the queue is worth another P if it takes so long in all, or each so long, in nanoseconds. Otherwise to wake a thread
/// for it takes more from who asks and who answers than it gains.
const LONG: u64 = 250 * MICRO;
const LONG_EACH: u64 = 25 * MICRO;
/// The pace follows the polls by so much of the difference, and grows by so much of itself at a time: some lasted only because the
/// kernel let other threads run meanwhile.
const PACE_BY: u64 = 8;
/// So many idle ones are kept.
const IDLE: usize = 64;

/// So much of a future, in bytes, is fetched into the cache beforehand.
const FETCHED: usize = 2048;

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A slot for a future, of one cache line.
#[repr(C, align(64))]
struct Task {
    /// What its Waiter points to.
    hook: Hook,
    word: TaskWord,
    /// The next in the queue, or in the list of free ones. Guarded by the lock of either.
    next: Cell<*const Task>,
    /// Of who polls it (T2), and before it is assigned of who has the slot.
    future: UnsafeCell<Option<BoxedFuture>>,
}

// SAFETY: as the fields say.
unsafe impl Sync for Task {}

/// One of the crew, on its stack while it is idle.
struct Idle {
    waiter: Waiter,
    next: *const Idle,
}

struct Crew {
    first: *const Task,
    last: *const Task,
    /// So many are in the queue.
    length: u64,
    idle: *const Idle,
    idle_count: usize,
    coming: bool,
    /// How long a poll takes, in nanoseconds, by the last ones.
    pace: u64,
}

// SAFETY: tasks are never freed, and idle ones stay where they are until they are readied, out of the list.
unsafe impl Send for Crew {}

/// More CPUs share crews.
const MAX: usize = 64;

static CREWS: [CachePadded<Lock<Crew>>; MAX] = [const { CachePadded::new(Lock::new(Crew::new())) }; MAX];
/// So many have somebody.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The polls take long, each. Then it does not matter on which CPU they are, but that they come in turn: one queue for all.
static ALL_LONG: AtomicBool = AtomicBool::new(false);

/// The crew to which the caller gives what is ready, that of its CPU, and its number.
fn own() -> (usize, &'static Lock<Crew>) {
    // Acquire pairs with the store in `open`.
    let index = match OPEN.load(Ordering::Acquire) {
        0 | 1 => 0,
        _ if ALL_LONG.load(Ordering::Relaxed) => 0,
        open => thread::cpu() % open,
    };
    (index, &CREWS[index])
}

/// Slots of all crews.
struct Slots {
    free: *const Task,
    in_use: usize,
}

// SAFETY: tasks are never freed.
unsafe impl Send for Slots {}

static SLOTS: Lock<Slots> = Lock::new(Slots { free: ptr::null(), in_use: 0 });

/// Who is to come.
enum Next {
    Idle(Waiter),
    /// Nobody is idle: one has to be started.
    New,
}

impl Crew {
    const fn new() -> Crew {
        Crew {
            first: ptr::null(),
            last: ptr::null(),
            length: 0,
            idle: ptr::null(),
            idle_count: 0,
            coming: false,
            pace: 0,
        }
    }

    /// Adds a task that became ready. Who is to be readied for it.
    #[must_use]
    fn push(&mut self, task: &'static Task) -> Option<Waiter> {
        task.next.set(ptr::null());
        if self.first.is_null() {
            self.first = task;
        } else {
            // SAFETY: never freed.
            unsafe { (*self.last).next.set(task) };
        }
        self.last = task;
        self.length += 1;
        if self.coming { None } else { self.take_idle() }
    }

    fn pop(&mut self) -> Option<&'static Task> {
        // SAFETY: never freed.
        let task = unsafe { self.first.as_ref() }?;
        self.first = task.next.get();
        self.length -= 1;
        self.fetch_first();
        Some(task)
    }

    /// Lets the cache fetch what the next poll will need, while the current one takes place.
    fn fetch_first(&self) {
        // SAFETY: never freed. In the queue, its future is nobody's but the queue's.
        let Some((task, future)) = (unsafe { self.first.as_ref().map(|task| (task, &*task.future.get())) })
        else {
            return;
        };
        prefetch::head(task.next.get() as usize);
        if let Some(future) = future {
            let start = ptr::from_ref(&**future).cast::<u8>() as usize;
            (0..size_of_val(&**future).min(FETCHED))
                .step_by(64)
                .for_each(|offset| prefetch::head(start + offset));
        }
    }

    /// The one that was idle for the shortest time comes.
    fn take_idle(&mut self) -> Option<Waiter> {
        // SAFETY: in the list, hence parked.
        let idle = unsafe { self.idle.as_ref() }?;
        self.idle = idle.next;
        self.idle_count -= 1;
        self.coming = true;
        Some(idle.waiter)
    }

    /// A poll took so long.
    fn follow(&mut self, spent: u64) {
        if spent < self.pace {
            self.pace -= (self.pace - spent) / PACE_BY;
        } else {
            self.pace += (spent - self.pace).min(self.pace + MICRO) / PACE_BY;
        }
        let long = self.pace >= LONG_EACH;
        if ALL_LONG.load(Ordering::Relaxed) != long {
            ALL_LONG.store(long, Ordering::Relaxed);
        }
    }

    /// Whether somebody should be woken for what waits here.
    fn is_worth_help(&self) -> bool {
        self.pace >= LONG_EACH || self.pace * self.length >= LONG
    }

    /// The caller is going to poll, which may take long: who has to come for C1 and C2.
    fn next(&mut self) -> Option<Next> {
        if self.coming || (self.first.is_null() && !self.idle.is_null()) {
            return None;
        }
        let idle = self.take_idle();
        self.coming = true;
        Some(idle.map_or(Next::New, Next::Idle))
    }
}

/// Starts the one that is to come to the crew of that number.
fn start(index: usize) -> io::Result<()> {
    // In no bubble, whoever comes first.
    spawn_in_bubble(0, Location::caller(), move || work(index)).map(drop).inspect_err(|_| {
        let _inside = section::enter();
        let mut crew = CREWS[index].lock_inside();
        crew.coming = false;
        // Others may have left the queue to it.
        let other = if crew.first.is_null() { None } else { crew.take_idle() };
        drop(crew);
        if let Some(other) = other {
            other.ready();
        }
    })
}

/// How many of the crews have nothing to do.
pub(crate) fn idle() -> usize {
    CREWS[..OPEN.load(Ordering::Relaxed)].iter().map(|crew| crew.lock().idle_count).sum()
}

/// Whether there are tasks, which may wait for something that gort does not know.
pub(crate) fn has_tasks() -> bool {
    SLOTS.lock().in_use != 0
}

/// Lets a crew poll `future` to its end.
///
/// # Errors
/// There is no memory for the first goroutine.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    if bubble::number() != 0 {
        // Its time is another one, and so are its goroutines.
        return crate::Builder::new().spawn(move || super::block_on(future)).map(drop);
    }
    open()?;
    let task = slot();
    // SAFETY: the slot is ours.
    unsafe { *task.future.get() = Some(Box::pin(future)) };
    task.word.assign();
    let index = queue(task);
    let mut crew = CREWS[index].lock();
    if !crew.first.is_null() && !crew.coming {
        // There was no memory for one more.
        crew.coming = true;
        drop(crew);
        let _those_at_work_will_look = start(index);
    }
    Ok(())
}

/// Starts the first of each crew. From then on there is always somebody.
fn open() -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if OPEN.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    boot::ensure();
    let _guard = ONE_AT_A_TIME.lock();
    if OPEN.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let mut started = 0;
    for (index, crew) in CREWS.iter().enumerate().take(watch::count()) {
        crew.lock().coming = true;
        match start(index) {
            Ok(()) => started += 1,
            Err(error) if index == 0 => return Err(error),
            // The others do its work.
            Err(_) => break,
        }
    }
    // Release: see `own`.
    OPEN.store(started, Ordering::Release);
    Ok(())
}

/// A free slot.
fn slot() -> &'static Task {
    let mut slots = SLOTS.lock();
    slots.in_use += 1;
    // SAFETY: never freed.
    if let Some(task) = unsafe { slots.free.as_ref() } {
        slots.free = task.next.get();
        return task;
    }
    drop(slots);
    Box::leak(Box::new(Task {
        hook: Hook { ready, fire },
        word: TaskWord::new(),
        next: Cell::new(ptr::null()),
        future: UnsafeCell::new(None),
    }))
}

/// Gives a task that became ready to the crew of this number.
fn queue(task: &'static Task) -> usize {
    let _inside = section::enter();
    let (index, crew) = own();
    let next = crew.lock_inside().push(task);
    if let Some(waiter) = next {
        waiter.ready();
    }
    index
}

/// The task's waker was called.
///
/// # Safety
/// It is the hook of a task.
unsafe fn ready(hook: *const Hook) {
    // SAFETY: the hook is a task's first field, and tasks are never freed.
    let task = unsafe { &*hook.cast::<Task>() };
    if task.word.wake() {
        queue(task);
    }
}

/// As [`ready`], inside the runtime.
///
/// # Safety
/// As there.
unsafe fn fire(hook: *const Hook) -> Fire {
    // SAFETY: as in `ready`.
    let task = unsafe { &*hook.cast::<Task>() };
    if !task.word.wake() {
        return Fire::Nothing;
    }
    let next = own().1.lock_inside().push(task);
    next.map_or(Fire::Nothing, Waiter::ready_from_timer)
}

/// A goroutine of the crew of that number.
fn work(index: usize) {
    let (mut came, mut spent) = (true, None);
    loop {
        let mut before = nanotime();
        let end = before + TURN;
        while let Some(task) = take(index, std::mem::take(&mut came), spent.take()) {
            poll(task);
            let now = nanotime();
            spent = Some(now - std::mem::replace(&mut before, now));
            if now >= end || is_bound() {
                break;
            }
        }
        came = match rest(index) {
            Rest::Over => true,
            Rest::None => false,
            Rest::ForEver => return,
        };
    }
}

/// Whether what was polled has bound the goroutine to its thread and left it so.
fn is_bound() -> bool {
    section::current().is_some_and(|g| g.lock_count.get() != 0)
}

/// The next task. Somebody else comes, if need be. `came`: the caller was the one to come. `spent`: how long its last poll took.
fn take(index: usize, came: bool, spent: Option<u64>) -> Option<&'static Task> {
    let inside = section::enter()?;
    let mut crew = CREWS[index].lock_inside();
    if came {
        crew.coming = false;
    }
    if let Some(spent) = spent {
        crew.follow(spent);
    }
    let task = crew.pop()?;
    let next = crew.next();
    let helps = crew.is_worth_help();
    drop(crew);
    let progress = &inside.p().progress;
    progress.store(progress.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    match next {
        Some(Next::Idle(waiter)) => {
            let list = GList::new();
            waiter.goroutine().filter(|g| g.park.notify()).into_iter().for_each(|g| list.push_back(g));
            if helps {
                wake::make_all_runnable_on(inside.p(), &list);
            } else {
                wake::keep_all_on(inside.p(), &list);
            }
        }
        Some(Next::New) => {
            drop(inside);
            // Without memory it goes on alone: see above.
            let _only_slower = start(index);
        }
        None => {}
    }
    Some(task)
}

/// What came of a rest.
enum Rest {
    /// Somebody wants the caller to come.
    Over,
    /// The queue needs it.
    None,
    /// It is not needed any more.
    ForEver,
}

fn rest(index: usize) -> Rest {
    let visit = Inside::enter();
    let mut crew = CREWS[index].lock_inside();
    if !crew.first.is_null() && !crew.coming {
        // There was no memory for another one.
        drop((crew, visit));
        crate::yield_now();
        return Rest::None;
    }
    let others = crew.coming || !crew.idle.is_null();
    if crew.idle_count == IDLE || (others && is_bound()) {
        return Rest::ForEver;
    }
    let own = Idle { waiter: Waiter::current(), next: crew.idle };
    crew.idle = &raw const own;
    crew.idle_count += 1;
    drop(crew);
    visit.park(WaitReason::Crew, ptr::from_ref(&CREWS) as usize);
    Rest::Over
}

/// Runs what may panic: that has been reported then. What it panicked with is forgotten, for its drop might panic, too.
fn end_alone<T>(f: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(f)).map_err(std::mem::forget).ok()
}

fn poll(task: &'static Task) {
    task.word.begin();
    // SAFETY: the slot is never freed.
    let waker = poller::waker_of(unsafe { Waiter::from_hook(&raw const task.hook) });
    // SAFETY: T2.
    let place = unsafe { &mut *task.future.get() };
    let ended = place.as_mut().is_none_or(|future| {
        end_alone(|| future.as_mut().poll(&mut Context::from_waker(&waker)))
            .is_none_or(|poll| poll.is_ready())
    });
    if ended {
        let future = place.take();
        end_alone(|| drop(future));
        task.word.end();
        let mut slots = SLOTS.lock();
        slots.in_use -= 1;
        task.next.set(slots.free);
        slots.free = task;
    } else if task.word.pause() {
        queue(task);
    }
}

#[cfg(test)]
#[path = "crew_tests.rs"]
mod tests;
