//! A fork: the second half of a `join`, in the frame of the call. `mod.rs` has the states and Y1 to Y3.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::goroutine::join::Outcome;
use crate::goroutine::join_word::JoinWord;
use crate::goroutine::labels::{Labels, with_exactly};
use crate::sched::account::labels::Lent;
use crate::sched::park::limit::{self, Handed};
use crate::sched::park::park_ready::park;
use crate::sched::queue::fork_table::Fork;
use crate::sched::types::current::current;
use crate::sched::types::g::{G, Info};
use crate::sched::types::waiter::Waiter;
use crate::sched::word::status::WaitReason;

/// What all jobs have, whatever their function: what a [`Fork`] pointer leads to.
struct Head {
    /// Runs the job.
    run: unsafe fn(*const Head),
    /// Where the helper's end and the forking goroutine meet.
    word: JoinWord,
    /// The helper that has stolen it, for reports.
    helper: AtomicPtr<Info>,
    /// The labels of the forking goroutine. It keeps them, or puts them aside, until its `join` returns.
    labels: Lent,
    /// The limit of the forking goroutine; likewise.
    limit: Handed,
    /// The test that the forking goroutine belongs to (`runtime/deny_leaks.rs`).
    test: u8,
    /// The call of `join`.
    site: &'static Location<'static>,
}

#[repr(C)]
pub(super) struct Job<B, RB> {
    head: Head,
    function: UnsafeCell<MaybeUninit<B>>,
    result: UnsafeCell<MaybeUninit<Outcome<RB>>>,
}

impl<B: FnOnce() -> RB, RB> Job<B, RB> {
    /// `info`: of `g`, the calling goroutine.
    #[inline(always)]
    pub(super) fn new(function: B, g: &G, info: &Info, site: &'static Location<'static>) -> Job<B, RB> {
        Job {
            head: Head {
                run: Self::run,
                word: JoinWord::new(),
                helper: AtomicPtr::new(ptr::null_mut()),
                labels: info.account.labels.lend(),
                limit: limit::hand_on(info),
                test: g.test.get(),
                site,
            },
            function: UnsafeCell::new(MaybeUninit::new(function)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// The address under which the deque knows it.
    #[inline(always)]
    pub(super) fn as_fork(&self) -> *mut Fork {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Moves the function out.
    ///
    /// # Safety
    /// The caller owns the job, and calls this once.
    #[inline(always)]
    pub(super) unsafe fn take_function(&self) -> B {
        // SAFETY: the caller's promise.
        unsafe { (*self.function.get()).assume_init_read() }
    }

    /// Waits for the helper that has stolen the job.
    pub(super) fn wait(&self, g: &'static G) -> Outcome<RB> {
        let word = &self.head.word;
        if !word.is_done() && word.wait(Waiter::of(g).to_word()) {
            // From the address of its info, reports find the helper.
            park(WaitReason::Join, self.head.helper.load(Ordering::Relaxed) as usize);
        }
        // SAFETY: the helper has written the result, and will not access the job again (Y2).
        unsafe { (*self.result.get()).assume_init_read() }
    }

    /// # Safety
    /// As [`run`].
    unsafe fn run(head: *const Head) {
        let job = head.cast::<Self>();
        // SAFETY: the job is stolen and ours, and its frame stays until `finish` (Y1).
        let joiner = unsafe {
            let function = (*job).take_function();
            let labels = Labels((*head).labels.get());
            let function = || limit::adopt((*head).limit, function);
            let outcome = catch_unwind(AssertUnwindSafe(|| match labels.is_empty() {
                true => function(),
                false => with_exactly(&labels, function),
            }));
            drop(labels);
            (*(*job).result.get()).write(outcome);
            (*head).word.finish()
        };
        // Y2: from here on the job may be gone.
        if let Some(joiner) = joiner {
            Waiter::from_word(joiner).ready();
        }
    }
}

/// Runs a job in the calling helper.
///
/// # Safety
/// The caller has stolen the fork, just now.
pub(super) unsafe fn run(fork: *mut Fork) {
    let head = fork.cast_const().cast::<Head>();
    // SAFETY: the caller's promise; `join` pushes only addresses of jobs, whose head is their first field.
    unsafe {
        if let Some(g) = current() {
            g.site.set(Some((*head).site));
            g.test.set((*head).test);
            (*head).helper.store(g.info.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        ((*head).run)(head);
    }
    // The helper itself belongs to no test.
    if let Some(g) = current() {
        g.test.set(0);
    }
}
