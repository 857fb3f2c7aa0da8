//! Seeing inside: what your program is doing, and why it does not continue.
//!
//! These tools cost next to nothing until you use them. Profiles, the debug server and its page need the
//! feature `debug`, and metrics the feature `metrics`; everything else is always there. Only the search for
//! leaked goroutines stops the world.
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
//! waits for a channel, a context, a condition variable, a wait group, a lock or another goroutine, and
//! everything that could end the wait is either gone or itself waits forever. To find them, gort stops all
//! threads and searches memory as a garbage collector does, which takes some milliseconds for each 10 MB of
//! memory in use. If it cannot search, the result is `None`.
//!
//! ```
//! if let Some(leaked) = gort::runtime::leaked() {
//!     assert!(leaked.goroutines().is_empty(), "{leaked}");
//! }
//! ```
//!
//! A test with [`#[gort::test(leaks = "deny")]`](crate::test) fails if goroutines that it started, or their
//! descendants, wait forever when it ends; the message has the stack of each. Goroutines that still run
//! after a quarter of a second, or that can still be woken, do not count. The search may miss a leak, so a
//! test that passes is no proof; one that fails is.
//!
//! # Labels: what a goroutine works for
//!
//! [`Builder::label`](crate::Builder::label) gives a goroutine labels for its life, and
//! [`with_labels`](crate::with_labels) for the time of a call, as Go's `pprof.Do`. Children inherit them, and
//! reports show them: `goroutine 18 [chan receive] {name: reader, labels: {tenant: acme}}:`.
//!
//! ```
//! let handle_request = |tenant: &str| {
//!     gort::with_labels([("tenant", tenant)], || {
//!         let query = gort::spawn(|| gort::Labels::current().get("tenant").map(String::from));
//!         query.join().unwrap()
//!     })
//! };
//! assert_eq!(gort::run(|| handle_request("acme")).as_deref(), Some("acme"));
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
//! # gdb: goroutines of a stopped process, or of a core file
//!
//! Every program that uses gort carries a script for gdb (tested with version 13). gdb runs it if it trusts
//! the program's file. Say so once in `~/.config/gdb/gdbinit`, or for one session with `-iex`:
//!
//! ```text
//! add-auto-load-safe-path /path/to/program
//! ```
//!
//! Or load the script from gort's sources with `source src/diag/gdb/gort-gdb.py`. Then, after `gdb -p PID`,
//! `gdb program core`, or at a breakpoint:
//!
//! | command | shows |
//! | --- | --- |
//! | `info goroutines` | id, state and since when, name, thread, and the function of your code it is in |
//! | `info goroutines WORDS` | those that have the words in their line: `info goroutines chan receive` |
//! | `info goroutines -summary` | how many are in the same state and function |
//! | `goroutine 5 bt` | the stack of goroutine 5; any command of gdb works: `goroutine 5 info locals` |
//! | `goroutine all bt` | all stacks |
//! | `goroutine 5` | stays there, for `bt`, `up`, `info locals`, until `goroutine off` or `continue` |
//! | `break f if $goroutine() == 5` | stops in one goroutine only |
//!
//! ```text
//! (gdb) info goroutines
//!   1     [chan receive, 42 s] {reader}  server::read_requests at src/main.rs:48
//!   2     [running] {hasher} on thread 6 (gort-m0)  server::hash at src/main.rs:71
//! ```
//!
//! A goroutine that runs is shown with its thread. The frames of all others begin with number 1. Nothing is
//! changed in the process. No debug information is needed for the list and for the names of functions, only
//! the symbols; lines need `debug = 1`, local variables `debug = 2`. gdb's own `gcore` leaves out stacks on
//! Linux 6.13 and newer, unless the program runs with `GORT_GUARD=mprotect`; core files that the kernel
//! writes have them.
//!
//! perf walks the stacks of goroutines as those of threads: `perf record --call-graph dwarf`, or `fp` in a
//! program that is built with `-C force-frame-pointers=yes`. All of them begin in `gort_first_frame`.
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
//! [`runtime::record_waits`](crate::runtime::record_waits) also measures how often and how long goroutines
//! wait, by reason: `stats().waits`. It costs two readings of the clock for each wait, so it is off at first.
//!
//! # CPU time: which goroutines and labels use it
//!
//! [`stats().cpu`](crate::runtime::CpuTime) tells how much CPU time all goroutines have used, those of each
//! set of labels, and the runtime itself;
//! [`GoroutineTrace::cpu_time`](crate::runtime::GoroutineTrace::cpu_time), in a dump, how much one goroutine
//! has. With labels for tenants or routes this is the bill of a server, also for goroutines that have ended.
//! It is always on and is a sample: about a thousand times a second the goroutine that runs is charged.
//!
//! ```
//! let index = gort::Builder::new().label("job", "index");
//! index.spawn(|| (0..1_000_000).map(f64::from).sum::<f64>()).unwrap().join().unwrap();
//! for (labels, time) in &gort::runtime::stats().cpu.by_labels {
//!     println!("{labels}: {time:?}");
//! }
//! ```
//!
//! # Metrics for Prometheus
//!
//! The feature `metrics` gives each number a name that stays, Go's where Go has it, and a description:
//! `gort::metrics::all()`. `gort::metrics::prometheus()` is the text for the handler of `/metrics`.
//!
//! ```
//! # #[cfg(feature = "metrics")] {
//! let text = gort::metrics::prometheus();
//! assert!(text.contains("go_sched_latencies_seconds_bucket"));
//! # }
//! ```
//!
//! | watch | because |
//! | --- | --- |
//! | `go_sched_latencies_seconds` | how long goroutines wait for a processor |
//! | `go_sched_goroutines_goroutines` | grows without end if goroutines leak |
//! | `gort_wait_seconds_total` by `reason` | for what your program waits (after `record_waits(true)`) |
//! | `gort_calls_unmarked_total_seconds_total` | threads that block in calls that nobody marked |
//! | `gort_stalls_total` | something was stuck: standard error has the stack |
//!
//! # Stalls: what is stuck right now
//!
//! [`Config::stall_after`](crate::runtime::Config::stall_after) starts a thread that reports, once for each
//! stall, every goroutine that should have run and has not: it is runnable and no processor takes it, it sits
//! in a blocking call that is not marked, or it does not let go of its processor. The report has the stack
//! that the goroutine had at that time:
//!
//! ```text
//! gort: stall: goroutine 12 is in a blocking call that is not marked for 1.25s
//! goroutine 12 [syscall] {name: importer}:
//! read
//! importer::load
//!         src/import.rs:40
//! created by goroutine 1 at src/main.rs:31:9
//! ```
//!
//! ```
//! use std::time::Duration;
//! gort::runtime::Config::new()
//!     .stall_after(Duration::from_secs(1))
//!     .on_stall(|stall| eprintln!("stalled for {:?}", stall.lasted()))
//!     .start()
//!     .unwrap();
//! gort::run(|| println!("all is well"));
//! ```
//!
//! Without it, [`runtime::longest_blocking_calls`](crate::runtime::longest_blocking_calls) has the 16 longest
//! calls that were not marked, each with the stack that was captured while it lasted.
//!
//! # The debug server: all of this in a browser
//!
//! With the feature `debug`, `gort::debug::serve` starts a small HTTP server:
//!
//! ```
//! # #[cfg(feature = "debug")] {
//! let debug = gort::debug::serve("127.0.0.1:0").unwrap(); // or a port of your choice
//! println!("the program from inside: {}", debug.url());
//! debug.forget(); // it runs as long as the program
//! # }
//! ```
//!
//! The live page at `/` is the textbook picture of the scheduler, alive: each P with the M that holds it, the
//! goroutine that runs on it, `runnext` and its queue, arrows for steals, and what it did in the last
//! seconds; the global queue, preempted goroutines, timers, the netpoller, and the threads in blocking calls.
//! Below are goroutines by state, what they wait for, the histogram of scheduling latencies, and a table of
//! all goroutines, with search and groups. A click on one shows its stack, where it was spawned, what it
//! waits for and which goroutine holds that. The space key stops the time, and the arrow keys step through
//! the last minute.
//!
#![cfg_attr(doc, doc = include_str!(concat!(env!("OUT_DIR"), "/page-light.md")))]
//!
//! | ask | for |
//! | --- | --- |
//! | `gort top PID` | the goroutines in a terminal, by CPU, wait or label |
//! | `curl ADDR/debug/goroutines?text` | goroutines with their stacks; without `?text` as JSON |
//! | `go tool pprof http://ADDR/debug/pprof/profile?seconds=10` | a CPU profile |
//! | `curl -o t.trace ADDR/debug/trace?seconds=2` | an execution trace: `gort trace t.trace` |
//! | `curl -o f.trace ADDR/debug/flight` | what the flight recorder has, if one is on |
//! | `curl ADDR/metrics` | the text for Prometheus |
//!
//! The server stops nothing. It has threads of its own, so it answers also while endless loops keep every
//! processor busy, and while nobody looks it does nothing. It listens on loopback addresses only, unless
//! you call `gort::debug::Server::allow_remote` with a token.
//!
//! # Execution traces: what happened, and when
//!
//! [`trace::start`](crate::trace::start) begins a trace: of each goroutine when it ran, waited and for what,
//! of each processor and thread what it did. It is written in Go's format, about once a second. The
//! environment variable `GORT_TRACE=FILE` makes a trace of a whole run without a change of the program; `%p`
//! in the name stands for the id of the process, so that its children do not write into the same file.
//!
//! ```
//! # let file = std::env::temp_dir().join(format!("gort-guide-{}.trace", std::process::id()));
//! gort::trace::start(std::fs::File::create(&file)?)?;
//! gort::run(|| {
//!     let task = gort::trace::task("request");
//!     let _region = task.region("parse");
//!     task.log("size", "42");
//! });
//! gort::trace::stop()?;
//! # std::fs::remove_file(file)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | command | shows |
//! | --- | --- |
//! | `gort trace FILE` | a summary: how busy each P was, the longest latencies, what goroutines waited for |
//! | `gort trace FILE --html OUT.html` | a page that needs nothing else: a row for each P and goroutine |
//! | `gort trace FILE --perfetto OUT.json` | the same in <https://ui.perfetto.dev> |
//! | `go tool trace FILE` | a timeline of processors and goroutines, tasks and regions, in the browser |
//! | `go tool trace -pprof=sched FILE > p` | a profile, for `go tool pprof -top p`: see below |
//! | `go tool trace -d=parsed FILE` | every event as text |
//!
//! `gort trace --html` shows a trace like this. The keys `+`, `-` and the arrows move about, `/` searches,
//! `g` changes between rows for processors and rows for goroutines, and a click shows what ran there, its
//! stack and what woke it.
//!
#![cfg_attr(doc, doc = include_str!(concat!(env!("OUT_DIR"), "/viewer.md")))]
//!
//! The profile `sched` shows where goroutines were made runnable and had to wait for a processor; the others,
//! `sync`, `net` and `syscall`, show where they waited.
//!
//! Give long-lived goroutines names: the trace shows them. What a trace costs is in
//! `docs/decisions/056-traces.md`.
//!
//! # The flight recorder: what happened before something went wrong
//!
//! A trace of everything is large, and the interesting moment is over when one begins it. A
//! [`FlightRecorder`](crate::trace::FlightRecorder) keeps the events of the last seconds in memory (10
//! seconds, 10 MiB), and makes a trace of them when it is asked: by the program, which has seen something
//! odd, or by itself.
//!
//! ```
//! use std::time::Duration;
//! use gort::trace::{FlightRecorder, FlightRecorderConfig};
//!
//! # let directory = std::env::temp_dir();
//! let config = FlightRecorderConfig::new()
//!     .latency_limit(Duration::from_millis(100))
//!     .snapshots_in(directory);
//! let recorder = FlightRecorder::new(config);
//! recorder.start()?;
//! // ... the program ...
//! # gort::run(|| gort::sleep(Duration::from_millis(1)));
//! let mut trace = Vec::new();
//! recorder.write_to(&mut trace)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | it makes a snapshot by itself | when |
//! | --- | --- |
//! | on a stall | something is stuck, and [`stall_after`](crate::runtime::Config::stall_after) is set |
//! | on a deadlock report | all goroutines are asleep, before the report ends the process |
//! | on a long latency | a goroutine was runnable for longer than the limit before it ran |
//! | when the program likes | it calls [`trace::snapshot`](crate::trace::snapshot), as in a panic hook |
//!
//! At most ten, and one a minute, unless the configuration says otherwise; standard error names each file. A
//! snapshot takes some tenths of a second on a thread of its own, and the program runs on meanwhile.
//!
//! # Profiles: where time goes
//!
//! With the feature `debug`, `gort::profile` makes profiles with Go's names and types, which
//! `go tool pprof` reads and every other tool for Go's profiles.
//!
//! ```
//! # #[cfg(feature = "debug")] {
//! use gort::profile::{self, Cpu};
//! let cpu = Cpu::start(profile::DEFAULT_RATE)?; // 100 samples in each second of CPU time
//! gort::run(|| gort::with_labels([("route", "/pay")], || { /* the work */ }));
//! # let file = std::env::temp_dir().join(format!("gort-guide-{}.pprof", std::process::id()));
//! cpu.stop()?.write_to(&mut std::fs::File::create(&file)?)?;
//! # std::fs::remove_file(file)?;
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | question | profile |
//! | --- | --- |
//! | Which functions use the CPU? | `Cpu`; `go tool pprof -top -cum FILE` |
//! | Which tenants, routes, goroutines do? | the same; `go tool pprof -tags FILE`, `-tagfocus=route=/pay` |
//! | Where do goroutines wait for each other? | `block` |
//! | Who holds a lock for too long? | `mutex` |
//! | Where are ten thousand goroutines? | `goroutine` |
//! | What happened in the last minute? | two profiles, and `Profile::since` |
//!
//! `block` and `mutex` are off until `set_block_profile_rate` or
//! `set_mutex_profile_fraction` turns them on. A CPU profile uses
//! the signal `SIGPROF`. Functions of the standard library and of C are in it, too, and so is the runtime
//! itself. Names of functions need symbols; lines and inlined functions need `debug = 1` in the Cargo
//! profile.
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
