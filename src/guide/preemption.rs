//! Preemption: why an endless loop starves nobody.
//!
//! # The time slice
//!
//! A goroutine may run for 10 ms while others wait for a P; 1 ms if one of those was woken by a timer, by I/O or by
//! another goroutine, since such a one is usually brief. Nobody is stopped while nobody waits.
//!
//! When the slice is over:
//!
//! 1. The goroutine is asked. Every call into gort looks at a flag and lets others run; so does
//!    [`checkpoint`](crate::checkpoint), for a few nanoseconds.
//! 2. If it does not answer by the next look, its thread gets a signal (`SIGURG`). The handler gives the P to another
//!    thread and **waits right there**, until a P is free for its goroutine again.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! gort::run(|| {
//!     let stop = Arc::new(AtomicBool::new(false));
//!     let hogs: Vec<_> = (0..2 * gort::runtime::max_procs())
//!         .map(|_| {
//!             let stop = stop.clone();
//!             gort::spawn(move || while !stop.load(Ordering::Relaxed) {})
//!         })
//!         .collect();
//!     // On one P or many, this goroutine gets its turn.
//!     gort::sleep(std::time::Duration::from_millis(1));
//!     stop.store(true, Ordering::Relaxed);
//!     hogs.into_iter().for_each(|hog| hog.join().unwrap());
//! });
//! ```
//!
//! A goroutine that used up its slice waits behind all others in a queue for its kind: someone who was just woken by a
//! message never waits for somebody who computes.
//!
//! # Why it is safe to be interrupted anywhere
//!
//! The goroutine stays on its thread, with everything it holds, as under the kernel's own preemption. It may be in the
//! middle of `malloc`, of a `Drop`, of C code, of a critical section of your own: nothing can be seen half-done that could
//! not be with threads. The price is a thread that sleeps for each goroutine that was stopped this way; at most 256 unless
//! [`Config::max_preempted`](crate::runtime::Config::max_preempted) says otherwise. Beyond that, hogs are no longer
//! interrupted.
//!
//! # What you may notice
//!
//! - The signal is sent only to threads that compute, never to one that sleeps in the kernel, and interrupted calls are
//!   restarted: your code does not see `EINTR` because of it.
//! - A handler of your own for `SIGURG` is called for signals that are not gort's, with most others held back meanwhile.
//! - A goroutine that holds a *spin* lock may be stopped, and others then spin for a slice. So it is with threads. Locks
//!   of [`sync`](crate::sync) and of std park their waiters.
//! - `GODEBUG=asyncpreemptoff=1` or [`Config::preempt_by_signal(false)`](crate::runtime::Config::preempt_by_signal) leave
//!   only the flag: then long loops should call [`checkpoint`](crate::checkpoint).
//! - The thread that watches for all this (`gort-sysmon`) is scheduled as SCHED_BATCH while nobody computes for long or
//!   blocks, so that it does not interrupt others. `GORT_SYSMON=eager` leaves its policy alone: for sandboxes that end a
//!   process which calls `sched_setscheduler`. It does so anyway if you chose a policy for the process (`chrt`).
//!
//! [`stats`](crate::runtime::stats) counts both: `preempted` and `preempted_by_signal`. Many of the latter mean that your
//! program computes; that is fine.
//!
//! # What it does not do
//!
//! There are no priorities, and no promise about order. Goroutines that are ready run in about the order in which they
//! became so, except that the one that was readied last by the running goroutine goes first.
