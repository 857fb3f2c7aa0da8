//! Safety: why [`spawn`](crate::spawn) is a safe function, what that relies on, and how to audit it.
//!
//! # The problem
//!
//! A goroutine may stop on one OS thread and continue on another. Rust, LLVM, std and libc all assume
//! that running code stays on its thread:
//!
//! - `thread_local!` hands out references. A goroutine may hold such a reference across a wait (inside
//!   `LocalKey::with`). After a move, the reference would point into the memory of another thread,
//!   which uses that memory at the same time.
//! - The compiler may compute the address of a thread-local once per function and use it again after a
//!   call.
//! - std counts panics in a thread-local. After a move, `catch_unwind` would find the wrong count, and
//!   so would the guard of every `Mutex` with poisoning.
//! - libc keeps errno, the locale, the resolver's state, `pthread_self` and the id by which locks recognise
//!   their owner in thread-locals.
//! - `!Send` types (`Rc`, a `MutexGuard`) may rely on thread-locals for their soundness.
//!
//! A runtime that moves stackful coroutines between threads and ignores this has to declare `spawn`
//! unsafe. Its users then make a promise that nobody can check, because any library, std included, may
//! use a thread-local anywhere.
//!
//! # The solution
//!
//! **A goroutine owns a complete block of thread-local storage, and the thread pointer moves with it.**
//! On x86-64, the thread pointer is the FS base, and all thread-locals are addressed relative to it.
//! After a switch, the same code therefore finds the same variables at the same addresses, no matter
//! which thread it runs on. To Rust and C, the goroutine *is* a thread that the kernel moved from one
//! CPU to another. Nothing that is sound for threads becomes unsound:
//!
//! - A goroutine's code runs on one thread at a time. Every move is a release by the old thread and an
//!   acquire by the new one (through queues and park words). So two threads never use the goroutine's
//!   `!Send` values at once, and what the goroutine wrote before the move is visible to it afterwards.
//! - `spawn` requires `Send` for what goes in and what comes out, as `std::thread::spawn` does.
//! - A goroutine that a signal has stopped may go on with another thread, too. It takes along all that
//!   belongs to a thread in its own eyes: its registers, its thread-locals and its id in locks. It is never
//!   moved while it runs code of libc or the loader, where data of the OS thread may be half changed, nor in
//!   a signal handler or on another stack: there it keeps its thread until it goes on (K1 to K4 in
//!   `src/sched/monitor/preempt.rs`; see [`preemption`](super::preemption)).
//! - Stacks end in guard pages.
//!
//! ```
//! use std::cell::RefCell;
//! thread_local!(static NAMES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });
//!
//! let handles: Vec<_> = (0..100)
//!     .map(|n| {
//!         gort::spawn(move || {
//!             NAMES.with_borrow_mut(|names| {
//!                 names.push(n.to_string());
//!                 gort::yield_now(); // this goroutine may move while it holds the borrow
//!                 names.push(n.to_string());
//!                 names.len()
//!             })
//!         })
//!     })
//!     .collect();
//! assert!(handles.into_iter().all(|handle| handle.join().unwrap() == 2));
//! ```
//!
//! # What private thread-locals rely on
//!
//! They rely on glibc 2.34 or newer, dynamically linked: on its dynamic loader and its libc.
//!
//! | what gort needs | where it comes from |
//! | --- | --- |
//! | to create and free a block | `_dl_allocate_tls`, `_dl_deallocate_tls`, exported by the loader for libc |
//! | to run destructors of thread-locals | `__call_tls_dtors`, exported |
//! | size and alignment of static thread-locals | `_dl_get_tls_static_info`, exported; program headers (1) |
//! | size of `struct pthread`, some of its offsets (2) | the symbols `_thread_db_*`, meant for debuggers |
//! | other offsets (3) | a search at start-up, in a probe thread whose stack is known |
//! | the head of the thread control block (4) | constants (`src/tls/block.rs`) from the x86-64 ABI |
//! | to write the thread pointer | `wrfsbase` if the kernel allows it, otherwise `arch_prctl` |
//!
//! 1. The program headers of the loaded modules.
//! 2. The offsets of the thread id, the thread list and the pthread keys.
//! 3. The offsets of the stack bounds, the robust list, the resolver state and errno.
//! 4. Self pointers, thread vector, the flag "there are threads", stack canary, pointer guard,
//!    features. glibc and every compiler for x86-64 share this part of the ABI. These are the only
//!    constants.
//!
//! If one of the first five is missing, the start-up check fails. The check creates a block, runs code
//! on it, and compares what that code sees with what it must see: initial values, its own
//! `pthread_self`, its own std thread id, the right stack bounds, destructors that ran, and initial
//! values again after the block was reused. If anything differs, `Builder::spawn` returns an error that
//! names it, and `gort doctor` shows it. gort guesses nothing.
//!
//! On other systems gort does not compile; the error message says what it needs.
//!
//! # What is not covered
//!
//! 1. **State that the kernel keeps per thread** is not memory, and does not move with the goroutine. A
//!    goroutine that changes its signal mask, scheduling policy, niceness or affinity by libc's functions is
//!    bound to its thread by that ([`preemption`](super::preemption)). Other state (`gettid`, namespaces,
//!    capabilities), and whatever is changed by a raw system call, belongs to the OS thread. If the *memory
//!    safety* of a library depends on it, use the library from a goroutine that is bound to its thread
//!    ([`lock_os_thread`](crate::runtime::lock_os_thread)). A goroutine must not lock a mutex with
//!    priority inheritance that an ordinary thread has made: the kernel has to know its owner, and other
//!    threads would wait for it forever.
//! 2. **Libraries loaded by `dlopen` that claim *static* thread-locals** (the initial-exec model, used
//!    by some OpenGL and OpenMP libraries). gort reserves 256 bytes for them in each block. Goroutines
//!    that existed before the library was loaded see zeroes in those variables instead of the initial
//!    values. If the reserve is too small, `spawn` fails from then on. Link such libraries, or load
//!    them before the first goroutine starts. Ordinary (dynamic) thread-locals of loaded libraries need
//!    nothing.
//! 3. **Code that walks glibc's own list of threads** (a debugger, a few garbage collectors) sees
//!    neither goroutines nor their stacks. Conservative garbage collectors must be told about the
//!    stacks. Code that keeps its own list of threads, and compares `pthread_self()` with what
//!    `pthread_create` returned, works.
//! 4. **[`Builder::spawn_shared_tls`](crate::Builder::spawn_shared_tls)**, which is `unsafe`, has none
//!    of this protection.
//! 5. **glibc's own signal handlers** find their thread through the thread pointer. gort gives the
//!    handler for `setuid` and similar calls the right one (`src/sched/block/setxid.rs`). It does not
//!    do so for the other handler, for `pthread_cancel`: do not cancel the runtime's threads.
//! 6. **Your signal handlers** run on the stack and with the thread-locals of the interrupted
//!    goroutine, as they would with those of a thread. The usual rules for signal handlers apply.
//! 7. **The floating-point mode** (rounding, flush-to-zero) belongs to the OS thread. Code that changes
//!    it must restore it before it waits, or be bound to its thread.
//! 8. **The CPU clock of a thread** (`CLOCK_THREAD_CPUTIME_ID`, `RUSAGE_THREAD`) counts what all goroutines
//!    on that thread have used. A goroutine that has waited, or was preempted, may read another thread's.
//! 9. **`fork`** copies only the calling thread. The child may do what the child of any multi-threaded
//!    process may do, above all `exec`. But it lacks the runtime's threads: starting goroutines or
//!    waiting for I/O panics with a message that says so, and any other wait lasts forever. A daemon
//!    must fork before it starts the runtime.
//!
//! # The runtime's own discipline
//!
//! When one goroutine switches to the next, the scheduler runs for a moment while the thread pointer is
//! already the next goroutine's, or still the last one's. During that moment it must not touch any
//! thread-local: no allocation, no errno, no std function that might use one. The fast path
//! (`src/sched/run/schedule.rs`, `next_local` in `find_runnable.rs`) follows this rule; the slow path
//! begins by restoring the thread's own pointer. The runtime finds the current goroutine through a
//! single thread-local. One instruction reads it, relative to the thread pointer, so the compiler
//! cannot keep its address across a switch.
//!
//! # How to audit
//!
//! - `src/tls/` contains everything about blocks: `layout.rs` (finds the layout), `block.rs` (creates,
//!   refreshes and ends blocks), `loaded.rs` (libraries that are loaded later), `pristine.rs` (skips work
//!   when the goroutine touched no thread-local), `malloc_cache.rs` (malloc's cache, which stays with the OS
//!   thread), `thread_name.rs` and `output_capture.rs` (two things that std keeps there), `check.rs` (the
//!   start-up check).
//! - `grep -rn 'use_tls_of\|use_own_tls\|switch_to(\|set_thread_pointer' src` lists every place where
//!   the thread pointer changes.
//! - `src/arch/x86_64/` has the switch itself, a dozen instructions, the write to the thread pointer, and
//!   the frame of a signal, which holds an interrupted goroutine's registers.
//! - Every `unsafe` block has a comment that says why it is sound (`clippy::undocumented_unsafe_blocks`
//!   is denied), and `src/sched/types/g.rs` numbers the ownership rules of a goroutine.
//! - `tests/thread/` (`tls`, `libc`, `like_a_thread`, `dlopen`) and `tests/goroutine/panics.rs`
//!   hold borrows, errno, locales, keys, panics and destructors across moves. `conformance/` runs
//!   unmodified test suites inside goroutines: std's (threads, locks, sockets), crossbeam's channels and
//!   utils, and those of parking_lot, flume, ureq and tiny_http.
//! - `loom/` contains models of the lock-free parts. They compile the very same source files.
//! - valgrind works. `--max-stackframe=50000` helps it to tell a switch of stacks from a large frame.
//! - AddressSanitizer and ThreadSanitizer work (`-Zsanitizer=address`, `-Zsanitizer=thread`): the runtime
//!   finds them in the program and tells them about each switch. Under AddressSanitizer set
//!   `ASAN_OPTIONS=detect_leaks=0`, because its search for leaks does not see the stacks of goroutines that
//!   wait. ThreadSanitizer does not know how the scheduler's own code, and std if it is not built with
//!   `-Zbuild-std`, order their steps: pass it the file of suppressions
//!   `TSAN_OPTIONS=suppressions=tests/sanitizers/tsan.supp`. It needs mappings for each goroutine, so some
//!   20,000 at once are possible (`vm.max_map_count`).
