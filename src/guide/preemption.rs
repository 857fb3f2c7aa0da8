//! Preemption: why an endless loop does not starve other goroutines.
//!
//! # The time slice
//!
//! While other goroutines wait for a P, a goroutine may run for 10 ms. This time slice is only 1 ms if
//! one of the waiting goroutines was woken by a timer, by I/O or by another goroutine, because such a
//! goroutine usually runs only briefly. If no goroutine waits for a P, none is stopped.
//!
//! When the slice is over, the runtime stops the goroutine in two steps:
//!
//! 1. It sets a flag. Every call into gort checks the flag and lets other goroutines run. So does
//!    [`checkpoint`](crate::checkpoint), which costs a few nanoseconds.
//! 2. If the goroutine still runs when the runtime looks again, the runtime sends a signal (`SIGURG`)
//!    to its thread. The signal handler copies the goroutine's registers to the goroutine's own stack and
//!    lets the thread run another goroutine. The interrupted one waits in a queue, without a thread, and
//!    goes on later on whichever thread is free. You can have ten thousand endless loops.
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
//! Goroutines that used up their slice ("hogs") wait in a separate queue, behind all other goroutines.
//! A goroutine that a message has just woken therefore never waits behind one that computes.
//!
//! # Why a goroutine can safely be interrupted anywhere
//!
//! To the code inside it a goroutine is a thread, and an interrupted goroutine is a thread that the kernel
//! preempted. It may be in the middle of a `Drop`, of C code or of a critical section of your own. Other
//! code can see nothing half-done that it could not also see with threads. What belongs to a thread, and
//! would be wrong on another one, belongs to the goroutine: thread-locals, and its id in locks.
//!
//! In a few places the goroutine keeps its thread, which then waits with it: inside the C library (above
//! all `malloc`, whose cache is the thread's), in a signal handler or on a stack of another library, in a
//! callback of `dl_iterate_phdr`, while it uses AMX tiles, and while it is bound to its thread. (A signal
//! handler of yours that blocks no signal, not even its own, and runs without an alternate stack, cannot be
//! recognised: it must not compute for long.)
//!
//! # What you may notice
//!
//! - The runtime signals only threads that are computing, never one that sleeps in the kernel, and
//!   interrupted calls are restarted. Your code therefore does not see `EINTR` because of preemption. (Only
//!   a system call that is made by hand-written assembly, at the very moment when it begins to wait, may.)
//! - A goroutine cannot block `SIGURG`. If it changes the signal mask, the scheduling policy, the niceness
//!   or the CPU affinity of its thread, it stays on that thread, as by
//!   [`lock_os_thread`](crate::runtime::lock_os_thread), and other goroutines do not see the change: until
//!   the mask is as before, and for the others until the goroutine ends.
//! - If your program has its own handler for `SIGURG`, gort calls it for signals that gort did not
//!   send. Most other signals are blocked while your handler runs.
//! - A goroutine may be stopped while it holds a *spin* lock. Goroutines that want the lock then spin
//!   for a whole slice, just as threads would. The locks in [`sync`](crate::sync) and in std put their
//!   waiters to sleep.
//! - `GODEBUG=asyncpreemptoff=1` or
//!   [`Config::preempt_by_signal(false)`](crate::runtime::Config::preempt_by_signal) turns the signal
//!   off and leaves only the flag. Long loops should then call [`checkpoint`](crate::checkpoint).
//! - The thread that monitors all this is named `gort-sysmon`. While no goroutine computes for long or
//!   blocks, it gives itself the scheduling policy SCHED_BATCH, so that it does not interrupt other
//!   threads. `GORT_SYSMON=eager` makes it leave its policy alone, for sandboxes that kill a process
//!   that calls `sched_setscheduler`. It also leaves its policy alone if you chose a policy for the
//!   process (`chrt`).
//!
//! [`stats`](crate::runtime::stats) counts both kinds of preemption, as `preempted` and
//! `preempted_by_signal`. A high `preempted_by_signal` means that your program computes for long
//! stretches, which is fine.
//!
//! # What gort does not do
//!
//! There are no priorities, and the order in which goroutines run is not guaranteed. Goroutines run in
//! about the order in which they became ready. The exception is the goroutine that the running one
//! readied last: it runs next.
