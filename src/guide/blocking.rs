//! Blocking: what may wait, what it costs, and how to give up.
//!
//! Anything may block. There are three ways to, and they differ only in price.
//!
//! # Waiting for something of gort's
//!
//! Channels, locks of [`sync`](crate::sync), [`sleep`](crate::sleep), sockets of [`net`](crate::net), `join`: the
//! goroutine is parked, its P goes on with the next one. This costs tens of nanoseconds and no thread; a million
//! goroutines can wait at once.
//!
//! # Blocking calls that are marked
//!
//! [`blocking`](crate::blocking) says that what follows will block the thread: a slow C function, a `flock`, a database
//! driver. The P is free for others from that moment: it is taken after 20 µs if somebody needs it, and given back for
//! two atomic operations if nobody did.
//!
//! ```
//! # gort::run(|| {
//! let entries = gort::blocking(|| std::fs::read_dir("/proc/self/task").map(Iterator::count));
//! assert!(entries.unwrap() > 0);
//! # });
//! ```
//!
//! # Blocking calls that are not
//!
//! Plain `std::fs`, `std::thread::sleep`, `std::net`, `std::sync::Mutex`, `Command::output`, name resolution, any C
//! library: they work, and they hold nobody else up. While goroutines wait for a P, the runtime looks at those that have
//! been at it for long: wall time without CPU time means that the goroutine is blocked in the kernel. Its P is
//! then taken without its help, a few hundred µs after it blocked; no signal is sent, so no call fails with `EINTR`.
//! The goroutine asks for a P when it comes back.
//!
//! ```
//! use std::sync::{Arc, Barrier};
//! gort::run(|| {
//!     // std's barrier knows nothing of goroutines: it puts threads to sleep, until all 50 have come.
//!     let barrier = Arc::new(Barrier::new(50));
//!     let handles: Vec<_> = (0..50)
//!         .map(|_| {
//!             let barrier = barrier.clone();
//!             gort::spawn(move || barrier.wait().is_leader())
//!         })
//!         .collect();
//!     let leaders = handles.into_iter().map(|handle| handle.join().unwrap());
//!     assert_eq!(leaders.filter(|&leader| leader).count(), 1);
//! });
//! ```
//!
//! Either kind of blocking call needs a thread for as long as it lasts. Threads are kept for the next such call and end
//! when there are too many idle ones. [`Config::max_threads`](crate::runtime::Config::max_threads) (10,000 by default) is the
//! limit; beyond it, goroutines wait until a thread comes back.
//!
//! When is it worth marking? If the call usually blocks, is called often, and your Ps are busy. A read of a file that is
//! in the page cache is faster than any of this.
//!
//! # Sockets and other descriptors
//!
//! [`net`](crate::net) has std's sockets over epoll. For other descriptors that can be polled (pipes, timerfd, inotify, a
//! C library's socket) there is [`io::Pollable`](crate::io::Pollable).
//!
//! # Giving up: timeouts
//!
//! Whatever waits has a form with a timeout and one with a deadline, under the names that std or parking_lot gave
//! them: `recv_timeout`, `try_lock_for`, `set_read_timeout`. `select!` takes one as a case:
//!
//! ```
//! use gort::chan::{bounded, select};
//! use std::time::Duration;
//! let (_sender, receiver) = bounded::<u32>(0);
//! let answer = select! {
//!     recv(receiver) -> number => number.ok(),
//!     default(Duration::from_millis(5)) => None,
//! };
//! assert_eq!(answer, None);
//! ```
//!
//! # Giving up: contexts
//!
//! A [`Context`](crate::context::Context) is a deadline and a way to cancel, handed down to everything that is done for one
//! purpose. Waits have forms with a context (`recv_ctx`, `lock_ctx`, `sleep_ctx`), [`done`](crate::context::Context::done)
//! is a channel for `select!`, and [`limit`](crate::context::Context::limit) makes every wait with a timeout in a
//! closure end with the context.
//!
//! ```
//! use gort::context::Context;
//! use std::time::Duration;
//! gort::run(|| {
//!     let (ctx, cancel) = Context::background().with_timeout(Duration::from_secs(60));
//!     let (sender, receiver) = gort::chan::bounded::<u32>(0);
//!     let consumer = gort::spawn(move || receiver.recv_ctx(&ctx).is_err());
//!     cancel.cancel();
//!     assert!(consumer.join().unwrap());
//!     drop(sender);
//! });
//! ```
//!
//! Blocked system calls end when they end: close the socket, kill the child process, or leave the goroutine to itself, as
//! [`time::timeout`](crate::time::timeout) does.
