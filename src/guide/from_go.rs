//! Coming from Go: what each Go construct is called in gort, and what behaves differently.
//!
//! The scheduler is Go's: G, M and P, run queues of 256, stealing half of a queue, time slices of 10
//! ms, the netpoller, sysmon. What you know about when goroutines run still holds. The names are
//! Rust's.
//!
//! # Language and goroutines
//!
//! | Go | gort |
//! | --- | --- |
//! | `go f(x)` | [`go!(f(x))`][go], or [`spawn`] if you want the result |
//! | `func main()` | `#[gort::main] fn main()` |
//! | `defer f()` | `Drop` |
//! | `recover()` | [`JoinHandle::join`], or `std::panic::catch_unwind` |
//! | cgo | call C directly: a goroutine has an ordinary stack, so the call costs nothing extra |
//!
//! # Channels
//!
//! | Go | gort |
//! | --- | --- |
//! | `make(chan T)` | [`chan::bounded(0)`][bounded] |
//! | `make(chan T, n)` | [`chan::bounded(n)`][bounded]; there is also [`chan::unbounded()`][unbounded] |
//! | `c <- v` | `sender.send(v)?` |
//! | `v, ok := <-c` | `receiver.recv()`, which returns a `Result` |
//! | `for v := range c` | `for v in &receiver` |
//! | `close(c)` | drop the last sender, or call [`sender.close()`][close] |
//! | a nil channel | [`chan::never()`][never] |
//! | `select { … }` | [`select!`]` { … }` |
//! | `case v := <-a: …` | `recv(a) -> v => …` |
//! | `case b <- w: …` | `send(b, w) -> r => …` |
//! | `default: …` | `default => …` |
//! | `<-time.After(d)`, `time.Tick(d)` | [`chan::after(d)`][after], [`chan::tick(d)`][tick] |
//!
//! # Packages
//!
//! | Go | gort |
//! | --- | --- |
//! | `time.Sleep`, `time.AfterFunc` | [`time::sleep`], [`time::after_func`] |
//! | `time.NewTimer`, `time.NewTicker` | [`time::Timer`], [`time::Ticker`] |
//! | `sync.Mutex`, `RWMutex`, `Cond`, `Once`, `Pool` | the same types in [`sync`]; a lock contains its data |
//! | `sync.WaitGroup`, `wg.Go(f)` | [`WaitGroup`], `group.go(f)`; a [`scope`] is often better |
//! | `errgroup.Group`, `SetLimit` | [`Group`], `Group::with_limit` |
//! | `singleflight.Group` | [`SingleFlight`] |
//! | `semaphore.Weighted` | [`Semaphore`] |
//! | `context.Context` | [`Context`] |
//! | `WithCancel`, `WithTimeout`, `WithValue`, `AfterFunc` | methods of [`Context`] with the same names |
//! | `net.Listen`, `net.Dial` | [`TcpListener::bind`], [`TcpStream::connect`] |
//! | `SetReadDeadline` | `set_read_deadline` |
//! | `signal.Notify`, `signal.NotifyContext` | [`signal::notify`], [`signal::notify_context`] |
//! | `os/exec` | `std::process`, or [`process`] |
//! | `http.ListenAndServe` | `gort::http::serve` (feature `http`) |
//! | `testing/synctest` | [`testing::bubble`] |
//!
//! # The runtime
//!
//! | Go | gort |
//! | --- | --- |
//! | `runtime.GOMAXPROCS(n)` | [`runtime::set_max_procs`] |
//! | `runtime.GOMAXPROCS(0)` | [`runtime::max_procs`] |
//! | `runtime.NumCPU()` | `std::thread::available_parallelism` |
//! | `runtime.NumGoroutine()` | [`runtime::num_goroutines`] |
//! | `runtime.Gosched()` | [`yield_now`] |
//! | `runtime.LockOSThread()` | [`runtime::lock_os_thread`] |
//! | `runtime.Stack(buf, true)`, SIGQUIT | [`runtime::dump`], SIGQUIT |
//! | `runtime/metrics` | [`runtime::stats`] |
//! | `GOMAXPROCS` | `GOMAXPROCS`, or `GORT_MAXPROCS` for gort alone |
//! | `GODEBUG=schedtrace=…,scheddetail=1,asyncpreemptoff=1` | the same, or `GORT_DEBUG` for gort alone |
//!
//! # What is different
//!
//! **Sending on a closed channel is an error, not a panic**, and closing a channel twice is allowed. A
//! channel also closes by itself when all its senders or all its receivers are gone, so a producer
//! finds out that its consumer has left.
//!
//! ```
//! let (sender, receiver) = gort::chan::bounded(1);
//! drop(receiver);
//! let error = sender.send("hello").unwrap_err();
//! assert_eq!(error.into_inner(), "hello"); // nothing is lost
//! ```
//!
//! **A panic ends its goroutine, not the process.** The goroutine that joins it gets the payload and
//! decides what to do. For Go's behaviour, set `panic = "abort"` in the Cargo profile.
//!
//! **Every goroutine can be joined**, so you need fewer channels that only say "done".
//!
//! **Goroutines may borrow** from the function that starts them if they are started in a [`scope`]. The
//! compiler checks that no two of them write to the same data.
//!
//! ```
//! let mut halves = [0u64; 2];
//! let (low, high) = halves.split_at_mut(1);
//! gort::scope(|scope| {
//!     scope.spawn(|| low[0] = (0..500).sum());
//!     scope.spawn(|| high[0] = (500..1000).sum());
//! });
//! assert_eq!(halves[0] + halves[1], 499_500);
//! ```
//!
//! **Stacks do not move.** They grow in place, up to 64 MiB unless you [choose](super::stacks) another limit
//! (Go's is 1 GB), and use memory only for the pages that were touched. A goroutine costs at least one page,
//! a little more than 4 KiB, where Go starts with 2 KiB. In a crowd of more than ten thousand goroutines the
//! further ones have 256 KiB and cannot grow.
//!
//! **There is no garbage collector**, so there are no pauses, no GC assists and no finalizers.
//!
//! **A preempted goroutine moves, as in Go, except out of C.** It waits in a queue without a thread, and any
//! thread may resume it. Only inside libc, on a stack of another library, in a signal handler, or while it is
//! bound does it keep its thread; see [`preemption`](super::preemption).
//!
//! **std's own types take part.** Go's standard library parks goroutines everywhere. In gort that is what
//! gort's types do, and with the feature `transparent` also std's sockets, locks, channels and sleeps, those
//! of other crates, and C libraries (chapter `ordinary` of this guide).
//!
//! **Thread-locals exist**, and each goroutine has its own.
//!
//! [go]: crate::go
//! [`spawn`]: crate::spawn
//! [`scope`]: crate::scope
//! [`yield_now`]: crate::yield_now
//! [`JoinHandle::join`]: crate::JoinHandle::join
//! [bounded]: crate::chan::bounded
//! [unbounded]: crate::chan::unbounded
//! [close]: crate::chan::Sender::close
//! [never]: crate::chan::never
//! [after]: crate::chan::after
//! [tick]: crate::chan::tick
//! [`select!`]: crate::chan::select
//! [`time::sleep`]: crate::time::sleep
//! [`time::after_func`]: crate::time::after_func
//! [`time::Timer`]: crate::time::Timer
//! [`time::Ticker`]: crate::time::Ticker
//! [`sync`]: crate::sync
//! [`WaitGroup`]: crate::sync::WaitGroup
//! [`Group`]: crate::sync::Group
//! [`SingleFlight`]: crate::sync::SingleFlight
//! [`Semaphore`]: crate::sync::Semaphore
//! [`Context`]: crate::context::Context
//! [`TcpListener::bind`]: crate::net::TcpListener
//! [`TcpStream::connect`]: crate::net::TcpStream
//! [`signal::notify`]: crate::signal::notify
//! [`signal::notify_context`]: crate::signal::notify_context
//! [`process`]: crate::process
//! [`testing::bubble`]: crate::testing::bubble
//! [`runtime::set_max_procs`]: crate::runtime::set_max_procs
//! [`runtime::max_procs`]: crate::runtime::max_procs
//! [`runtime::num_goroutines`]: crate::runtime::num_goroutines
//! [`runtime::lock_os_thread`]: crate::runtime::lock_os_thread
//! [`runtime::dump`]: crate::runtime::dump
//! [`runtime::stats`]: crate::runtime::stats
