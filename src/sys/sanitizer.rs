//! AddressSanitizer and ThreadSanitizer: tells them which stack a thread runs on.
//!
//! Their runtimes are linked into a program that was built with `-Zsanitizer`. gort refers to their functions
//! by weak symbols, which are null in any other program. [`init`] looks once, at start-up. Without a
//! sanitizer, all that is left is one branch in each switch ([`is_active`]).
//!
//! - Z1. What a sanitizer knows about the running thread follows the OS thread. It is reached through words
//!   of thread-local storage, and each change of the thread pointer copies them
//!   (`arch::carry_with_thread_pointer`). They are the value of ASan's pthread key (its `AsanThread`), its
//!   pointer to the fake stack, and TSan's pointer to the running fiber ([`words_of_thread`] finds them).
//! - Z2. What it knows about a stack follows the goroutine. Each goroutine and each g0 has a [`Fiber`], and
//!   [`leave`], [`enter`] and [`has_left`] are called for each change of stacks, on the M that changes, after
//!   the thread pointer has moved and while no other thread can resume either side.
//! - Z3. A goroutine that ends leaves frames that never return. `leave` clears their shadow, so that the
//!   next goroutine on the stack finds it as new.
//! - Z4. ASan keeps the locals of instrumented functions in a *fake stack*, in order to find uses after
//!   return. That of an ended goroutine holds the very frames that are switching away. So it is destroyed by
//!   the next switch on the same thread.

use std::arch::global_asm;
use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The functions of the sanitizers' interfaces that gort needs; `None` without that sanitizer.
#[repr(C)]
struct Functions {
    start_switch: Option<unsafe extern "C" fn(*mut *mut c_void, *const c_void, usize)>,
    finish_switch: Option<unsafe extern "C" fn(*mut c_void, *mut *const c_void, *mut usize)>,
    unpoison: Option<unsafe extern "C" fn(*const c_void, usize)>,
    fake_stack: Option<unsafe extern "C" fn() -> *mut c_void>,
    current_fiber: Option<unsafe extern "C" fn() -> *mut c_void>,
    create_fiber: Option<unsafe extern "C" fn(c_uint) -> *mut c_void>,
    switch_to_fiber: Option<unsafe extern "C" fn(*mut c_void, c_uint)>,
    destroy_fiber: Option<unsafe extern "C" fn(*mut c_void)>,
}

// Weak symbols: stable Rust has no other way to refer to a function that may be missing at link time. The
// runtimes are linked statically and not exported, so dlsym does not find them.
global_asm!(
    ".pushsection .data.rel.ro.gort_sanitizers,\"aw\",@progbits",
    ".balign 8",
    ".globl gort_sanitizers",
    ".hidden gort_sanitizers",
    ".type gort_sanitizers,@object",
    "gort_sanitizers:",
    ".irp name, __sanitizer_start_switch_fiber, __sanitizer_finish_switch_fiber, \
     __asan_unpoison_memory_region, __asan_get_current_fake_stack, __tsan_get_current_fiber, \
     __tsan_create_fiber, __tsan_switch_to_fiber, __tsan_destroy_fiber",
    ".weak \\name",
    ".quad \\name",
    ".endr",
    ".size gort_sanitizers, . - gort_sanitizers",
    ".popsection",
);

unsafe extern "C" {
    static gort_sanitizers: Functions;
}

fn functions() -> &'static Functions {
    // SAFETY: the table above, which the loader has filled in.
    unsafe { &gort_sanitizers }
}

static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Called once, before the first thread-local block is laid out.
pub(crate) fn init() {
    ACTIVE.store(has_asan() || has_tsan(), Ordering::Relaxed);
}

/// Whether a sanitizer has to be told about switches.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Whether AddressSanitizer is in this program.
pub(crate) fn has_asan() -> bool {
    let all = functions();
    all.start_switch.is_some() && all.finish_switch.is_some() && all.unpoison.is_some()
}

/// Whether ThreadSanitizer is in this program.
pub(crate) fn has_tsan() -> bool {
    let all = functions();
    all.current_fiber.is_some() && all.create_fiber.is_some() && all.switch_to_fiber.is_some()
}

/// What the sanitizers know about one stack. All zeroes is that of a goroutine that has not run yet.
#[repr(C)]
pub(crate) struct Fiber {
    /// The addresses of the stack.
    bottom: Cell<*const c_void>,
    size: Cell<usize>,
    /// ASan's fake stack while another stack runs. For g0, see `ended`.
    fake_stack: Cell<*mut c_void>,
    /// TSan's fiber.
    tsan: Cell<*mut c_void>,
    /// On g0: the fake stack of a goroutine that ended on this thread (Z4).
    ended: Cell<*mut c_void>,
}

impl Fiber {
    pub(crate) const fn new() -> Fiber {
        Fiber {
            bottom: Cell::new(ptr::null()),
            size: Cell::new(0),
            fake_stack: Cell::new(ptr::null_mut()),
            tsan: Cell::new(ptr::null_mut()),
            ended: Cell::new(ptr::null_mut()),
        }
    }

    /// Called by a thread whose own stack this is to describe. ASan names its addresses at the first switch.
    pub(crate) fn adopt_thread(&self) {
        if has_tsan()
            && let Some(current) = functions().current_fiber
        {
            // SAFETY: no preconditions.
            self.tsan.set(unsafe { current() });
        }
    }

    /// Sets the addresses of the stack.
    pub(crate) fn set_stack(&self, stack: Range<usize>) {
        self.bottom.set(stack.start as *const c_void);
        self.size.set(stack.len());
    }

    fn top(&self) -> usize {
        self.bottom.get() as usize + self.size.get()
    }
}

/// How a stack is left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// The code on it goes on later.
    Suspended,
    /// It has ended; its frames lie above this stack pointer.
    Ended(usize),
}

/// Tells the sanitizers that the thread with the own stack `g0` leaves `from` and goes on with `to`. Returns
/// TSan's fiber for `to`, which [`enter`] takes next.
///
/// # Safety
/// See Z2. If `from` has ended, nothing on it is used after the switch.
#[must_use]
pub(crate) unsafe fn leave(g0: &Fiber, from: &Fiber, to: &Fiber, leaves: Leaves) -> *mut c_void {
    if has_asan() {
        // SAFETY: the caller's promise.
        unsafe { asan_switch(g0, from, to, leaves) };
    }
    tsan_fiber(to)
}

/// Enters the fiber that [`leave`] returned. It is inlined where the stacks are switched: TSan notes each
/// function's entry and exit with the fiber that runs, so a function must return on the fiber that called it.
///
/// # Safety
/// The switch of stacks follows, or has just happened.
#[inline(always)]
pub(crate) unsafe fn enter(fiber: *mut c_void) {
    if let Some(enter) = functions().switch_to_fiber {
        // SAFETY: the fiber of a stack that this thread owns.
        unsafe { enter(fiber, IN_ORDER) };
    }
}

/// Called after [`enter`] with what [`leave`] was called with.
///
/// # Safety
/// As for `leave`.
pub(crate) unsafe fn has_left(from: &Fiber, leaves: Leaves) {
    if let Leaves::Ended(_) = leaves
        && let Some(destroy) = functions().destroy_fiber
    {
        // SAFETY: the fiber does not run, and will not run again.
        unsafe { destroy(from.tsan.replace(ptr::null_mut())) };
    }
}

unsafe fn asan_switch(g0: &Fiber, from: &Fiber, to: &Fiber, leaves: Leaves) {
    let all = functions();
    let (Some(start), Some(finish), Some(unpoison)) = (all.start_switch, all.finish_switch, all.unpoison)
    else {
        return;
    };
    let no_stack = ptr::null::<c_void>();
    // SAFETY: each start has its finish, on one thread (Z1); what is saved is what an earlier start stored.
    unsafe {
        let dead = g0.ended.replace(ptr::null_mut());
        start(from.fake_stack.as_ptr(), no_stack, 0);
        finish(dead, from.bottom.as_ptr(), from.size.as_ptr());
        // Without a place to save it, the fake stack is destroyed.
        start(ptr::null_mut(), to.bottom.get(), to.size.get());
        finish(to.fake_stack.get(), ptr::null_mut(), ptr::null_mut());
        if let Leaves::Ended(sp) = leaves {
            g0.ended.set(from.fake_stack.replace(ptr::null_mut()));
            unpoison(sp as *const c_void, from.top() - sp);
        }
    }
}

/// A flag of TSan, the default: what the thread did before happens before what it does on the next stack. The
/// cells of an M and of a P pass from goroutine to goroutine in this way.
const IN_ORDER: c_uint = 0;

/// TSan's fiber for that stack.
fn tsan_fiber(stack: &Fiber) -> *mut c_void {
    if stack.tsan.get().is_null()
        && let Some(create) = functions().create_fiber
    {
        // SAFETY: no preconditions.
        stack.tsan.set(unsafe { create(IN_ORDER) });
    }
    stack.tsan.get()
}

/// The words of TLS that must follow the OS thread (Z1).
#[derive(Clone, Default)]
pub(crate) struct WordsOfThread {
    /// Their offsets from the thread pointer.
    pub(crate) offsets: Vec<isize>,
    /// The pthread key that some of them belong to.
    pub(crate) key: Option<usize>,
}

/// Finds these words. The calling thread must be a new one, which has run nothing else. `tp` is its thread
/// pointer, and its static TLS has at most `below` bytes. `keys` are the addresses of the sequence number and
/// the value of each of its pthread keys.
pub(crate) fn words_of_thread(
    tp: usize,
    below: usize,
    keys: impl Iterator<Item = [usize; 2]>,
) -> WordsOfThread {
    let (mut addresses, mut key) = (Vec::new(), None);
    if has_asan() {
        // ASan sets its key before the thread's first function runs.
        // SAFETY: the caller's addresses.
        let is_set = |&(_, [_, value]): &(_, [usize; 2])| unsafe { *(value as *const usize) } != 0;
        if let Some((number, words)) = keys.enumerate().find(is_set) {
            key = Some(number);
            addresses.extend(words);
        }
        addresses.extend(fake_stack_word(tp, below));
    }
    if has_tsan() {
        addresses.extend(tsan_word(tp));
    }
    let offsets = addresses.into_iter().map(|address: usize| address.wrapping_sub(tp) as isize).collect();
    WordsOfThread { offsets, key }
}

/// The addresses in `range` of words that hold `value`.
///
/// # Safety
/// The memory is readable.
unsafe fn words_with(range: Range<usize>, value: *mut c_void) -> Vec<usize> {
    range
        .step_by(size_of::<usize>())
        .filter(|&word| {
            // SAFETY: the caller's promise.
            unsafe { holds(word, value) }
        })
        .collect()
}

/// The one of these words that holds `value` now.
///
/// # Safety
/// The memory is readable.
unsafe fn only_one_with(mut words: Vec<usize>, value: *mut c_void) -> Option<usize> {
    // SAFETY: the caller's promise.
    words.retain(|&word| unsafe { holds(word, value) });
    if let [word] = words[..] { Some(word) } else { None }
}

unsafe fn holds(word: usize, value: *mut c_void) -> bool {
    // SAFETY: the caller's promise. Volatile, because the sanitizer changes the word behind our back.
    unsafe { (word as *const *mut c_void).read_volatile() == value }
}

/// The address of the word of static TLS with ASan's fake stack; `None` if ASan uses none.
fn fake_stack_word(tp: usize, below: usize) -> Option<usize> {
    let all = functions();
    let (start, finish) = (all.start_switch?, all.finish_switch?);
    // SAFETY: no preconditions.
    let own = unsafe { all.fake_stack?() };
    if own.is_null() {
        return None;
    }
    let (mut saved, mut bottom, mut size) = (ptr::null_mut(), ptr::null(), 0);
    // SAFETY: the memory below the thread pointer is static TLS, and then the thread's stack. The first pair
    // of calls leaves the fake stack, and learns the stack's addresses. The second one goes back.
    unsafe {
        let words = words_with(tp - below..tp, own);
        start(&raw mut saved, ptr::null(), 0);
        finish(ptr::null_mut(), &raw mut bottom, &raw mut size);
        let found = only_one_with(words, ptr::null_mut());
        start(ptr::null_mut(), bottom, size);
        finish(saved, ptr::null_mut(), ptr::null_mut());
        found
    }
}

/// The address of the word of static TLS that says which of TSan's fibers the calling thread runs.
fn tsan_word(tp: usize) -> Option<usize> {
    let all = functions();
    let (current, create) = (all.current_fiber?, all.create_fiber?);
    let (enter, destroy) = (all.switch_to_fiber?, all.destroy_fiber?);
    // SAFETY: the thread runs its own fiber, which lies in its static TLS and contains the word. It goes back
    // to it before this function returns.
    unsafe {
        let own = current();
        let other = create(IN_ORDER);
        let words = words_with(own as usize..tp, own);
        enter(other, IN_ORDER);
        let found = only_one_with(words, other);
        enter(own, IN_ORDER);
        destroy(other);
        found
    }
}
