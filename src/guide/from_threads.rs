//! Coming from `std::thread`: what to replace, why, and what is different.
//!
//! Replace `std::thread::spawn` with `gort::spawn`. That is all you have to do; the rest of the program
//! can stay as it is. Where speed matters, use gort's channels, locks and sockets as well.
//!
//! Or leave them, too: with the feature `transparent` and one line in `main`, std's own sleeps, sockets,
//! channels, locks and `park` cost no thread while they wait, nor do those of other crates and of C libraries
//! (chapter `ordinary` of this guide). What the table says about waits of std holds without that feature.
//!
//! | std | gort | why change |
//! | --- | --- | --- |
//! | `thread::spawn` | [`spawn`] | a hundred times cheaper |
//! | `thread::Builder`, `JoinHandle` | [`Builder`], [`JoinHandle`] | a hundred times cheaper |
//! | `thread::scope` | [`scope`] | a hundred times cheaper |
//! | `thread::sleep` | [`sleep`] | std's occupies a thread while it sleeps (1) |
//! | `thread::yield_now` | [`yield_now`] | std's lets other *threads* run, not goroutines |
//! | `mpsc`, crossbeam-channel | [`chan`] | a wait costs no thread (1); crossbeam's names and macros |
//! | `Mutex`, `RwLock`, `Condvar`, `Barrier` | the same in [`sync`] | a contended wait costs no thread (1) |
//! | `Once`, `OnceLock`, `LazyLock` | the same in [`sync`] | a contended wait costs no thread (1) |
//! | `std::net`, `std::os::unix::net` | [`net`] | a wait costs no thread (1); deadlines |
//! | `thread_local!` | `thread_local!` | nothing to change: each goroutine has its own |
//! | `std::fs`, `std::process`, `std::io` | the same | nothing to change |
//! | `thread::park`, `unpark` | the same | works, but occupies a thread (1); a channel does not |
//! | `rayon::join` | [`join`] | the halves may block and wait for each other |
//! | rayon, a thread pool | `spawn` for each piece | rayon is still better at splitting loops over slices |
//!
//! (1) Nor does std's own with the feature `transparent`.
//!
//! gort's locks also have timeouts, and they have no poisoning.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::{Arc, Mutex};
//!
//! // Nothing here knows about goroutines, except for `gort::spawn`.
//! let total = Arc::new(Mutex::new(0));
//! let handles: Vec<_> = (1..=100)
//!     .map(|n| {
//!         let total = total.clone();
//!         gort::spawn(move || {
//!             let (mut writer, mut reader) = std::os::unix::net::UnixStream::pair().unwrap();
//!             writer.write_all(&[n]).unwrap();
//!             let mut byte = [0];
//!             reader.read_exact(&mut byte).unwrap();
//!             *total.lock().unwrap() += u32::from(byte[0]);
//!         })
//!     })
//!     .collect();
//! handles.into_iter().for_each(|handle| handle.join().unwrap());
//! assert_eq!(*total.lock().unwrap(), 5050);
//! ```
//!
//! # What is different
//!
//! - **The stack** grows up to 64 MiB, where std's threads have 2 MiB. But if more than ten thousand
//!   goroutines are alive, the further ones have only 256 KiB. See [`stacks`](super::stacks).
//! - **How many run at once** is GOMAXPROCS. When a hundred threads compute, the kernel divides the
//!   CPUs among them. When a hundred goroutines compute, gort divides GOMAXPROCS processors among them.
//! - **State that the kernel keeps per thread** belongs to the OS thread, and a goroutine moves between
//!   threads. A goroutine that changes its signal mask, CPU affinity, niceness or scheduling policy by
//!   libc's functions is bound to its thread from then on, and nobody else sees the change: for the mask
//!   until it is as before, for the others until the goroutine ends. Of other such state (namespaces,
//!   per-thread capabilities, `gettid()`, whatever is changed by a raw system call) gort knows nothing. If
//!   your code or a library changes or keeps it, first bind the goroutine to its thread:
//!
//! ```
//! gort::run(|| {
//!     let _bound = gort::runtime::os_thread_guard();
//!     // While the guard lives, this goroutine stays on one thread, and no other goroutine runs there.
//! });
//! ```
//!
//! - **Names.** `std::thread::current().name()` and panic messages have the name of
//!   [`Builder::name`](crate::Builder::name). gort finds the place of the name in std's `Thread` when it
//!   starts, and leaves goroutines unnamed if a version of std keeps it in another way;
//!   [`current`](crate::current) has the name always. The kernel's name of a thread (`top -H`) stays that of
//!   the OS thread.
//! - **Two kinds of pthread mutexes.** Nearly all locks of C and C++ work as on threads, also those that know
//!   their owner: recursive and error-checking mutexes, `pthread_rwlock_t`, `std::shared_mutex`, the loader's
//!   lock. For a mutex with *priority inheritance* the kernel has to know the owner: a goroutine that asks
//!   for one gets `ENOTSUP`, and must not lock one that a thread has made. A *robust* mutex works as an
//!   ordinary one: nobody notices that a goroutine has ended, or that its process has died, while it held the
//!   mutex.
//! - **`pthread_kill` to another goroutine** fails with `ESRCH`. To oneself, and `raise`, it works.
//! - **Allocators with a large cache per thread** (jemalloc, mimalloc) would keep one per goroutine.
//!   Wrap them in [`alloc::OnThread`](crate::alloc::OnThread).
//!
//! [`spawn`]: crate::spawn
//! [`Builder`]: crate::Builder
//! [`JoinHandle`]: crate::JoinHandle
//! [`join`]: crate::join
//! [`scope`]: crate::scope
//! [`sleep`]: crate::sleep
//! [`yield_now`]: crate::yield_now
//! [`chan`]: crate::chan
//! [`sync`]: crate::sync
//! [`net`]: crate::net
