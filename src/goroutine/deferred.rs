//! [`Deferred`]: code that a timer runs at a given time, in a goroutine of its own.
//!
//! A timer fires under its heap's lock, on g0 or on sysmon, where nothing may be allocated and no user code
//! may run. So firing only links the [`Deferred`] into a queue, through a field of its own, and readies the
//! one service goroutine. The service goroutine starts a goroutine for each entry of the queue.
//!
//! Ownership: besides the users of a `Deferred`, the timer heap owns one strong count from `start` until
//! `stop` or the firing. Firing hands that count to the queue, which owns it while the `Deferred` is linked.
//!
//! Locks are taken in this order: `arming` of a Deferred, a heap's lock, `QUEUE`. `arming` makes
//! stop-and-start-again one step, so that results are exact: for each start, either a stop (or another start)
//! returns true, or the code runs, never both and never neither.
//!
//! Why no wake-up is lost: the service goroutine registers in `asleep` under the queue's lock, after it has
//! found the queue empty. A timer that fills the queue takes `asleep` under the same lock and readies the
//! service goroutine. So the service goroutine either finds the entry or is readied.

use std::cell::Cell;
use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use super::spawn_in_bubble;
use crate::base::lock::{Lock, Rank, Ranked};
use crate::sched::boot;
use crate::sched::machine::hooks;
use crate::sched::park::park_ready::park;
use crate::sched::park::timers::{self, start_anywhere};
use crate::sched::run::runtime_section;
use crate::sched::types::current::{current, current_bubble};
use crate::sched::types::waiter::{Hook, Waiter};
use crate::sched::word::status::WaitReason;
use crate::stack::size::Need;
use crate::sys::clock::nanotime;
use crate::sys::stderr;
use crate::timer::{Fired, NEVER, Timer};

/// Code that can be started for a given time, stopped, and started again.
#[repr(C)]
pub(crate) struct Deferred {
    /// First, so that its address is that of the whole.
    hook: Hook,
    timer: Timer,
    arming: Lock<Arming>,
    /// How many times it has fired without its code having been started. Guarded by the queue's lock.
    fired: Cell<u32>,
    /// The next entry in the queue. Guarded by the queue's lock.
    next: Cell<*const Deferred>,
    code: Box<dyn Fn() + Send + Sync>,
    /// The number of the bubble whose clock it uses, or 0 for none.
    bubble: u8,
}

// SAFETY: the queue's lock guards the cells; all other fields are Send and Sync themselves.
unsafe impl Send for Deferred {}
// SAFETY: the queue's lock guards the cells; all other fields are Send and Sync themselves.
unsafe impl Sync for Deferred {}

struct Arming {
    /// Started for `NEVER`: it is in no heap, but `stop` returns true.
    for_ever: bool,
}

impl Ranked for Arming {
    const RANK: Rank = Rank::Arming;
}

impl Deferred {
    /// A `Deferred` with this code, not started yet.
    pub(crate) fn new(code: Box<dyn Fn() + Send + Sync>) -> Arc<Deferred> {
        start_service();
        Arc::new_cyclic(|this: &std::sync::Weak<Deferred>| Deferred {
            hook: Hook { ready, ready_inside, retract },
            timer: Timer::kept_by_heap(fire, this.as_ptr().cast()),
            arming: Lock::new(Arming { for_ever: false }),
            fired: Cell::new(0),
            next: Cell::new(ptr::null()),
            code,
            bubble: current_bubble(),
        })
    }

    /// Starts it for `when` (nanoseconds of the clock), in place of any earlier start. Returns true if an
    /// earlier start was still waiting.
    ///
    /// # Panics
    /// If the caller is not in the bubble (or outside of all bubbles) in which this was made: the clocks
    /// differ.
    pub(crate) fn start(self: &Arc<Self>, when: u64) -> bool {
        assert_eq!(
            self.bubble,
            current_bubble(),
            "a timer is set where it was made: inside the bubble, or outside"
        );
        boot::ensure(); // in a forked child no M runs timers, and this says so
        let mut arming = self.arming.lock();
        let in_heap = timers::stop(&self.timer);
        let waiting = in_heap || arming.for_ever;
        arming.for_ever = when == NEVER;
        if when == NEVER {
            drop(arming);
            self.release_if(in_heap);
            return waiting;
        }
        if !in_heap {
            std::mem::forget(Arc::clone(self)); // the heap's count
        }
        // SAFETY: the heap's count keeps the timer in place. It is in no heap: we have stopped it, and any
        // other thread that wants to start it waits for `arming`.
        unsafe { start_anywhere(&self.timer, when) };
        waiting
    }

    /// Stops it. Returns true if it was waiting: then its code will not run for that start.
    pub(crate) fn stop(self: &Arc<Self>) -> bool {
        let mut arming = self.arming.lock();
        let in_heap = timers::stop(&self.timer);
        let for_ever = std::mem::replace(&mut arming.for_ever, false);
        drop(arming);
        self.release_if(in_heap);
        in_heap || for_ever
    }

    /// A Waiter that runs the code when it is woken. It owns a strong count until then, or until it is
    /// retracted.
    pub(crate) fn into_waiter(self: Arc<Self>) -> Waiter {
        // SAFETY: the hook is the first field, and the count keeps it alive.
        unsafe { Waiter::from_hook(Arc::into_raw(self).cast()) }
    }

    /// Releases the heap's count if `in_heap`. The caller has a count of its own, so this frees nothing.
    fn release_if(self: &Arc<Self>, in_heap: bool) {
        if in_heap {
            // SAFETY: `start` forgot one count, for the heap.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        }
    }
}

/// The timer's callback: queues the `Deferred`.
///
/// # Safety
/// The caller hands over a strong count.
unsafe fn fire(this: *const (), _now: u64) -> Fired {
    // SAFETY: passed on; the hook is the first field.
    unsafe { ready_inside(this.cast()) }.map(Waiter::to_word)
}

/// Queues the `Deferred` that begins with this hook, inside the runtime. Returns the service goroutine if it
/// is to be woken.
///
/// # Safety
/// The caller hands over a strong count.
unsafe fn ready_inside(hook: *const Hook) -> Option<Waiter> {
    let this = hook.cast::<Deferred>();
    // SAFETY: the caller's count keeps it alive.
    let number = unsafe { (*this).bubble };
    if number != 0 {
        (hooks().bubble.pin_inside)(number);
    }
    // SAFETY: we hand the caller's count over to the queue.
    unsafe { QUEUE.lock_inside().push(this) }
}

/// As [`ready_inside`], outside of the runtime; wakes the service goroutine itself.
///
/// # Safety
/// The caller hands over a strong count.
unsafe fn ready(hook: *const Hook) {
    let section = runtime_section::enter();
    // SAFETY: passed on.
    let service = unsafe { ready_inside(hook) };
    drop(section);
    if let Some(service) = service {
        service.ready();
    }
}

/// Drops the count of a Waiter that will not be woken.
///
/// # Safety
/// It came from [`Deferred::into_waiter`], and is not used any more.
unsafe fn retract(hook: *const Hook) {
    // SAFETY: the caller's promise.
    drop(unsafe { Arc::from_raw(hook.cast::<Deferred>()) });
}

struct Queue {
    first: *const Deferred,
    last: *const Deferred,
    /// The service goroutine, if it has found the queue empty and parks.
    asleep: Option<Waiter>,
}

impl Ranked for Queue {
    const RANK: Rank = Rank::Fired;
}

// SAFETY: the queue's counts keep its entries alive, and they are accessed only under the lock.
unsafe impl Send for Queue {}

static QUEUE: Lock<Queue> = Lock::new(Queue { first: ptr::null(), last: ptr::null(), asleep: None });

impl Queue {
    /// Adds a `Deferred` that has fired. Returns the service goroutine if the caller must ready it.
    ///
    /// # Safety
    /// The caller hands over a strong count.
    unsafe fn push(&mut self, fired: *const Deferred) -> Option<Waiter> {
        // SAFETY: the caller's count keeps it alive.
        let this = unsafe { &*fired };
        let before = this.fired.replace(this.fired.get() + 1);
        if before != 0 {
            // It fired again before the service goroutine got to it, so it is linked already. SAFETY: we
            // release the caller's count; the queue's count remains.
            unsafe { Arc::decrement_strong_count(fired) };
            return None;
        }
        this.next.set(ptr::null());
        if self.last.is_null() {
            self.first = fired;
        } else {
            // SAFETY: a linked entry is alive.
            unsafe { (*self.last).next.set(fired) };
        }
        self.last = fired;
        self.asleep.take()
    }

    /// Takes the first entry. The number says how many times it has fired.
    fn pop(&mut self) -> Option<(Arc<Deferred>, u32)> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: a linked entry is alive, and the queue's count becomes ours.
        let this = unsafe { Arc::from_raw(self.first) };
        self.first = this.next.replace(ptr::null());
        if self.first.is_null() {
            self.last = ptr::null();
        }
        let fired = this.fired.replace(0);
        Some((this, fired))
    }
}

static STARTED: AtomicBool = AtomicBool::new(false);

/// The number of goroutines that belong to the runtime: 1 once the service goroutine has started, else 0.
pub(crate) fn service_goroutines() -> usize {
    usize::from(STARTED.load(Ordering::Relaxed))
}

fn start_service() {
    static START: Once = Once::new();
    boot::ensure();
    START.call_once(|| {
        // The service goroutine is in no bubble, even if the first caller is in one.
        if let Err(error) = spawn_in_bubble(0, || Need::usual(true), Location::caller(), serve) {
            panic!("failed to start the goroutine that runs timers' code: {error}");
        }
        STARTED.store(true, Ordering::Relaxed);
    });
}

/// The pause before the service goroutine tries again to start a goroutine, when there was no memory for one.
const RETRY: Duration = Duration::from_millis(10);

/// The service goroutine: starts a goroutine for each entry of the queue, and parks when the queue is empty.
fn serve() {
    let mut refused = false;
    loop {
        let mut queue = QUEUE.lock();
        match queue.pop() {
            Some((deferred, times)) => {
                drop(queue);
                for deferred in std::iter::repeat_n(deferred, times as usize) {
                    let started = start(deferred);
                    if let Err(error) = &started {
                        if !refused {
                            stderr::write(&format!(
                                "gort: no goroutine for a timer's function yet, trying again: {error}\n"
                            ));
                        }
                        pause();
                    }
                    refused = started.is_err();
                }
            }
            None => {
                queue.asleep = Some(Waiter::current());
                drop(queue);
                park(WaitReason::TimerService, ptr::from_ref(&QUEUE) as usize);
            }
        }
    }
}

/// Lets some time pass, by the real clock: the service goroutine is in no bubble.
fn pause() {
    if let Some(g) = current() {
        timers::sleep_goroutine(g, nanotime() + RETRY.as_nanos() as u64);
    }
}

/// Starts a goroutine that runs the code. The goroutine takes the strong count, so if that is the last one,
/// the code is dropped in that goroutine and not in the service goroutine.
fn start(deferred: Arc<Deferred>) -> io::Result<()> {
    let number = deferred.bubble;
    let code = Code(Some(deferred));
    spawn_in_bubble(number, || Need::usual(true), Location::caller(), move || code.run())?;
    if number != 0 {
        (hooks().bubble.unpin)(number);
    }
    Ok(())
}

/// The body of a started goroutine. If the goroutine could not be started, the drop puts the `Deferred` back
/// into the queue.
struct Code(Option<Arc<Deferred>>);

impl Code {
    fn run(mut self) {
        if let Some(deferred) = self.0.take() {
            (deferred.code)();
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(deferred) = self.0.take() {
            // SAFETY: we hand our count over to the queue. Nobody needs to be readied: the service goroutine
            // itself drops this, so it is awake.
            let _nobody = unsafe { QUEUE.lock().push(Arc::into_raw(deferred)) };
        }
    }
}
