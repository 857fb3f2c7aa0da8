//! [`JoinHandle`], and the packet that a goroutine shares with its handle: name, id, join state and result.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use super::current::Goroutine;
use super::join_word::JoinWord;
use super::scope::ScopeData;
use super::shared::Shared;
use crate::base::throw;
use crate::goroutine::waker::Polled;
use crate::sched::boot;
use crate::sched::park::park_ready::park;
use crate::sched::run::spawn::{self, Body, INLINE_ALIGN, INLINE_BODY, Spec};
use crate::sched::types::current::current;
use crate::sched::types::g::Info;
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;
use crate::tls;

/// The result of a goroutine: what its function returned, or the payload of its panic.
pub(super) type Outcome<T> = Result<T, Box<dyn Any + Send + 'static>>;

pub(super) struct Packet<T> {
    info: Info,
    id: AtomicU64,
    join: JoinWord,
    scope: Option<Arc<ScopeData>>,
    result: ResultPlace<T>,
}

// SAFETY: the goroutine writes the result before `finish`, the joiner takes it after it saw `finish`.
unsafe impl<T: Send> Sync for Packet<T> {}

/// Room for the result. Not an `Option`: moving an empty one copies whatever bytes lie in the room for the
/// value.
struct ResultPlace<T> {
    full: Cell<bool>,
    value: UnsafeCell<MaybeUninit<Outcome<T>>>,
}

impl<T> ResultPlace<T> {
    fn new() -> ResultPlace<T> {
        ResultPlace { full: Cell::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Zeroes the room, before others know the packet. Otherwise the search for leaked goroutines could
    /// mistake old bytes there for handles that the goroutine's closure owns. Room of more than 64 bytes is
    /// not zeroed.
    #[inline(always)]
    fn clear(&self) {
        if size_of::<Outcome<T>>() <= 64 {
            // SAFETY: there is no value yet, and nobody else knows the packet.
            unsafe { self.value.get().cast::<u8>().write_bytes(0, size_of::<Outcome<T>>()) };
        }
    }

    /// Writes what `f` returns, or the payload of its panic, directly to its place: the stack may not have
    /// room for copies of a large result.
    ///
    /// # Safety
    /// The caller is the goroutine, and the place is empty.
    unsafe fn fill(&self, f: impl FnOnce() -> T) {
        let place = self.value.get().cast::<Outcome<T>>();
        // SAFETY: the place is the caller's.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unsafe { place.write(Ok(f())) })) {
            // SAFETY: the place is the caller's, and nothing was written.
            unsafe { place.write(Err(payload)) };
        }
        self.full.set(true);
    }

    /// # Safety
    /// The caller is the only one that uses the place.
    unsafe fn take(&self) -> Option<Outcome<T>> {
        // SAFETY: the caller's promise; a full place holds a value, and it is read once.
        self.full.replace(false).then(|| unsafe { (*self.value.get()).assume_init_read() })
    }

    /// Drops a result that nobody took. As with threads, a panic in that drop aborts the process: nobody
    /// could catch it.
    ///
    /// # Safety
    /// As [`take`](ResultPlace::take).
    unsafe fn discard(&self) {
        if self.full.replace(false) {
            // SAFETY: the caller's promise. The value is dropped in its place, once.
            let drop_it = || unsafe { (*self.value.get()).assume_init_drop() };
            if catch_unwind(AssertUnwindSafe(drop_it)).is_err() {
                throw("goroutine", format_args!("the drop of a goroutine's result panicked"));
            }
        }
    }

    /// Whether the goroutine panicked, and nobody took the payload.
    ///
    /// # Safety
    /// As [`take`](ResultPlace::take).
    unsafe fn holds_panic(&self) -> bool {
        // SAFETY: the caller's promise; a full place holds a value.
        self.full.get() && unsafe { (*self.value.get()).assume_init_ref().is_err() }
    }
}

impl<T> Drop for Packet<T> {
    fn drop(&mut self) {
        // SAFETY: the packet is ours alone.
        let panicked = unsafe { self.result.holds_panic() };
        // SAFETY: as above.
        unsafe { self.result.discard() };
        if let Some(scope) = &self.scope {
            scope.one_ended(panicked);
        }
    }
}

/// The goroutine's side: its function and its reference to the packet.
struct Work<F, T> {
    f: Option<F>,
    packet: Shared<Packet<T>>,
}

impl<F: FnOnce() -> T, T> Body for Work<F, T> {
    const FUNCTION: fn() -> &'static str = std::any::type_name::<F>;

    fn run(&mut self) {
        let Some(f) = self.take() else { return };
        // SAFETY: we are the goroutine, and the joiner reads the result only after `finish`.
        unsafe { self.packet.result.fill(f) };
        // If the handle is gone, nobody will take the result: drop it while the thread-locals still exist. In
        // a scope, leave it to the drop of the packet, which tells the scope about a panic.
        if self.packet.is_last() && self.packet.scope.is_none() {
            // SAFETY: as above.
            unsafe { self.packet.result.discard() };
        }
    }

    fn finish(self) -> bool {
        if let Some(joiner) = self.packet.join.finish() {
            Waiter::from_word(joiner).ready();
        }
        // If the handle is gone, this drops the packet.
        self.packet.release()
    }
}

impl<F, T> Work<F, T> {
    /// Takes the function. Before it runs, lets `std::thread::current().name()` and panic messages know the
    /// goroutine's name. Not in a shared-TLS goroutine, whose std `Thread` is that of its M. (A function of
    /// its own, because the frame of `run` stays on the goroutine's stack.)
    fn take(&mut self) -> Option<F> {
        if let Some(name) = &self.packet.info.name
            && current().is_some_and(|g| g.tp.get() != 0)
        {
            tls::thread_name::set(name);
        }
        self.f.take()
    }
}

/// Starts `f` as a goroutine.
///
/// # Safety
/// As for `launch`: what `f` and `T` borrow outlives the goroutine and the packet.
pub(super) unsafe fn start<'f, F, T>(
    spec: &Spec,
    info: Info,
    scope: Option<Arc<ScopeData>>,
    f: F,
) -> io::Result<JoinInner<T>>
where
    F: FnOnce() -> T + 'f,
    T: 'f,
{
    // Move a large closure to the heap first, and call it there: each copy on the way would take its size
    // from the stacks of both goroutines.
    if size_of::<Work<F, T>>() > INLINE_BODY || align_of::<F>() > INLINE_ALIGN {
        let f: Box<dyn FnOnce() -> T + 'f> = Box::new(f);
        // SAFETY: the caller's promise is passed on.
        return unsafe { start_small(spec, info, scope, f) };
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { start_small(spec, info, scope, f) }
}

unsafe fn start_small<F, T>(
    spec: &Spec,
    info: Info,
    scope: Option<Arc<ScopeData>>,
    f: F,
) -> io::Result<JoinInner<T>>
where
    F: FnOnce() -> T,
{
    boot::ensure();
    let (packet, own) = Shared::new_pair(Packet {
        info,
        id: AtomicU64::new(0),
        join: JoinWord::new(),
        scope,
        result: ResultPlace::new(),
    });
    if let Some(scope) = &packet.scope {
        scope.one_started();
    }
    packet.result.clear();
    let info: *const Info = &packet.info;
    let work = Work { f: Some(f), packet: own };
    // SAFETY: the caller promises the lifetimes. The packet, and with it the info, lives at least until
    // `finish`, because `Work` holds a reference to it.
    let id = unsafe { spawn::launch(spec, info, work) }?;
    packet.id.store(id, Ordering::Relaxed);
    Ok(JoinInner { packet })
}

/// The joiner's side, for [`JoinHandle`] and `ScopedJoinHandle`.
pub(super) struct JoinInner<T> {
    packet: Shared<Packet<T>>,
}

impl<T> JoinInner<T> {
    pub(super) fn join(self) -> Outcome<T> {
        let waiter = Waiter::current();
        if !self.packet.join.is_done()
            && (self.packet.join.wait(waiter.to_word()) || self.wait_instead(waiter.to_word()))
        {
            // From the address of the info, reports find the goroutine that we wait for.
            park(WaitReason::Join, std::ptr::from_ref(&self.packet.info) as usize);
        }
        self.take()
    }

    /// Registers the joiner in place of an earlier poll. Returns false if the goroutine is done: then nobody
    /// waits.
    fn wait_instead(&self, joiner: usize) -> bool {
        let Ok(before) = self.packet.join.replace(joiner) else { return false };
        if let Some(before) = before {
            // SAFETY: `replace` took it out of the word, so nobody will ready it.
            unsafe { Waiter::from_word(before).retract() };
        }
        true
    }

    /// Like [`join`](JoinInner::join), for a future.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        if !self.packet.join.is_done() {
            let polled = Polled::new(context.waker());
            if self.wait_instead(polled.waiter().to_word()) {
                return Poll::Pending;
            }
            // SAFETY: the waiter was not registered.
            unsafe { polled.retract() };
        }
        Poll::Ready(self.take())
    }

    /// The result of a goroutine that has finished.
    fn take(&self) -> Outcome<T> {
        // SAFETY: the goroutine has finished, so the result is stored, and only the joiner accesses it.
        match unsafe { self.packet.result.take() } {
            Some(result) => result,
            None => panic!("a JoinHandle was polled or joined again after it had given its result"),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.packet.join.is_done()
    }

    pub(super) fn goroutine(&self) -> Goroutine {
        Goroutine::new(self.packet.id.load(Ordering::Relaxed), self.packet.info.name.clone())
    }
}

/// Owns the result of a goroutine, as `std::thread::JoinHandle` owns that of a thread. Dropping the handle
/// detaches the goroutine.
pub struct JoinHandle<T>(pub(super) JoinInner<T>);

impl<T> JoinHandle<T> {
    /// Waits for the goroutine to end and returns its result, or the payload of its panic. A caller that is a
    /// goroutine parks; an OS thread blocks.
    ///
    /// When this returns, the destructors of all the goroutine's thread-locals have run.
    ///
    /// # Errors
    /// If the goroutine panicked: the payload.
    ///
    /// ```
    /// let failed = gort::spawn(|| if true { panic!("no") }).join();
    /// assert_eq!(*failed.unwrap_err().downcast::<&str>().unwrap(), "no");
    /// ```
    pub fn join(self) -> Result<T, Box<dyn Any + Send + 'static>> {
        self.0.join()
    }

    /// Whether [`join`](JoinHandle::join) would return at once.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// The goroutine's id: unique in this process, never reused.
    pub fn id(&self) -> u64 {
        self.goroutine().id()
    }

    /// The goroutine's id and name.
    pub fn goroutine(&self) -> Goroutine {
        self.0.goroutine()
    }
}

/// Waits for the goroutine as [`join`](JoinHandle::join) does. Polling or joining the handle again after it
/// has returned the result panics.
///
/// ```
/// let handle = gort::spawn(|| 5);
/// assert_eq!(gort::future::block_on(async { handle.await.unwrap() + 1 }), 6);
/// ```
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Box<dyn Any + Send + 'static>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("goroutine", &self.goroutine()).finish_non_exhaustive()
    }
}
