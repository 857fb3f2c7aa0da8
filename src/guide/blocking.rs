//! Blocking: what may block, what it costs, and how to stop waiting.
//!
//! Any code in a goroutine may block. There are three ways to block, and they differ only in cost. With the
//! feature `transparent`, waits of std, of other crates and of C libraries are of the first kind: see the
//! chapter `ordinary`.
//!
//! # Waiting with gort's own types
//!
//! This covers channels, the locks in [`sync`](crate::sync), [`sleep`](crate::sleep), the sockets in
//! [`net`](crate::net) and `join`. gort parks the goroutine, and its P runs the next one. A wait costs
//! tens of nanoseconds and no thread, and a million goroutines can wait at once.
//!
//! # Marked blocking calls
//!
//! [`blocking`](crate::blocking) tells gort that a closure is going to block its thread: a slow C
//! function, a `flock`, a database driver. From that moment the P is available to other goroutines. If
//! one of them needs the P, gort takes it after 20 µs. If none does, marking the call has cost only
//! two atomic operations.
//!
//! ```
//! # gort::run(|| {
//! let entries = gort::blocking(|| std::fs::read_dir("/proc/self/task").map(Iterator::count));
//! assert!(entries.unwrap() > 0);
//! # });
//! ```
//!
//! # Unmarked blocking calls
//!
//! Plain `std::fs`, `std::thread::sleep`, `std::net`, `std::sync::Mutex`, `Command::output`, name
//! resolution, any C library: all of them work, and none of them holds up other goroutines.
//!
//! While goroutines wait for a P, the runtime checks the goroutines that have been running for a while.
//! If wall time passes but the thread uses no CPU time, its goroutine is blocked in the kernel. The
//! runtime then takes the P away without the thread's help, a few hundred µs after the call blocked.
//! It sends no signal, so no call fails with `EINTR`. When the call returns, the goroutine asks for a P
//! at its next call into gort. If it computes for a whole time slice before that, the runtime preempts
//! it.
//!
//! ```
//! use std::sync::{Arc, Barrier};
//! gort::run(|| {
//!     // std's barrier does not know about goroutines: it puts threads to sleep until all 50 have arrived.
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
//! If many goroutines block at once, the runtime expects that more will follow: it looks more often, takes
//! the P as soon as it sees the thread asleep, and starts threads ahead. Thousands of such goroutines then
//! take little longer than as many threads, and goroutines that wait for time or I/O still run on time.
//!
//! # What a blocking call costs
//!
//! A blocking call, marked or not, needs a thread for as long as it lasts. gort keeps the thread for
//! the next such call; if too many threads are idle, some of them end. At most
//! [`Config::max_threads`](crate::runtime::Config::max_threads) threads (10,000 by default) run
//! goroutines. When all of them are in use, goroutines that are ready wait until a thread becomes free.
//! Each thread also takes about five of the mappings that Linux allows a process (`vm.max_map_count`,
//! 65,530 by default).
//!
//! Mark a call if it usually blocks, is made often, and your Ps are busy. Do not mark a read of a file
//! that is already in the page cache: the read is faster than any of these mechanisms.
//!
//! # Sockets and other descriptors
//!
//! [`net`](crate::net) has std's sockets, implemented over epoll. For other descriptors that can be
//! polled (pipes, timerfd, inotify, a C library's socket), use [`io::Pollable`](crate::io::Pollable).
//!
//! # Timeouts
//!
//! Every operation that waits also exists with a timeout and with a deadline, under the names that std
//! or parking_lot use: `recv_timeout`, `try_lock_for`, `set_read_timeout`. In `select!`, a timeout is a
//! case:
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
//! # Contexts
//!
//! A [`Context`](crate::context::Context) combines a deadline with a way to cancel. You pass it to all
//! the code that works for one purpose, such as one request. There are three ways to use it:
//!
//! - Call the form of a wait that takes a context: `recv_ctx`, `lock_ctx`, `sleep_ctx`.
//! - Use [`done`](crate::context::Context::done), which is a channel, in `select!`.
//! - Call [`limit`](crate::context::Context::limit) with a closure. Every wait in it that has a timeout
//!   then also ends when the context ends.
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
//! Neither a timeout nor a context can interrupt a system call that has blocked. To end the call, close
//! the socket or kill the child process. Otherwise let the goroutine finish on its own and go on
//! without it, as [`time::timeout`](crate::time::timeout) does.
