//! The model: goroutines (G), OS threads (M), processors (P), and how a goroutine starts, waits and
//! ends.
//!
//! # Goroutines, threads and processors
//!
//! - **G**, a goroutine: a running function with its own stack and its own thread-locals.
//! - **M**, an OS thread that runs goroutines. gort starts threads when it needs them and keeps them
//!   for reuse.
//! - **P**, a processor: the right to run goroutines. There are GOMAXPROCS of them, and an M must hold
//!   one to run a G.
//!
//! GOMAXPROCS is therefore the number of goroutines that *run* at the same time; any number may
//! *exist*. By default it is the number of CPUs that your process may use: those in its affinity mask,
//! or fewer if a container's CPU quota allows fewer. When the quota changes, GOMAXPROCS follows it. To
//! choose another number, set the environment variable `GOMAXPROCS` (or `GORT_MAXPROCS`, which takes
//! precedence), or call [`runtime::set_max_procs`](crate::runtime::set_max_procs).
//!
//! A parked goroutine holds neither a thread nor a processor. It is a page of memory and an entry in a
//! wait queue. The goroutine that ends its wait, by sending a message or releasing a lock, makes it
//! ready: it puts the parked goroutine into the run queue of its own P. A P that runs out of work
//! steals half of another P's queue.
//!
//! # Starting and joining
//!
//! [`spawn`](crate::spawn) works like `std::thread::spawn`: it returns a [`JoinHandle`](crate::JoinHandle),
//! which you may drop. [`go!`](crate::go) is Go's `go` statement, and has no value.
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
//! Goroutines that are started in a [`scope`](crate::scope) may borrow from the function around it.
//! When `scope` returns, all of them have ended:
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
//! [`join`](crate::join) splits work into two halves, again and again, down to parts of some microseconds.
//! The second half becomes a goroutine only if a processor has nothing else to do. Otherwise it is a function
//! call, so a program may split its work much further than there are processors:
//!
//! ```
//! fn largest(numbers: &[u32]) -> u32 {
//!     match numbers {
//!         [] => 0,
//!         small if small.len() <= 1000 => *small.iter().max().unwrap(),
//!         large => {
//!             let (left, right) = large.split_at(large.len() / 2);
//!             let (left, right) = gort::join(|| largest(left), || largest(right));
//!             left.max(right)
//!         }
//!     }
//! }
//! let numbers: Vec<u32> = (0..10_000).rev().collect();
//! assert_eq!(gort::run(|| largest(&numbers)), 9999);
//! ```
//!
//! # How a goroutine ends
//!
//! A goroutine ends when its function returns or panics. A panic ends only that goroutine: gort prints
//! the message together with the goroutine's id, its name and where it was spawned, and `join` returns
//! the payload. The destructors of the goroutine's thread-locals run before `join` returns.
//!
//! No code can end a goroutine from outside, because no other code knows what the goroutine is in the
//! middle of. Instead, tell the goroutine to end itself, by closing a channel or cancelling a
//! [`Context`](crate::context::Context).
//!
//! When `main` returns, the process ends, even if other goroutines are still running. Wait for those
//! that matter:
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
//! Everything in gort also works from ordinary OS threads. When a thread waits on a gort channel, the
//! thread sleeps; when a goroutine waits on it, gort parks the goroutine. You can therefore convert a
//! program piece by piece, and libraries that start their own threads need no adapter.
//!
//! The runtime starts when it is first used. A thread enters it with [`run`](crate::run), which runs a
//! function as a goroutine and waits for its result. `#[gort::main]` wraps the body of `main` in such a
//! call.
//!
//! ```
//! let (sender, receiver) = gort::chan::bounded(0);
//! std::thread::spawn(move || sender.send("from a thread").unwrap());
//! let goroutine = gort::spawn(move || receiver.recv());
//! assert_eq!(goroutine.join().unwrap(), Ok("from a thread"));
//! ```
