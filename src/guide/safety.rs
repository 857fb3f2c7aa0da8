//! Safety: why [`spawn`](crate::spawn) is a safe function, what that relies on, and how to audit it.
//!
//! # The problem
//!
//! A goroutine stops on one OS thread and goes on on another. Rust, LLVM, std and libc all assume that code stays on its
//! thread:
//!
//! - `thread_local!` hands out references. A goroutine may hold one (inside `LocalKey::with`) across a wait; after a move it
//!   would point into another thread's memory, while that thread uses it too.
//! - The compiler may compute the address of a thread-local once in a function and use it again after a call.
//! - std counts panics in a thread-local; `catch_unwind` on another thread would find the wrong count. So do guards
//!   of every `Mutex` that poisons.
//! - libc keeps errno, the locale, malloc's cache, the resolver's state and `pthread_self` there.
//! - `!Send` types (`Rc`, a `MutexGuard`) may rely on thread-locals for their soundness.
//!
//! Runtimes that move stackful coroutines between threads without care for this have to declare `spawn` unsafe, and nobody
//! can check the promise that their users make: every library, std included, may use a thread-local anywhere.
//!
//! # The solution
//!
//! **A goroutine owns a complete block of thread-local storage, and the thread pointer moves with it.** On x86-64 that
//! pointer is the FS base: everything thread-local is addressed relative to it, so that after the switch the same code
//! finds the same variables at the same addresses, on whatever thread. To Rust and C the goroutine *is* a thread that the
//! kernel moved from one CPU to another. Nothing that is sound for threads becomes unsound:
//!
//! - Code of a goroutine runs on one thread at a time, and every move is a release by the old thread and an acquire by the
//!   new one (queues and park words). So `!Send` values inside it are never used by two threads at once, and what
//!   was written before the move is seen after it.
//! - `spawn` asks for `Send` of what goes in and comes out, as `std::thread::spawn` does.
//! - A goroutine that is stopped by a signal does not move at all ([`preemption`](super::preemption)).
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
//!                 gort::yield_now(); // others run here, and this one may move, with the borrow in its hand
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
//! On the dynamic loader and libc of glibc 2.34 or newer, dynamically linked:
//!
//! | what | from where | if it is missing |
//! | --- | --- | --- |
//! | making, freeing a block | `_dl_allocate_tls`, `_dl_deallocate_tls`, which the loader exports for libc | start-up check fails |
//! | destructors of thread-locals | `__call_tls_dtors`, exported | start-up check fails |
//! | size and alignment of static thread-locals | `_dl_get_tls_static_info`, exported, and the program headers of the loaded modules | start-up check fails |
//! | size of `struct pthread`; where thread id, thread list and pthread keys lie | the symbols `_thread_db_*`, which are there for debuggers | start-up check fails |
//! | where stack bounds, robust list, resolver state, errno lie | a probe thread on a stack of known place, searched at start-up | start-up check fails |
//! | the head of the thread control block: self pointers, thread vector, "there are threads", stack canary, pointer guard, features | the ABI that glibc and every compiler for x86-64 share; the only constants (`block.rs::tcb`) | – |
//! | writing the thread pointer | `wrfsbase` if the kernel allows it, else `arch_prctl` | – |
//!
//! At start-up a block is made, code is run on it, and what it sees is compared with what it must see: initial values,
//! its own `pthread_self`, its own thread id of std's, the right stack bounds, destructors that ran, and initial values again
//! after the block was used. If anything is not as expected, `Builder::spawn` returns an error that names it, and
//! `gort doctor` shows it. Nothing is guessed.
//!
//! On other systems gort does not compile, with a message that says what it needs.
//!
//! # What is not covered
//!
//! 1. **State that the kernel keeps for each thread** (signal mask, affinity, `gettid`): it is not memory, and not moved. A
//!    library whose *memory safety* depends on it must be used from a bound goroutine
//!    ([`lock_os_thread`](crate::runtime::lock_os_thread)). So must C's pthread mutexes of the recursive, error-checking,
//!    robust and priority-inheritance kinds, while they are held: they know their owner by the kernel's thread id.
//! 2. **Libraries loaded by `dlopen` that claim *static* thread-locals** (the initial-exec model: some OpenGL and OpenMP
//!    libraries). Room for 256 bytes is kept. Goroutines that existed before see zeroes in those variables instead of their
//!    initial values. If the room is not enough, `spawn` fails from then on. Link such libraries, or load them before the
//!    first goroutine starts. Ordinary (dynamic) thread-locals of loaded libraries need nothing.
//! 3. **Code that looks for its thread in lists of its own** by comparing `pthread_self()` with what `pthread_create`
//!    returned works; code that walks glibc's own list of threads (a debugger, a few garbage collectors) does not
//!    see goroutines, nor their stacks. Conservative garbage collectors must be told of the stacks.
//! 4. **[`Builder::spawn_shared_tls`](crate::Builder::spawn_shared_tls)**, which is `unsafe`, has none of this.
//! 5. **glibc's own handlers** find their thread by the thread pointer. The one for `setuid` and its kin is given the right one
//!    (`src/sched/setxid.rs`); the other, for `pthread_cancel`, is not: do not cancel the runtime's threads.
//! 6. **Signal handlers** of yours run on the stack and the thread-locals of the goroutine that was interrupted, as they run on
//!    a thread's. The same rules hold as always.
//! 7. **The floating-point mode** (rounding, flush-to-zero) belongs to the OS thread: code that changes it puts it back before
//!    it waits, or is bound to its thread.
//! 8. **`fork`** copies the calling thread only. The child may do what a child of any process with threads may do, above all
//!    `exec`; but the runtime's threads are missing there: to start goroutines or to wait for I/O is a panic that says so, and
//!    to wait for anything else is to wait for ever. A daemon forks first.
//!
//! # The runtime's own discipline
//!
//! Between two goroutines there is a moment at which the scheduler runs with a thread pointer that is already the next
//! goroutine's, or still the last one's. In it no thread-local may be touched: no allocation, no errno, no std that
//! might. The fast path (`src/sched/schedule.rs`, `find.rs::next_local`) is written so; the slow one begins by
//! restoring the thread's own pointer. The current goroutine is found through one thread-local, read by a function that is
//! never inlined, so that no address of it outlives a switch.
//!
//! # How to audit
//!
//! - `src/tls/` is all there is about blocks: `layout.rs` (finding), `block.rs` (making, refreshing, ending), `loaded.rs`
//!   (libraries that come later), `pristine.rs` (skipping work when nothing was touched), `check.rs` (the start-up check),
//!   `register.rs` (the pointer). About 1,200 lines.
//! - `grep -rn 'use_tls_of\|use_own_tls\|switch_to' src` lists every place where the pointer changes.
//! - `src/sched/context.rs` is the switch itself: a dozen instructions.
//! - Every `unsafe` block says why it is sound (`clippy::undocumented_unsafe_blocks` is denied), and `src/sched/g.rs` numbers
//!   the rules of who owns a goroutine.
//! - `tests/tls.rs`, `tests/libc.rs`, `tests/like_a_thread.rs`, `tests/dlopen.rs` and `tests/panics.rs` hold borrows, errno,
//!   locales, keys, panics and destructors across moves. `conformance/` runs the test suites of crossbeam-channel
//!   and of std's sockets, unmodified, inside goroutines.
//! - `loom/` has the models of the lock-free parts; they compile the very same files.
//! - valgrind works; `--max-stackframe=50000` lets it tell a switch of stacks from a large frame.
