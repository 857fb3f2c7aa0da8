//! Code that is to run at a time, in a goroutine of its own.
//!
//! A timer fires under its heap's lock, on g0 or on sysmon, where nothing may be allocated and no user code may run.
//! So firing only puts the [`Deferred`] into a queue, through links of its own, and readies the one service goroutine,
//! which starts a goroutine for each.
//!
//! Who keeps a `Deferred` alive: besides its users, the heap it is in (one strong count, from `start` to `stop` or the
//! firing), and the queue (one strong count while it is linked: the heap's, handed over).
//!
//! Locks, in this order: `arming` of a Deferred, a heap's, `QUEUE`. `arming` makes stop-and-start-again one step, so
//! that results are exact: of a start, either a stop (or another start) says true, or the code runs, never both and
//! never neither.
//!
//! Wake-up: the service goroutine says that it sleeps under the queue's lock, having found the queue empty; who fills
//! the queue takes that note under the same lock and readies it. So either it finds the entry, or it is readied.

use std::cell::Cell;
use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use super::{Fire, NEVER, Timer, start_anywhere, stop};
use crate::goroutine::spawn_in_bubble;
use crate::sched::lock::Lock;
use crate::sched::reason::WaitReason;
use crate::sched::waiter::{Waiter, park};
use crate::sched::{boot, bubble};
use crate::sys::stderr;
use crate::time;

/// Aligned for the tags of `Waiter`.
#[repr(align(32))]
pub(crate) struct Deferred {
    timer: Timer,
    arming: Lock<Arming>,
    /// Under the queue's lock: how many times it fired and was not yet started, and the next in the queue.
    fired: Cell<u32>,
    next: Cell<*const Deferred>,
    code: Box<dyn Fn() + Send + Sync>,
    /// The bubble whose time it goes by, or 0.
    bubble: u8,
}

// SAFETY: the cells are guarded by the queue's lock; the rest is shared as its parts allow.
unsafe impl Send for Deferred {}
// SAFETY: as above.
unsafe impl Sync for Deferred {}

struct Arming {
    /// Started for a time that never comes: in no heap, but it can be stopped.
    for_ever: bool,
}

impl Deferred {
    /// Code to be run, not started yet.
    pub(crate) fn new(code: Box<dyn Fn() + Send + Sync>) -> Arc<Deferred> {
        start_service();
        Arc::new_cyclic(|this: &std::sync::Weak<Deferred>| Deferred {
            timer: Timer::kept_by_heap(fire, this.as_ptr().cast()),
            arming: Lock::new(Arming { for_ever: false }),
            fired: Cell::new(0),
            next: Cell::new(ptr::null()),
            code,
            bubble: bubble::number(),
        })
    }

    /// Lets it run at `when` instead of at the time it was started for before. True: it was waiting for that.
    ///
    /// # Panics
    /// If it was made in a bubble and the caller is not there, or the reverse: they have different times.
    pub(crate) fn start(self: &Arc<Self>, when: u64) -> bool {
        assert_eq!(
            self.bubble,
            bubble::number(),
            "a timer is set where it was made: inside the bubble, or outside"
        );
        let mut arming = self.arming.lock();
        let in_heap = stop(&self.timer);
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
        // SAFETY: the heap's count keeps it in place. It is in no heap: we stopped it, and others who would start it
        // wait for `arming`.
        unsafe { start_anywhere(&self.timer, when) };
        waiting
    }

    /// True: it was waiting and will not run.
    pub(crate) fn stop(self: &Arc<Self>) -> bool {
        let mut arming = self.arming.lock();
        let in_heap = stop(&self.timer);
        let for_ever = std::mem::replace(&mut arming.for_ever, false);
        drop(arming);
        self.release_if(in_heap);
        in_heap || for_ever
    }

    /// Gives up the heap's count. The caller has one of its own, so nothing is freed here.
    fn release_if(self: &Arc<Self>, in_heap: bool) {
        if in_heap {
            // SAFETY: `start` forgot one.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(self)) };
        }
    }
}

/// The timer's callback.
///
/// # Safety
/// The caller hands over a strong count.
pub(crate) unsafe fn fire(this: *const (), _now: u64) -> Fire {
    // SAFETY: the heap's count kept it alive and is ours now.
    let number = unsafe { (*this.cast::<Deferred>()).bubble };
    if number != 0 {
        bubble::expect_start(number);
    }
    // SAFETY: as above.
    match unsafe { QUEUE.lock_inside().push(this.cast()) } {
        Some(service) => service.ready_from_timer(),
        None => Fire::Nothing,
    }
}

/// As [`fire`], outside of the runtime. Who is to be readied.
///
/// # Safety
/// The caller hands over a strong count.
#[must_use]
pub(crate) unsafe fn fire_now(this: *const Deferred) -> Option<Waiter> {
    // SAFETY: alive by that count.
    let number = unsafe { (*this).bubble };
    if number != 0 {
        bubble::expect_start_outside(number);
    }
    // SAFETY: as above.
    unsafe { QUEUE.lock().push(this) }
}

struct Queue {
    first: *const Deferred,
    last: *const Deferred,
    /// The service goroutine, if it found nothing to do.
    asleep: Option<Waiter>,
}

// SAFETY: what is linked is kept alive by its count, and touched only under the lock.
unsafe impl Send for Queue {}

static QUEUE: Lock<Queue> = Lock::new(Queue { first: ptr::null(), last: ptr::null(), asleep: None });

impl Queue {
    /// Adds one that fired. Who is to be readied.
    ///
    /// # Safety
    /// The caller hands a strong count over.
    unsafe fn push(&mut self, fired: *const Deferred) -> Option<Waiter> {
        // SAFETY: alive, by the caller's count.
        let this = unsafe { &*fired };
        let before = this.fired.replace(this.fired.get() + 1);
        if before != 0 {
            // It was started again before the service came to it. SAFETY: the queue's count remains.
            unsafe { Arc::decrement_strong_count(fired) };
            return None;
        }
        this.next.set(ptr::null());
        if self.last.is_null() {
            self.first = fired;
        } else {
            // SAFETY: linked, hence alive.
            unsafe { (*self.last).next.set(fired) };
        }
        self.last = fired;
        self.asleep.take()
    }

    /// Takes the first, and how many times it fired.
    fn pop(&mut self) -> Option<(Arc<Deferred>, u32)> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: linked, hence alive, and the queue's count becomes ours.
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

/// How many goroutines are the runtime's own.
pub(crate) fn service_goroutines() -> usize {
    usize::from(STARTED.load(Ordering::Relaxed))
}

fn start_service() {
    static START: Once = Once::new();
    boot::ensure();
    START.call_once(|| {
        // In no bubble, whoever comes first.
        if let Err(error) = spawn_in_bubble(0, Location::caller(), serve) {
            panic!("failed to start the goroutine that runs timers' code: {error}");
        }
        STARTED.store(true, Ordering::Relaxed);
    });
}

/// When there is no memory for a goroutine, it is tried again after this long.
const RETRY: Duration = Duration::from_millis(10);

/// The service goroutine.
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
                        time::sleep(RETRY);
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

/// Starts the goroutine. It takes the count along, so that whatever the code owns is dropped there and not here.
fn start(deferred: Arc<Deferred>) -> io::Result<()> {
    let number = deferred.bubble;
    let code = Code(Some(deferred));
    spawn_in_bubble(number, Location::caller(), move || code.run())?;
    if number != 0 {
        bubble::start_done(number);
    }
    Ok(())
}

/// What the goroutine runs. If it was not started, it goes back into the queue.
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
            // SAFETY: the count goes to the queue. The service, which drops this, is awake.
            let _nobody = unsafe { QUEUE.lock().push(Arc::into_raw(deferred)) };
        }
    }
}
