//! Seeing inside: what your program is doing, and why it does not continue.
//!
//! All of these tools are always available, and cost next to nothing until you use them. Only the
//! search for leaked goroutines stops the world.
//!
//! # Dumps: where every goroutine is
//!
//! [`runtime::dump`](crate::runtime::dump) lists every goroutine with its name and its stack. For each
//! it tells what the goroutine is doing or waiting for, since when, which goroutine started it, and
//! where. Printed, a dump looks like Go's:
//!
//! ```text
//! goroutine 18 [chan receive, 3 minutes] {name: reader}:
//! server::read_requests
//!         src/main.rs:48
//! created by goroutine 1 at src/main.rs:31:9
//! ```
//!
//! For a goroutine that waits for a [`Mutex`](crate::sync::Mutex), the dump also tells which goroutine
//! holds the lock. Names help: name every goroutine that lives long.
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
//! A dump leaves out the frames of the runtime with which a goroutine stopped and with which it began.
//! `{:#}` prints them as well, and `GORT_DEBUG=runtimeframes=1` shows them in all dumps and reports.
//!
//! # Leaks: goroutines that wait forever
//!
//! [`runtime::leaked`](crate::runtime::leaked) lists the goroutines that wait forever. Such a goroutine
//! waits for a channel, a wait group, a lock or another goroutine, and everything that could end the
//! wait is either gone or itself waits forever. To find them, gort stops all threads and searches
//! memory as a garbage collector does, which takes some milliseconds for each 10 MB of memory in use.
//! If it cannot search, the result is `None`. At the end of a test:
//!
//! ```
//! if let Some(leaked) = gort::runtime::leaked() {
//!     assert!(leaked.goroutines().is_empty(), "{leaked}");
//! }
//! ```
//!
//! # SIGQUIT: a dump from outside
//!
//! If a process hangs, send it SIGQUIT with `kill -QUIT`, or press Ctrl-\ in its terminal. It prints
//! the same dump and exits with status 2. If the program has its own handler for the signal, gort
//! leaves that handler in place. A signal that is merely ignored when the runtime starts, as in the
//! background jobs of a shell, prints the dump, too.
//! [`Config::dump_on_sigquit(false)`](crate::runtime::Config::dump_on_sigquit) or
//! `GORT_DEBUG=sigquit=0` turns this off.
//!
//! # Deadlocks
//!
//! When all goroutines wait for each other, and no timer, I/O, thread or signal handler is left that
//! could end a wait, the program prints this message with a dump and exits with status 2:
//!
//! ```text
//! fatal error: all goroutines are asleep - deadlock!
//! ```
//!
//! There are no false alarms. A thread that gort does not know, or a goroutine in a blocking call,
//! might still end the wait, so gort reports nothing while there is one.
//! [`OnDeadlock`](crate::runtime::OnDeadlock) chooses another reaction: abort with a core dump, run a
//! callback, or do nothing.
//!
//! # Statistics: how the scheduler is doing
//!
//! [`runtime::stats`](crate::runtime::stats) counts the goroutines in each state, the goroutines in
//! each queue, and how often goroutines were stolen, handed off or preempted. Two histograms show how
//! long goroutines were runnable before they ran (`latencies`), and how long they ran at a stretch
//! (`slices`).
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
//! | `latencies` are long and the queues are not empty | there is more work than the processors can do |
//! | `preempted_by_signal` grows fast | goroutines compute for long: use more Ps, or run fewer at once |
//! | `threads.alive`, `goroutines.syscall` are high | too many blocking calls: use a [`Semaphore`] |
//! | `goroutines.waiting` only ever grows | goroutines leak: a dump tells where they wait |
//!
//! # The scheduler trace
//!
//! `GODEBUG=schedtrace=1000` prints a line like this every second, in Go's format (it is wrapped here).
//! With `scheddetail=1` it also prints a line for each P, M and G. `GORT_DEBUG` takes the same options,
//! and Go programs that yours starts ignore it.
//!
//! ```text
//! SCHED 1004ms: gomaxprocs=2 idleprocs=0 threads=6 spinningthreads=0 needspinning=0 idlethreads=1
//!     runqueue=0 [3 5]
//! ```
//!
//! # Tests with virtual time
//!
//! In a [`testing::bubble`](crate::testing), time is virtual and a seed determines the schedule. A test
//! with timeouts of hours takes microseconds, and a schedule that made a test fail can be repeated. A
//! deadlock is a panic that tells which goroutine waits for what, so the test cannot hang.
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
//! # What this machine offers
//!
//! `gort doctor` and [`runtime::platform`](crate::runtime::platform) report the kernel, how stacks are
//! guarded, how the thread pointer is switched, and what limits the number of processors, goroutines
//! and threads.
//!
//! [`Semaphore`]: crate::sync::Semaphore
