//! Seeing inside: what does my program do, and why does it not go on?
//!
//! All of this is always there and costs next to nothing until it is asked for. Only the search for leaks stops the world.
//!
//! # Where is everybody? A dump
//!
//! [`runtime::dump`](crate::runtime::dump) lists every goroutine: what it does or waits for and since when, its name, who
//! started it, where, and its stack. Printed, it looks like Go's:
//!
//! ```text
//! goroutine 18 [chan receive, 3 minutes] {name: reader}:
//! server::read_requests
//!         src/main.rs:48
//! created by goroutine 1 at src/main.rs:31:9
//! ```
//!
//! A goroutine that waits for a [`Mutex`](crate::sync::Mutex) also says which goroutine holds it. Names help: give one
//! to whatever lives long.
//!
//! ```
//! # gort::run(|| {
//! let (sender, receiver) = gort::chan::bounded::<()>(0);
//! let reader = gort::Builder::new().name("reader".into()).spawn(move || receiver.recv()).unwrap();
//! let waits = |dump: gort::runtime::Dump| {
//!     dump.goroutines().iter().any(|g| g.name() == Some("reader") && g.state() == "chan receive")
//! };
//! while !waits(gort::runtime::dump()) {
//!     gort::yield_now();
//! }
//! # drop(sender);
//! # reader.join().unwrap().unwrap_err();
//! # });
//! ```
//!
//! # Who will never go on? Leaks
//!
//! [`runtime::leaked`](crate::runtime::leaked) lists goroutines that wait for ever: for a channel, a wait group, a lock or a goroutine
//! whose other users are gone, or wait for ever themselves. It stops all threads for some milliseconds and searches memory as a
//! garbage collector does. At the end of a test:
//!
//! ```
//! if let Some(leaked) = gort::runtime::leaked() {
//!     assert!(leaked.goroutines().is_empty(), "{leaked}");
//! }
//! ```
//!
//! # From outside: SIGQUIT
//!
//! `kill -QUIT` (or Ctrl-\ in the terminal) prints the same for a process that hangs, and ends it with status 2. A program
//! that has a handler of its own for the signal keeps it;
//! [`Config::dump_on_sigquit(false)`](crate::runtime::Config::dump_on_sigquit) and `GORT_DEBUG=sigquit=0` switch it off.
//!
//! # Nobody will ever go on: deadlocks
//!
//! When all goroutines wait for each other and no timer, I/O, thread or signal handler is left that could end it, the
//! program says so and exits with status 2, with a dump:
//!
//! ```text
//! fatal error: all goroutines are asleep - deadlock!
//! ```
//!
//! There are no false alarms: a thread that gort does not know, or a goroutine in a blocking call, might still help, so
//! with one of those around nothing is reported. [`OnDeadlock`](crate::runtime::OnDeadlock) chooses another end: abort
//! for a core dump, a callback, nothing.
//!
//! # How is the scheduler doing? Statistics
//!
//! [`runtime::stats`](crate::runtime::stats) has the goroutines by state, the lengths of the queues, how often work was
//! stolen, handed off, preempted, and histograms of how long goroutines were runnable before they ran (`latencies`) and
//! how long they ran at a stretch (`slices`).
//!
//! ```
//! gort::run(|| (0..100).map(|n| gort::spawn(move || n)).for_each(|handle| drop(handle.join())));
//! let stats = gort::runtime::stats();
//! assert!(stats.created >= 100);
//! if let Some(p99) = stats.latencies.quantile(0.99) {
//!     println!("99 % of goroutines ran within {p99:?} of being ready");
//! }
//! ```
//!
//! | if | then |
//! | --- | --- |
//! | `latencies` are long, and the queues are not empty | there is more work than processors |
//! | `preempted_by_signal` grows fast | long computations: more Ps, or fewer at once |
//! | `threads.alive` is high, `goroutines.syscall` too | many blocking calls at once; bound them by a [`Semaphore`](crate::sync::Semaphore) |
//! | `goroutines.waiting` only ever grows | goroutines are forgotten: the dump says where they wait |
//!
//! # The scheduler's own log
//!
//! `GODEBUG=schedtrace=1000` prints a line each second, in Go's words; with `scheddetail=1` a line for each P, M and G. The
//! same under `GORT_DEBUG`, which Go programs started by yours do not see.
//!
//! ```text
//! SCHED 1004ms: gomaxprocs=2 idleprocs=0 threads=6 spinningthreads=0 needspinning=0 idlethreads=1 runqueue=0 [3 5]
//! ```
//!
//! # Tests that cannot hang and do not sleep
//!
//! In a [`testing::bubble`](crate::testing) time is virtual and the schedule comes from a seed: a test with timeouts of
//! hours takes microseconds, a schedule that failed can be repeated, and a deadlock is a panic that says who waits for
//! what.
//!
//! ```
//! use gort::testing::bubble;
//! use std::time::Duration;
//! bubble(|| {
//!     let (_sender, receiver) = gort::chan::bounded::<()>(0);
//!     assert!(receiver.recv_timeout(Duration::from_secs(3600)).is_err());
//! });
//! ```
//!
//! # What does this machine offer?
//!
//! `gort doctor`, or [`runtime::platform`](crate::runtime::platform): kernel, guard pages, how thread pointers are switched,
//! what limits the number of processors, goroutines and threads.
