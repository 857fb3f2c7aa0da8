//! A Waiter: the goroutine, foreign thread or callback that a wake-up is meant for. It is one word, so that
//! every queue, timer and descriptor can hold it.
//!
//! Waking it is in `idle/wake_waiter.rs` (inside the runtime) and `park/park_ready.rs` (anywhere).

use super::current::current;
use super::foreign_thread::{self, Foreign};
use super::g::G;
use crate::base::note::Note;
use crate::base::prefetch;
use crate::sched::word::future_word::FutureWord;

/// A pointer with tags.
///
/// | tags   | pointer                                                                                     |
/// |--------|---------------------------------------------------------------------------------------------|
/// | none   | G: a parked goroutine                                                                       |
/// | NOTE   | the record of a foreign thread                                                              |
/// | FUTURE | (with or without NOTE) the same, but it polls futures: see `word/future_word.rs`            |
/// | HOOK   | a [`Hook`], whose functions are called                                                      |
///
/// Bit 0 of a goroutine's Waiter is 0; the timers rely on that. Bit 1 of every Waiter is 0; the netpoller's
/// words rely on that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter(usize);

const NOTE: usize = 1;
const FUTURE: usize = 4;
const HOOK: usize = 8;
const TAGS: usize = NOTE | FUTURE | HOOK;

const _: () = assert!(align_of::<G>() > TAGS && align_of::<Foreign>() > TAGS && align_of::<Hook>() > TAGS);

/// A callback: the first field of a structure whose wake-up runs code instead of resuming a goroutine or
/// thread. The alignment leaves the low bits of its address free for the tags.
#[repr(C, align(32))]
pub(crate) struct Hook {
    /// Called with the Hook's address when code outside of the runtime wakes it.
    pub(crate) ready: unsafe fn(*const Hook),
    /// Called when code inside the runtime wakes it, under the lock of a timer heap: it must neither block
    /// nor allocate. It returns the Waiter to wake next, if any.
    pub(crate) ready_inside: unsafe fn(*const Hook) -> Option<Waiter>,
    /// Called when the Waiter was withdrawn and will not be woken.
    pub(crate) retract: unsafe fn(*const Hook),
}

/// What a Waiter stands for.
pub(crate) enum Target {
    /// A goroutine, to be made runnable.
    Goroutine(&'static G),
    /// A foreign thread.
    Thread(&'static Note),
    /// A goroutine or thread that polls futures: notify the word, and wake the Waiter if the word says so.
    Poller(&'static FutureWord, Waiter),
    Hook(*const Hook),
}

impl Waiter {
    /// The calling goroutine or thread. Stays valid for its whole life.
    #[inline]
    pub(crate) fn current() -> Waiter {
        match current() {
            Some(g) => Waiter::of(g),
            None => Waiter(std::ptr::from_ref(foreign_thread::own()) as usize | NOTE),
        }
    }

    /// A goroutine.
    #[inline]
    pub(crate) fn of(g: &'static G) -> Waiter {
        Waiter(std::ptr::from_ref(g) as usize)
    }

    /// A Waiter that tells this goroutine or thread to poll its futures again. Any thread may wake it, at any
    /// time and any number of times.
    pub(crate) fn as_poller(self) -> Waiter {
        Waiter(self.0 | FUTURE)
    }

    /// A Waiter that calls the functions of a Hook.
    ///
    /// # Safety
    /// The Hook stays alive until it is woken or retracted.
    pub(crate) unsafe fn from_hook(hook: *const Hook) -> Waiter {
        Waiter(hook as usize | HOOK)
    }

    /// Prefetches its first cache line, for a Waiter that will be woken soon.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch::line(self.0 & !TAGS);
    }

    /// The goroutine, if this is a plain goroutine, which is woken by making it runnable.
    #[inline]
    pub(crate) fn goroutine(self) -> Option<&'static G> {
        // SAFETY: a Waiter without tags was made from a G, and Gs are never unmapped.
        (self.0 & TAGS == 0).then(|| unsafe { &*(self.0 as *const G) })
    }

    #[inline]
    pub(crate) fn target(self) -> Target {
        if let Some(g) = self.goroutine() {
            return Target::Goroutine(g);
        }
        let address = self.0 & !TAGS;
        if self.0 & HOOK != 0 {
            Target::Hook(address as *const Hook)
        } else if self.0 & FUTURE != 0 {
            Target::Poller(self.future(), Waiter(self.0 & !FUTURE))
        } else {
            // SAFETY: such a Waiter was made from the record of a foreign thread; those are never freed.
            Target::Thread(unsafe { &(*(address as *const Foreign)).note })
        }
    }

    /// The word through which futures wake this goroutine or thread. Must not be called on a Hook.
    pub(crate) fn future(self) -> &'static FutureWord {
        let address = self.0 & !TAGS;
        // SAFETY: made from a G or from the record of a foreign thread; neither is ever freed.
        unsafe {
            if self.0 & NOTE == 0 {
                &(*(address as *const G)).future
            } else {
                &(*(address as *const Foreign)).future
            }
        }
    }

    /// Says that the Waiter was withdrawn: nobody will wake it.
    ///
    /// # Safety
    /// Nobody wakes the Waiter afterwards, and this is called once.
    pub(crate) unsafe fn retract(self) {
        if let Target::Hook(hook) = self.target() {
            // SAFETY: the promise of `from_hook`, and the caller's.
            unsafe { ((*hook).retract)(hook) }
        }
    }

    /// As a number, for packed words: never 0 or 1.
    #[inline]
    pub(crate) fn to_word(self) -> usize {
        self.0
    }

    /// The Waiter of a number that `to_word` returned.
    #[inline]
    pub(crate) fn from_word(word: usize) -> Waiter {
        Waiter(word)
    }
}
