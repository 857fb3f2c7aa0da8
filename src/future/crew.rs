//! Futures that have no goroutine of their own: the crew's goroutines poll them, each whichever is ready.
//!
//! This is for servers. Between two requests a connection needs no stack, and when the next one comes it is
//! served on a stack, with thread-locals and an allocator's cache, that were in use a moment ago. With a
//! goroutine for each of a thousand connections, all of that would take turns in the CPU's cache. What is
//! polled may block as any code in a goroutine: then other goroutines of the crew go on.
//!
//! A task lies in a slot that is never freed, so its waker is just an address, as that of a goroutine: see
//! `task_word.rs` for its states. Ready tasks are in a queue. A goroutine of the crew is *idle* (parked, in
//! the list), *coming* (readied or started for the queue's sake, and has not looked at it yet: one at most),
//! or at work.
//!
//! - C1. If the queue is not empty, a goroutine is coming: the thread that fills the queue, or leaves
//!   something in it, makes sure of that.
//! - C2. A goroutine is idle or coming whenever the others are at work: the goroutine that begins to poll,
//!   and may block, makes sure of that. So a waker that is called where no goroutine can be started finds one
//!   that it can ready.
//!
//! Wake-up: by T3 of a task's word every call of a waker leads to a queued task, by C1 to a goroutine that
//! comes; and that goroutine takes at least one task before it becomes idle, or finds the queue empty. The
//! lock orders them all. From the choice of the goroutine that comes until it is readied (unless it has to be
//! started), and from the list of idle ones to the park, the caller stays inside the runtime: if it were
//! preempted there, all others would wait.
//!
//! C2 fails while there is no memory for a goroutine. Then the queue waits for the goroutines at work, which
//! look at it when they are done.
//!
//! A goroutine that has polled for [`TURN`] leaves the rest to the one that comes, which waits at the end of
//! the P's ring. So all goroutines have their turns, and none of the crew counts as a hog because it served
//! many. The idle ones are taken last in, first out: as few as possible are in use.

use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use super::task_word::TaskWord;
use crate::base::lock::Lock;
use crate::base::prefetch;
use crate::goroutine::{spawn_in_bubble, waker};
use crate::sched::boot;
use crate::sched::machine::SCHED;
use crate::sched::park::channel_op::Inside;
use crate::sched::run::runtime_section;
use crate::sched::types::current::{current, current_bubble};
use crate::sched::types::g::GList;
use crate::sched::types::wait_reason::WaitReason;
use crate::sched::types::waiter::{Hook, Waiter};
use crate::sync::Mutex;
use crate::sys::clock::nanotime;

/// How long a goroutine of the crew polls what is ready before it lets others run (ns).
const TURN: u64 = 150_000;
/// At most this many idle goroutines are kept.
const IDLE: usize = 64;

/// At most this much of a future (bytes) is prefetched.
const FETCHED: usize = 2048;

type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A slot for a future, of one cache line.
#[repr(C, align(64))]
struct Task {
    /// What its Waiter points to.
    hook: Hook,
    word: TaskWord,
    /// The next in the queue, or in the list of free ones. Guarded by the crew's lock.
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
    free: *const Task,
    idle: *const Idle,
    idle_count: usize,
    /// Slots in use.
    tasks: usize,
    coming: bool,
}

// SAFETY: tasks are never freed, and idle ones stay where they are until they are readied, out of the list.
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

/// Who is to come.
enum Next {
    Idle(Waiter),
    /// Nobody is idle: one has to be started.
    New,
}

impl Crew {
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
        if self.coming { None } else { self.take_idle() }
    }

    fn pop(&mut self) -> Option<&'static Task> {
        // SAFETY: never freed.
        let task = unsafe { self.first.as_ref() }?;
        self.first = task.next.get();
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
        prefetch::line(task.next.get() as usize);
        if let Some(future) = future {
            let start = ptr::from_ref(&**future).cast::<u8>() as usize;
            (0..size_of_val(&**future).min(FETCHED))
                .step_by(64)
                .for_each(|offset| prefetch::line(start + offset));
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

/// Starts the one that is to come.
fn start() -> io::Result<()> {
    // In no bubble, whoever comes first.
    spawn_in_bubble(0, Location::caller(), work).map(drop).inspect_err(|_| {
        let _inside = runtime_section::enter();
        let mut crew = CREW.lock_inside();
        crew.coming = false;
        // Others may have left the queue to it.
        let other = if crew.first.is_null() { None } else { crew.take_idle() };
        drop(crew);
        if let Some(other) = other {
            other.ready();
        }
    })
}

/// How many of the crew have nothing to do.
pub(crate) fn idle() -> usize {
    CREW.lock().idle_count
}

/// Whether there are tasks, which may wait for something that gort does not know.
pub(crate) fn has_tasks() -> bool {
    CREW.lock().tasks != 0
}

/// Lets the crew poll `future` to its end.
///
/// # Errors
/// There is no memory for the first goroutine.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    if current_bubble() != 0 {
        // Its time is another one, and so are its goroutines.
        return crate::Builder::new().spawn(move || super::block_on(future)).map(drop);
    }
    start_first()?;
    let task = slot();
    // SAFETY: the slot is ours.
    unsafe { *task.future.get() = Some(Box::pin(future)) };
    task.word.assign();
    queue(task);
    let mut crew = CREW.lock();
    if !crew.first.is_null() && !crew.coming {
        // There was no memory for one more.
        crew.coming = true;
        drop(crew);
        let _those_at_work_will_look = start();
    }
    Ok(())
}

/// From then on there is always somebody.
fn start_first() -> io::Result<()> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if STARTED.load(Ordering::Acquire) {
        return Ok(());
    }
    boot::ensure();
    let _guard = ONE_AT_A_TIME.lock();
    if !STARTED.load(Ordering::Acquire) {
        CREW.lock().coming = true;
        start()?;
        STARTED.store(true, Ordering::Release);
    }
    Ok(())
}

/// A free slot.
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

/// As [`ready`], inside the runtime.
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

/// The slot stays: there is nothing to give back.
unsafe fn retract(_: *const Hook) {}

/// A goroutine of the crew.
fn work() {
    let mut came = true;
    loop {
        let end = nanotime() + TURN;
        while let Some(task) = take(std::mem::take(&mut came)) {
            poll(task);
            if nanotime() >= end || is_bound() {
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

/// Whether what was polled has bound the goroutine to its thread and left it so.
fn is_bound() -> bool {
    current().is_some_and(|g| g.lock_count.get() != 0)
}

/// The next task. Somebody else comes, if need be. `came`: the caller was the one to come.
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
            waiter.goroutine().filter(|g| g.park.notify()).into_iter().for_each(|g| list.push_back(g));
            SCHED.inject_on(inside.p(), &list);
        }
        Some(Next::New) => {
            drop(inside);
            // Without memory it goes on alone: see above.
            let _only_slower = start();
        }
        None => {}
    }
    Some(task)
}

/// How a goroutine's rest ended.
enum Rest {
    /// Another goroutine or a waker wants it to come.
    Over,
    /// It did not rest: the queue needs it.
    None,
    /// It is not needed any more.
    Forever,
}

fn rest() -> Rest {
    let inside = Inside::enter();
    let mut crew = CREW.lock_inside();
    if !crew.first.is_null() && !crew.coming {
        // There was no memory for another one.
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

/// Runs `f`. If `f` panics, the panic was reported, and its payload is forgotten: its drop might panic, too.
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
