//! Coming from Tokio: what each Tokio construct becomes in gort, what you no longer need, and what you
//! lose.
//!
//! Both runtimes run many pieces of work on few threads, and balance them by work stealing. In Tokio a
//! piece of work is a future: a state machine that the compiler generates from an `async fn`, and that
//! returns to the runtime when it has to wait. In gort it is a function with its own stack, and it
//! waits where it is.
//!
//! # Functions and goroutines
//!
//! | Tokio | gort |
//! | --- | --- |
//! | `async fn f()`, `f().await` | `fn f()`, `f()` |
//! | `#[tokio::main]`, `#[tokio::test]` | `#[gort::main]`, `#[gort::test]` |
//! | `tokio::spawn(async move { … })` | [`spawn`]`(move \|\| { … })` |
//! | `task::spawn_blocking(f).await` | `f()`; [`blocking(f)`] if it is slow and called often |
//! | `task::block_in_place(f)` | `f()` |
//! | `task::yield_now().await`, `coop::consume_budget` | not needed |
//! | `tokio::join!(a, b)` | [`scope`], or two `spawn`s and two `join`s |
//! | `JoinSet` | [`Group`], [`WaitGroup`], [`scope`] |
//! | `Handle::block_on(future)` | [`future::block_on`] |
//! | `task_local!` | `thread_local!` |
//! | `runtime::Builder::worker_threads(n)` | `GOMAXPROCS=n`, [`set_max_procs`] |
//!
//! # Waiting and cancelling
//!
//! | Tokio | gort |
//! | --- | --- |
//! | `select!` over futures | [`select!`] over channels |
//! | `time::timeout(d, future)` | the form of the wait that takes a timeout, or [`time::timeout`] |
//! | `CancellationToken` | [`Context`] |
//! | `handle.abort()`, dropping a future | no equivalent: see "What you lose" below |
//! | `time::pause()` | [`testing::bubble`] |
//!
//! # Channels, locks, I/O, tools
//!
//! | Tokio | gort |
//! | --- | --- |
//! | `mpsc`, `oneshot` | [`chan::bounded`]: many senders, many receivers |
//! | `sync::Mutex`, `sync::RwLock` | [`sync`]`::{Mutex, RwLock}`; guards may be held across any wait |
//! | `sync::Semaphore`, `sync::Notify` | [`sync`]`::{Semaphore, Condvar}` |
//! | `net::TcpListener` and the other sockets | [`net`] |
//! | `AsyncRead`, `AsyncWrite` | `std::io::Read`, `std::io::Write` |
//! | `tokio::fs` | `std::fs` |
//! | `tokio::process` | `std::process` or [`process`] |
//! | `tokio::signal` | [`signal`] |
//! | `tokio-console`, task dumps | [`runtime::dump`], `runtime::stats`, `schedtrace` |
//!
//! # What you no longer need
//!
//! - **Two kinds of functions.** Any function may wait: trait methods, iterator closures, `Drop`,
//!   callbacks of C libraries.
//! - **`Send` futures.** What a goroutine holds while it waits need not be `Send`. Only what you pass
//!   to `spawn` and get back from it must be.
//! - **`Pin`, boxed futures, `async_trait`, cancellation safety.** A call either continues where it
//!   stopped, or it has returned.
//! - **Knowing what blocks.** Plain `std::fs`, a slow regular expression, a C library: none of them
//!   holds up other goroutines.
//!
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//! let handle = gort::spawn(|| {
//!     let log = Rc::new(RefCell::new(Vec::new())); // not Send
//!     for n in 0..3 {
//!         gort::sleep(std::time::Duration::from_millis(1)); // may continue on another thread
//!         log.borrow_mut().push(n);
//!     }
//!     Rc::try_unwrap(log).unwrap().into_inner()
//! });
//! assert_eq!(handle.join().unwrap(), [0, 1, 2]);
//! ```
//!
//! # What you lose
//!
//! - **Memory.** A parked goroutine takes about 5 kB; a small future takes a few hundred bytes. With
//!   tens of thousands of connections this hardly matters, with millions it does.
//! - **Cancellation by dropping.** You cannot drop a goroutine in the middle of what it does. It must
//!   check for cancellation itself: a context, a timeout, a closed channel. In return, your code never
//!   ends at a point where you did not expect it to.
//! - **Waiting for many different things in one place.** `select!` takes only channels. For anything
//!   else, start a goroutine that waits for it and sends the result to a channel; goroutines are cheap.
//! - **Platforms.** Tokio also runs on Windows, macOS and WebAssembly.
//! - **The ecosystem of `async` libraries.** These libraries do not run on gort directly. [`future`]
//!   runs them as guests: `block_on` runs any future in a goroutine, and the feature `tokio` adds
//!   Tokio's runtime for libraries that need it. gort's join handles and channels can be awaited, too.
//!   The features `hyper` and `http` serve HTTP. Blocking libraries work unchanged: database drivers,
//!   HTTP clients that use std's sockets, C bindings. With the feature `transparent` their waits park the
//!   goroutine, as gort's own do (chapter `ordinary` of this guide).
//!
//! ```
//! use std::time::Duration;
//! let answer = gort::spawn(|| {
//!     gort::future::block_on(async {
//!         gort::future::sleep(Duration::from_millis(1)).await;
//!         42
//!     })
//! });
//! assert_eq!(answer.join().unwrap(), 42);
//! ```
//!
//! [`spawn`]: crate::spawn
//! [`scope`]: crate::scope
//! [`blocking(f)`]: crate::blocking
//! [`Group`]: crate::sync::Group
//! [`WaitGroup`]: crate::sync::WaitGroup
//! [`future`]: crate::future
//! [`future::block_on`]: crate::future::block_on
//! [`set_max_procs`]: crate::runtime::set_max_procs
//! [`select!`]: crate::chan::select
//! [`time::timeout`]: crate::time::timeout
//! [`Context`]: crate::context::Context
//! [`testing::bubble`]: crate::testing::bubble
//! [`chan::bounded`]: crate::chan::bounded
//! [`sync`]: crate::sync
//! [`net`]: crate::net
//! [`process`]: crate::process
//! [`signal`]: crate::signal
//! [`runtime::dump`]: crate::runtime::dump
