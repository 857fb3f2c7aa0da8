//! The crew: a group of goroutines that poll futures which have no goroutine of their own. Each takes the
//! next future that is ready.
//!
//! This is for servers. Between two requests a connection needs no stack. The next request is served on a
//! stack, with thread-locals and a malloc cache, that were in use a moment ago. With a goroutine for each of
//! a thousand connections, all their stacks would compete for the CPU's cache. A future may block in a poll,
//! as any code in a goroutine: then the other goroutines of the crew go on.
//!
//! A task is a future in a slot. The slot is never freed, so the task's waker is just an address, like that
//! of a goroutine; `task_word.rs` has the states. Ready tasks are in a queue. A goroutine of the crew is
//! *idle* (parked, in the list of idle ones), *coming* (readied or started to serve the queue, but has not
//! looked at it yet; at most one is), or *at work*.
//!
//! - C1. If the queue is not empty, a goroutine is coming: the thread that fills the queue, or leaves
//!   something in it, makes sure of that.
//! - C2. While goroutines are at work, at least one other is idle or coming: a goroutine that begins to poll,
//!   and may block, makes sure of that. So a waker that is called where no goroutine can be started finds one
//!   that it can ready.
//!
//! No wake-up is lost: by T3 of a task's word every call of a waker leads to a queued task, and by C1 to a
//! goroutine that is coming. That goroutine takes at least one task before it becomes idle, or finds the
//! queue empty. The lock orders all these steps. Two stretches are executed inside the runtime, because all
//! others would wait if the caller were preempted there: from choosing the goroutine that is to come until it
//! is readied (unless it has to be started), and from entering the list of idle ones until the park.
//!
//! C2 does not hold while there is no memory for a goroutine. Then the queue waits for the goroutines at
//! work, which look at it when they are done.
//!
//! A goroutine that has polled for [`TURN`] leaves the rest to the one that is coming, which waits at the end
//! of the P's ring. So other goroutines get their turns, and no goroutine of the crew is preempted because it
//! served many tasks. Idle goroutines are taken last in, first out, so that as few as possible are in use.

use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use super::task_word::TaskWord;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::base::prefetch;
use crate::goroutine::labels::{Labels, with_exactly};
use crate::goroutine::{spawn_in_bubble, waker};
use crate::sched::boot;
use crate::sched::event;
use crate::sched::machine::SCHED;
use crate::sched::park::channel_op::Inside;
use crate::sched::run::runtime_section;
use crate::sched::types::current::{current, current_bubble};
use crate::sched::types::g::GList;
use crate::sched::types::waiter::{Hook, Waiter};
use crate::sched::word::status::WaitReason;
use crate::stack::size::Need;
use crate::sync::Mutex;
use crate::sys::clock::nanotime;

/// How long (ns) a goroutine of the crew polls ready tasks before it lets others run.
const TURN: u64 = 150_000;
/// The most idle goroutines that are kept.
const IDLE: usize = 64;

/// The most bytes of a future that are prefetched.
const FETCHED: usize = 2048;

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A slot for a future, of one cache line.
#[repr(C, align(64))]
struct Task {
    /// The hook that its Waiter points to.
    hook: Hook,
    word: TaskWord,
    /// The next task in the queue, or the next slot in the list of free ones. Guarded by the crew's lock.
    next: Cell<*const Task>,
    /// Belongs to the goroutine that polls it (T2), and before `assign` to the one that took the slot.
    future: UnsafeCell<Option<BoxedFuture>>,
}

// SAFETY: the comments of the fields say who may access them.
unsafe impl Sync for Task {}

/// An idle goroutine of the crew; lies on its stack.
struct Idle {
    waiter: Waiter,
    next: *const Idle,
}

struct Crew {
    first: *const Task,
    last: *const Task,
    free: *const Task,
    idle: *const Idle,
    idle_count: usize,
    /// Slots in use.
    tasks: usize,
    coming: bool,
}

impl Ranked for Crew {
    const RANK: Rank = Rank::Fired;
}

// SAFETY: tasks are never freed, and an `Idle` stays in place until its goroutine is out of the list and
// readied.
unsafe impl Send for Crew {}

static CREW: Lock<Crew> = Lock::new(Crew {
    first: ptr::null(),
    last: ptr::null(),
    free: ptr::null(),
    idle: ptr::null(),
    idle_count: 0,
    tasks: 0,
    coming: false,
});

/// The goroutine that is to come.
enum Next {
    Idle(Waiter),
    /// None is idle, so one has to be started.
    New,
}

impl Crew {
    /// Adds a task that became ready. Returns the goroutine that the caller must ready, if any.
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
        if self.coming { None } else { self.take_idle() }
    }

    fn pop(&mut self) -> Option<&'static Task> {
        // SAFETY: never freed.
        let task = unsafe { self.first.as_ref() }?;
        self.first = task.next.get();
        self.fetch_first();
        Some(task)
    }

    /// Prefetches what the next poll will need, while the current one takes place.
    fn fetch_first(&self) {
        // SAFETY: never freed. While it is in the queue, no goroutine accesses its future.
        let Some((task, future)) = (unsafe { self.first.as_ref().map(|task| (task, &*task.future.get())) })
        else {
            return;
        };
        prefetch::line(task.next.get() as usize);
        if let Some(future) = future {
            let start = ptr::from_ref(&**future).cast::<u8>() as usize;
            (0..size_of_val(&**future).min(FETCHED))
                .step_by(64)
                .for_each(|offset| prefetch::line(start + offset));
        }
    }

    /// Takes the goroutine that was idle for the shortest time: it is coming now.
    fn take_idle(&mut self) -> Option<Waiter> {
        // SAFETY: in the list, hence parked.
        let idle = unsafe { self.idle.as_ref() }?;
        self.idle = idle.next;
        self.idle_count -= 1;
        self.coming = true;
        Some(idle.waiter)
    }

    /// Returns the goroutine that has to come for C1 and C2, if any. The caller is about to poll, which may
    /// take long.
    fn next(&mut self) -> Option<Next> {
        if self.coming || (self.first.is_null() && !self.idle.is_null()) {
            return None;
        }
        let idle = self.take_idle();
        self.coming = true;
        Some(idle.map_or(Next::New, Next::Idle))
    }
}

/// The least stack (bytes) of the crew's goroutines; 0 if the usual one will do.
static STACK: AtomicUsize = AtomicUsize::new(0);

/// From now on, futures are polled with at least this many bytes of stack.
///
/// # Errors
/// No goroutine can have a stack of this size.
pub(crate) fn need_stack(bytes: usize) -> io::Result<()> {
    boot::ensure();
    Need::at_least(bytes)?;
    STACK.fetch_max(bytes, Ordering::Relaxed);
    Ok(())
}

/// Whether the calling goroutine was started before a server asked for more stack than it has. Then a new one
/// comes in its place.
fn is_too_small() -> bool {
    current().is_some_and(|g| g.slot.class().usable() < STACK.load(Ordering::Relaxed))
}

/// Starts a new goroutine, which is the one that is coming. Reports say that it was started at `site`.
fn start(site: &'static Location<'static>) -> io::Result<()> {
    // It is in no bubble, even if the caller is in one.
    // `need_stack` has checked the size.
    let need = || Need::at_least(STACK.load(Ordering::Relaxed)).unwrap_or(Need::usual(true));
    spawn_in_bubble(0, need, site, work).map(drop).inspect_err(|_| {
        let _inside = runtime_section::enter();
        let mut crew = CREW.lock_inside();
        crew.coming = false;
        // Other goroutines may have left the queue to it.
        let other = if crew.first.is_null() { None } else { crew.take_idle() };
        drop(crew);
        if let Some(other) = other {
            other.ready();
        }
    })
}

/// How many goroutines of the crew are idle.
pub(crate) fn idle() -> usize {
    CREW.lock().idle_count
}

/// Whether there are tasks, which may wait for something that gort does not know.
pub(crate) fn has_tasks() -> bool {
    CREW.lock().tasks != 0
}

/// Lets the crew poll `future` to its end. A goroutine that polls it has been started at `site`, as reports
/// say.
///
/// # Errors
/// There is no memory for the first goroutine.
pub(crate) fn spawn(
    site: &'static Location<'static>,
    future: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    if current_bubble() != 0 {
        // A bubble has its own clock and goroutines, so the future gets a goroutine in the bubble.
        return crate::Builder::new().spawn_at(site, move || super::block_on(future)).map(drop);
    }
    start_first(site)?;
    let task = slot();
    // SAFETY: the slot is ours.
    unsafe { *task.future.get() = Some(Box::pin(Sited { site, labels: Labels::current(), future })) };
    task.word.assign();
    queue(task);
    let mut crew = CREW.lock();
    if !crew.first.is_null() && !crew.coming {
        // There was no memory for another goroutine before; try again.
        crew.coming = true;
        drop(crew);
        let _those_at_work_will_look = start(site);
    }
    Ok(())
}

/// A future, and the place in the program on whose behalf it is polled. Reports name that place for the
/// goroutine that polls it, which has the labels of the future's spawner meanwhile.
struct Sited<F> {
    site: &'static Location<'static>,
    labels: Labels,
    future: F,
}

impl<F: Future> Future for Sited<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if let Some(g) = current() {
            g.site.set(Some(self.site));
        }
        // SAFETY: the field `future` is pinned whenever the whole is, and is never moved out of it. The other
        // fields are not pinned.
        let (labels, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&this.labels, Pin::new_unchecked(&mut this.future))
        };
        if labels.is_empty() { future.poll(context) } else { with_exactly(labels, || future.poll(context)) }
    }
}

/// The place that reports name for the calling goroutine of the crew.
fn site() -> &'static Location<'static> {
    current().and_then(|g| g.site.get()).unwrap_or(Location::caller())
}

/// Starts the first goroutine of the crew, unless it was started. From then on there is always at least one.
fn start_first(site: &'static Location<'static>) -> io::Result<()> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if STARTED.load(Ordering::Acquire) {
        return Ok(());
    }
    boot::ensure();
    let _guard = ONE_AT_A_TIME.lock();
    if !STARTED.load(Ordering::Acquire) {
        CREW.lock().coming = true;
        start(site)?;
        STARTED.store(true, Ordering::Release);
    }
    Ok(())
}

/// Takes a free slot, or makes one.
fn slot() -> &'static Task {
    let mut crew = CREW.lock();
    crew.tasks += 1;
    // SAFETY: never freed.
    if let Some(task) = unsafe { crew.free.as_ref() } {
        crew.free = task.next.get();
        return task;
    }
    drop(crew);
    Box::leak(Box::new(Task {
        hook: Hook { ready, ready_inside, retract },
        word: TaskWord::new(),
        next: Cell::new(ptr::null()),
        future: UnsafeCell::new(None),
    }))
}

fn queue(task: &'static Task) {
    let _inside = runtime_section::enter();
    let next = CREW.lock_inside().push(task);
    if let Some(waiter) = next {
        waiter.ready();
    }
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

/// As [`ready`], inside the runtime. Returns the goroutine that the caller must ready, if any.
///
/// # Safety
/// As there.
unsafe fn ready_inside(hook: *const Hook) -> Option<Waiter> {
    // SAFETY: as in `ready`.
    let task = unsafe { &*hook.cast::<Task>() };
    if !task.word.wake() {
        return None;
    }
    CREW.lock_inside().push(task)
}

/// Nothing to do: the slot is never freed.
unsafe fn retract(_: *const Hook) {}

/// A goroutine of the crew.
fn work() {
    let mut came = true;
    loop {
        if came && is_too_small() {
            match start(site()) {
                Ok(()) => return,
                Err(_) => came = false,
            }
        }
        let end = nanotime() + TURN;
        while let Some(task) = take(std::mem::take(&mut came)) {
            poll(task);
            if nanotime() >= end || is_bound() || is_too_small() {
                break;
            }
        }
        came = match rest() {
            Rest::Over => true,
            Rest::None => false,
            Rest::Forever => return,
        };
    }
}

/// Whether a future has bound the goroutine to its thread and left it bound.
fn is_bound() -> bool {
    current().is_some_and(|g| g.lock_count.get() != 0)
}

/// Takes the next task, and lets another goroutine come if C1 or C2 needs one. `came`: the caller was the one
/// that was coming.
fn take(came: bool) -> Option<&'static Task> {
    let inside = runtime_section::enter()?;
    let mut crew = CREW.lock_inside();
    if came {
        crew.coming = false;
    }
    let task = crew.pop()?;
    let next = crew.next();
    drop(crew);
    match next {
        Some(Next::Idle(waiter)) => {
            let list = GList::new();
            if let Some(g) = waiter.goroutine().filter(|g| g.park.notify()) {
                if event::is_on() {
                    inside.m().unblocked(g);
                }
                list.push_back(g);
            }
            SCHED.inject_on(inside.p(), &list);
        }
        Some(Next::New) => {
            drop(inside);
            // Without memory this goroutine goes on alone (see C2 in the file's head).
            let _only_slower = start(site());
        }
        None => {}
    }
    Some(task)
}

/// How a goroutine's rest ended.
enum Rest {
    /// Another goroutine or a waker has readied it: it is coming.
    Over,
    /// It did not rest, because the queue needs it.
    None,
    /// It is no longer needed and ends.
    Forever,
}

fn rest() -> Rest {
    let inside = Inside::enter();
    let mut crew = CREW.lock_inside();
    if !crew.first.is_null() && !crew.coming {
        // There was no memory for another goroutine.
        drop((crew, inside));
        crate::yield_now();
        return Rest::None;
    }
    let others = crew.coming || !crew.idle.is_null();
    if crew.idle_count == IDLE || (others && is_bound()) {
        return Rest::Forever;
    }
    let own = Idle { waiter: Waiter::current(), next: crew.idle };
    crew.idle = &raw const own;
    crew.idle_count += 1;
    drop(crew);
    inside.park(WaitReason::Crew, ptr::from_ref(&CREW) as usize);
    Rest::Over
}

/// Runs `f`. If `f` panics, the panic has been reported, and its payload is leaked, because its drop might
/// panic, too.
fn end_alone<T>(f: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(f)).map_err(std::mem::forget).ok()
}

fn poll(task: &'static Task) {
    task.word.begin();
    // SAFETY: the slot is never freed.
    let waker = waker::waker_of(unsafe { Waiter::from_hook(&raw const task.hook) });
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
        let mut crew = CREW.lock();
        crew.tasks -= 1;
        task.next.set(crew.free);
        crew.free = task;
    } else if task.word.pause() {
        queue(task);
    }
}

#[cfg(test)]
#[path = "crew_tests.rs"]
mod tests;
