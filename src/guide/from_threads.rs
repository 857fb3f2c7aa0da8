//! Coming from `std::thread`.
//!
//! Replace `std::thread::spawn` by `gort::spawn`. That is all; the rest of the program can stay as it is, and become faster
//! where it matters by taking gort's channels, locks and sockets.
//!
//! | std | gort | why change |
//! | --- | --- | --- |
//! | `thread::spawn`, `Builder`, `JoinHandle` | [`spawn`](crate::spawn), [`Builder`](crate::Builder), [`JoinHandle`](crate::JoinHandle) | a hundred times cheaper |
//! | `thread::scope` | [`scope`](crate::scope) | the same |
//! | `thread::sleep` | [`sleep`](crate::sleep) | std's keeps a thread busy sleeping |
//! | `thread::yield_now` | [`yield_now`](crate::yield_now) | std's lets other *threads* run |
//! | `mpsc`, crossbeam-channel | [`chan`](crate::chan) | a wait costs no thread; crossbeam's names and macros |
//! | `Mutex`, `RwLock`, `Condvar`, `Barrier`, `Once`, `OnceLock`, `LazyLock` | the same in [`sync`](crate::sync) | a contended wait costs no thread; timeouts; no poisoning |
//! | `std::net`, `std::os::unix::net` | [`net`](crate::net) | a wait costs no thread; deadlines |
//! | `thread_local!` | `thread_local!` | nothing to change: each goroutine has its own |
//! | `std::fs`, `std::process`, `std::io` | the same | nothing to change |
//! | `thread::park`, `unpark` | the same | works, and keeps a thread; a channel does not |
//! | rayon, a thread pool | `spawn` for each piece | rayon is still better at splitting loops over slices |
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::{Arc, Mutex};
//!
//! // Nothing in here knows of goroutines, except for `gort::spawn`.
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
//! - **The stack** is 256 KiB, not 2 MiB (std's threads) or 8 MiB (main). See [`stacks`](super::stacks).
//! - **How many run at once** is GOMAXPROCS. A hundred threads that compute share the CPUs by the kernel's will; a hundred
//!   goroutines share GOMAXPROCS processors by gort's.
//! - **What the kernel keeps for each thread** is the thread's, and a goroutine changes threads: signal mask, CPU affinity,
//!   niceness, namespaces, `gettid()`, per-thread capabilities. If you change such a thing, or a library does, bind the
//!   goroutine first:
//!
//! ```
//! gort::run(|| {
//!     let _bound = gort::runtime::os_thread_guard();
//!     // On one thread, and alone there, as long as the guard lives.
//! });
//! ```
//!
//! - **Locks of C that remember the thread**: a pthread mutex of a special kind (recursive, error-checking, robust, priority
//!   inheritance) knows its owner by thread id. Bind the goroutine while it holds one. Ordinary mutexes, and all of Rust's,
//!   recursive ones included, need nothing.
//! - **Allocators with a large cache for each thread** (jemalloc, mimalloc) would have one for each goroutine: wrap them in
//!   [`alloc::OnThread`](crate::alloc::OnThread).
