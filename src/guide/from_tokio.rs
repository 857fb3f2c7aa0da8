//! Coming from Tokio.
//!
//! Both run many things on few threads by stealing work. In Tokio a thing is a future, a state machine that the compiler
//! makes of an `async fn` and that returns when it has to wait. In gort it is a function on a stack of its own, that waits
//! where it is.
//!
//! | Tokio | gort |
//! | --- | --- |
//! | `async fn f()`, `f().await` | `fn f()`, `f()` |
//! | `#[tokio::main]`, `#[tokio::test]` | `#[gort::main]`, `#[gort::test]` |
//! | `tokio::spawn(async move { … })` | [`spawn`](crate::spawn)`(move \|\| { … })` |
//! | `task::spawn_blocking(f).await` | `f()`; [`blocking(f)`](crate::blocking) if it is slow and called often |
//! | `task::yield_now().await`, `coop::consume_budget` | not needed |
//! | `task::block_in_place(f)` | `f()` |
//! | `tokio::join!(a, b)` | [`scope`](crate::scope), or two `spawn`s and two `join`s |
//! | `JoinSet` | [`Group`](crate::sync::Group), [`WaitGroup`](crate::sync::WaitGroup), `scope` |
//! | `select!` over futures | [`select!`](crate::chan::select) over channels |
//! | `time::timeout(d, future)` | a timeout of the wait itself; [`time::timeout`](crate::time::timeout) |
//! | `CancellationToken` | [`Context`](crate::context::Context) |
//! | `handle.abort()`, dropping a future | nothing: see below |
//! | `mpsc`, `oneshot` | [`chan::bounded`](crate::chan::bounded): many senders, many receivers |
//! | `sync::Mutex`, `sync::RwLock`, `sync::Semaphore`, `sync::Notify` | [`sync`](crate::sync)`::{Mutex, RwLock, Semaphore, Condvar}`; guards may be held across anything |
//! | `net::TcpListener` and the rest, `AsyncRead`, `AsyncWrite` | [`net`](crate::net), `std::io::Read`, `Write` |
//! | `tokio::fs`, `tokio::process`, `tokio::signal` | `std::fs`; `std::process` or [`process`](crate::process); [`signal`](crate::signal) |
//! | `Handle::block_on(future)` | [`future::block_on`](crate::future::block_on) |
//! | `task_local!` | `thread_local!` |
//! | `runtime::Builder::worker_threads(n)` | `GOMAXPROCS=n`, [`set_max_procs`](crate::runtime::set_max_procs) |
//! | `tokio-console`, task dumps | [`runtime::dump`](crate::runtime::dump), `stats`, `schedtrace` |
//! | `time::pause()` | [`testing::bubble`](crate::testing::bubble) |
//!
//! # What you no longer need
//!
//! - **Two kinds of functions.** Any function may wait: trait methods, closures of iterators, `Drop`, callbacks of C
//!   libraries.
//! - **`Send` futures.** What a goroutine holds while it waits need not be `Send`; only what goes in by `spawn` must be.
//! - **`Pin`, boxed futures, `async_trait`, cancellation safety.** A call goes on where it stopped, or it has returned.
//! - **Knowing what blocks.** Plain `std::fs`, a slow regular expression, a C library: nobody else notices.
//!
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//! let handle = gort::spawn(|| {
//!     let log = Rc::new(RefCell::new(Vec::new())); // not Send
//!     for n in 0..3 {
//!         gort::sleep(std::time::Duration::from_millis(1)); // may go on on another thread
//!         log.borrow_mut().push(n);
//!     }
//!     Rc::try_unwrap(log).unwrap().into_inner()
//! });
//! assert_eq!(handle.join().unwrap(), [0, 1, 2]);
//! ```
//!
//! # What you lose
//!
//! - **Memory.** A parked goroutine takes about 5 kB; a small future takes some hundred bytes. With tens of thousands of
//!   connections this hardly matters, with millions it does.
//! - **Cancellation by dropping.** A goroutine cannot be dropped in the middle. It has to look: at a context, a timeout,
//!   a closed channel. In return nothing ends at a point where you did not expect it.
//! - **Waiting for many different things in one place.** `select!` takes channels. For anything else start a goroutine
//!   that waits for it and sends; it is cheap.
//! - **Platforms.** Tokio runs on Windows, macOS and WebAssembly.
//! - **The whole ecosystem of `async` libraries.** Blocking libraries work as they are: those for databases, HTTP clients that
//!   use std's sockets, C bindings. For the others there is [`future`](crate::future): `block_on` runs any future in a
//!   goroutine, and with the feature `tokio` those that want Tokio's runtime around them; handles and channels of gort are
//!   futures, too. The features `hyper` and `http` serve HTTP.
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
