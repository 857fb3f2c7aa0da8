//! Coming from Go.
//!
//! The scheduler is Go's: G, M and P, queues of 256, stealing of half, time slices of 10 ms, the netpoller, sysmon. What
//! you know about when goroutines run holds. The words are Rust's.
//!
//! | Go | gort |
//! | --- | --- |
//! | `go f(x)` | [`go!(f(x))`](crate::go), or [`spawn`](crate::spawn) if you want the result |
//! | `func main()` | `#[gort::main] fn main()` |
//! | `make(chan T)` | [`chan::bounded(0)`](crate::chan::bounded) |
//! | `make(chan T, n)` | `chan::bounded(n)`; there is also [`chan::unbounded()`](crate::chan::unbounded) |
//! | `c <- v` | `sender.send(v)?` |
//! | `v, ok := <-c` | `receiver.recv()`, a `Result` |
//! | `for v := range c` | `for v in &receiver` |
//! | `close(c)` | drop the last sender, or [`sender.close()`](crate::chan::Sender::close) |
//! | a nil channel | [`chan::never()`](crate::chan::never) |
//! | `select { case v := <-a: … case b <- w: … default: … }` | [`select!`](crate::chan::select)`{ recv(a) -> v => …, send(b, w) -> r => …, default => … }` |
//! | `<-time.After(d)`, `time.Tick(d)` | [`chan::after(d)`](crate::chan::after), [`chan::tick(d)`](crate::chan::tick) |
//! | `time.Sleep`, `time.NewTimer`, `time.NewTicker`, `time.AfterFunc` | [`time::sleep`](crate::time::sleep), [`Timer`](crate::time::Timer), [`Ticker`](crate::time::Ticker), [`after_func`](crate::time::after_func) |
//! | `sync.Mutex`, `RWMutex`, `Cond`, `Once`, `Pool` | the same names in [`sync`](crate::sync); the data is inside the lock |
//! | `sync.WaitGroup`, `wg.Go(f)` | [`WaitGroup`](crate::sync::WaitGroup), `group.go(f)`; often a [`scope`](crate::scope) is better |
//! | `errgroup.Group`, `SetLimit` | [`Group`](crate::sync::Group), `Group::with_limit` |
//! | `singleflight.Group` | [`SingleFlight`](crate::sync::SingleFlight) |
//! | `semaphore.Weighted` | [`Semaphore`](crate::sync::Semaphore) |
//! | `context.Context`, `WithCancel`, `WithTimeout`, `WithValue`, `AfterFunc` | [`Context`](crate::context::Context) with the same methods |
//! | `net.Listen`, `net.Dial`, `SetReadDeadline` | [`net::TcpListener::bind`](crate::net::TcpListener), [`TcpStream::connect`](crate::net::TcpStream), `set_read_deadline` |
//! | `signal.Notify`, `signal.NotifyContext` | [`signal::notify`](crate::signal::notify), [`notify_context`](crate::signal::notify_context) |
//! | `os/exec` | `std::process`, or [`process`](crate::process) |
//! | `http.ListenAndServe` | `gort::http::serve` (feature `http`) |
//! | `defer f()` | `Drop` |
//! | `recover()` | [`JoinHandle::join`](crate::JoinHandle::join), or `std::panic::catch_unwind` |
//! | `runtime.GOMAXPROCS(n)`, `NumCPU`, `NumGoroutine` | [`runtime::set_max_procs`](crate::runtime::set_max_procs), and [`max_procs`](crate::runtime::max_procs) for `GOMAXPROCS(0)`, `std::thread::available_parallelism`, [`num_goroutines`](crate::runtime::num_goroutines) |
//! | `runtime.Gosched()` | [`yield_now`](crate::yield_now) |
//! | `runtime.LockOSThread()` | [`runtime::lock_os_thread`](crate::runtime::lock_os_thread) |
//! | `runtime.Stack(buf, true)`, SIGQUIT | [`runtime::dump`](crate::runtime::dump), SIGQUIT |
//! | `runtime/metrics` | [`runtime::stats`](crate::runtime::stats) |
//! | `GOMAXPROCS`, `GODEBUG=schedtrace=…,scheddetail=1,asyncpreemptoff=1` | the same, or `GORT_MAXPROCS`, `GORT_DEBUG` |
//! | `testing/synctest` | [`testing::bubble`](crate::testing::bubble) |
//! | cgo | call C: a goroutine is on an ordinary stack, and the call costs nothing |
//!
//! # What is different
//!
//! **Sending on a closed channel is an error, not a panic**, and closing twice is allowed. A channel also closes by itself
//! when all its senders, or all its receivers, are gone: a producer whose consumer has left finds out.
//!
//! ```
//! let (sender, receiver) = gort::chan::bounded(1);
//! drop(receiver);
//! let error = sender.send("hello").unwrap_err();
//! assert_eq!(error.into_inner(), "hello"); // nothing is lost
//! ```
//!
//! **A panic ends its goroutine, not the process.** Whoever joins it decides. To have Go's behaviour, set `panic = "abort"` in
//! the profile.
//!
//! **Every goroutine can be joined**, so there is less need for channels that only say "done".
//!
//! **Goroutines may borrow** from the function that starts them, in a [`scope`](crate::scope); the compiler checks that no
//! two of them write the same thing.
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
//! **Stacks do not grow by copying**: they are 256 KiB of address space, committed as they are used. A goroutine costs a
//! page, 4 KiB and a bit, where Go starts with 2 KiB. Deep recursion wants [a larger stack](super::stacks).
//!
//! **There is no garbage collector**, so there are no pauses, no assists and no finalizers.
//!
//! **Preemption keeps its thread**: see [`preemption`](super::preemption). Go can move a goroutine that it stopped in the
//! middle; gort lets it wait on its thread.
//!
//! **Thread-locals exist**, and are the goroutine's own.
