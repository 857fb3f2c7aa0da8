//! A Waiter: a goroutine, a foreign thread or a piece of code that something wakes. It is one word, so that every queue,
//! timer and descriptor can hold it.
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
/// | HOOK   | a [`Hook`], whose functions are called                                                       |
///
/// Bit 0 of a goroutine's Waiter is 0, which the timers rely on; bit 1 is 0 in all, which the words of the poller rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter(usize);

const NOTE: usize = 1;
const FUTURE: usize = 4;
const HOOK: usize = 8;
const TAGS: usize = NOTE | FUTURE | HOOK;

const _: () = assert!(align_of::<G>() > TAGS && align_of::<Foreign>() > TAGS && align_of::<Hook>() > TAGS);

/// The beginning of something that does more than to run when it is woken. The alignment is that of the tags.
#[repr(C, align(32))]
pub(crate) struct Hook {
    /// Called when it is woken outside of the runtime, with the Hook's address.
    pub(crate) ready: unsafe fn(*const Hook),
    /// Called when it is woken inside the runtime, under the lock of a heap: it neither blocks nor allocates. It returns
    /// the next waiter to be woken.
    pub(crate) ready_inside: unsafe fn(*const Hook) -> Option<Waiter>,
    /// Called when the Waiter was taken back: it will not be woken.
    pub(crate) retract: unsafe fn(*const Hook),
}

/// What a Waiter stands for.
pub(crate) enum Target {
    /// A goroutine, to be made runnable.
    Goroutine(&'static G),
    /// A foreign thread.
    Thread(&'static Note),
    /// Somebody that polls futures: if the word says so, wake this.
    Poller(&'static FutureWord, Waiter),
    Hook(*const Hook),
}

impl Waiter {
    /// The caller itself. Stays valid for the whole life of the goroutine or thread.
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

    /// The same goroutine or thread, told to poll its futures again: it may then be woken any number of times, by anybody,
    /// at any time.
    pub(crate) fn as_poller(self) -> Waiter {
        Waiter(self.0 | FUTURE)
    }

    /// Calls the functions of a Hook.
    ///
    /// # Safety
    /// The Hook is there until it is woken or retracted.
    pub(crate) unsafe fn from_hook(hook: *const Hook) -> Waiter {
        Waiter(hook as usize | HOOK)
    }

    /// It will be woken soon.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch::line(self.0 & !TAGS);
    }

    /// The goroutine that is woken by making it runnable, if it is one.
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

    /// Where the futures of a goroutine or thread meet it. Not of a Hook.
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

    /// The Waiter was taken back: nobody will wake it.
    ///
    /// # Safety
    /// That is so, and this is called once.
    pub(crate) unsafe fn retract(self) {
        if let Target::Hook(hook) = self.target() {
            // SAFETY: the promise of `from_hook`, and the caller's.
            unsafe { ((*hook).retract)(hook) }
        }
    }

    /// As a number, for packed words: never 0 or 1, even for a goroutine.
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
