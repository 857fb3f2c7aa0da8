//! The model: goroutines, threads, processors.
//!
//! # Three letters
//!
//! - **G**, a goroutine: a function that runs, with a stack of its own and thread-locals of its own.
//! - **M**, an OS thread that runs goroutines. Threads are started as they are needed and kept for later.
//! - **P**, a processor: the right to run goroutines. There are GOMAXPROCS of them, and an M must hold one to run a G.
//!
//! So GOMAXPROCS is how many goroutines *run* at the same time, while any number may *exist*. It is by default what
//! your process may use: the CPUs of its affinity mask, or fewer if a container's quota says so, and it follows the quota
//! when that changes. The environment variable `GOMAXPROCS` (or `GORT_MAXPROCS`, which wins) and
//! [`runtime::set_max_procs`](crate::runtime::set_max_procs) choose another number.
//!
//! A goroutine that waits has neither thread nor processor. It is a page of memory and an entry in somebody's queue.
//! When what it waits for happens, whoever made it happen puts it into the queue of their own P; a P without work takes
//! half of another one's queue.
//!
//! # Starting and waiting
//!
//! [`spawn`](crate::spawn) is `std::thread::spawn`. [`go!`](crate::go) is Go's `go`. Both return a
//! [`JoinHandle`](crate::JoinHandle), which may be dropped.
//!
//! ```
//! #[gort::main]
//! fn main() {
//!     let sum = gort::spawn(|| (1..=10).sum::<u32>());
//!     assert_eq!(sum.join().unwrap(), 55);
//!
//!     let (sender, receiver) = gort::chan::bounded(1);
//!     gort::go!(sender.send("done").unwrap());
//!     assert_eq!(receiver.recv(), Ok("done"));
//! }
//! ```
//!
//! In a [`scope`](crate::scope), goroutines may borrow, and all of them have ended when it returns:
//!
//! ```
//! let words = vec!["goroutines", "may", "borrow"];
//! let lengths: Vec<usize> = gort::scope(|scope| {
//!     let handles: Vec<_> = words.iter().map(|word| scope.spawn(|| word.len())).collect();
//!     handles.into_iter().map(|handle| handle.join().unwrap()).collect()
//! });
//! assert_eq!(lengths, [10, 3, 6]);
//! ```
//!
//! # Ends
//!
//! A goroutine ends when its function returns or panics. A panic ends that goroutine alone: its message is
//! printed with the goroutine's id, its name and where it was spawned, and `join` returns the payload. Destructors of
//! its thread-locals run before `join` returns.
//!
//! Nobody can end a goroutine from outside, since nobody knows what it is in the middle of. It ends itself when it is
//! told to: by a closed channel or a [`Context`](crate::context::Context). When `main` returns, the process ends,
//! whatever other goroutines do then: wait for those that matter.
//!
//! ```
//! use gort::sync::WaitGroup;
//! gort::run(|| {
//!     let group = WaitGroup::new();
//!     for n in 0..3 {
//!         group.go(move || println!("number {n}"));
//!     }
//!     group.wait();
//! });
//! ```
//!
//! # Threads and goroutines together
//!
//! Everything in gort works from any OS thread too. A thread that waits on a gort channel sleeps as a thread; a goroutine
//! that waits on it is parked. So a program can be moved piece by piece, and libraries with threads of their own need no
//! adapter. The runtime starts when it is first used; [`run`](crate::run) is the way in from a thread, and
//! `#[gort::main]` is short for a `main` that consists of it.
//!
//! ```
//! let (sender, receiver) = gort::chan::bounded(0);
//! std::thread::spawn(move || sender.send("from a thread").unwrap());
//! let goroutine = gort::spawn(move || receiver.recv());
//! assert_eq!(goroutine.join().unwrap(), Ok("from a thread"));
//! ```
