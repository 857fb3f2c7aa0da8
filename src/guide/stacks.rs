//! Stacks: how large they are, what they cost, and what happens when one is too small.
//!
//! # What a stack is
//!
//! A goroutine's stack grows as deep as the code goes, up to 64 MiB, as on a thread with a very large stack.
//! Memory is used only for pages that the goroutine has touched. A goroutine that waits in an ordinary
//! function uses one page of 4 KiB, which holds its first frames, its thread-locals and the runtime's record
//! of it.
//!
//! ```
//! fn depth(n: u32) -> u32 {
//!     let frame = std::hint::black_box([0u8; 1000]);
//!     if n == 0 { u32::from(frame[0]) } else { 1 + depth(n - 1) }
//! }
//! assert_eq!(gort::spawn(|| depth(5000)).join().unwrap(), 5000);
//! ```
//!
//! Stacks also shrink. If a parked goroutine has not used a stack page for a second or two, gort returns the
//! page to the system. It does the same with the stacks of goroutines that have ended.
//!
//! # In a crowd
//!
//! A stack that can grow needs address space for itself, and 4 kB of page tables. For the first 10,240
//! goroutines that is fine; for a million it would be 4 GB. So when 10,240 goroutines are alive, further ones
//! get stacks of 256 KiB of address space that cannot grow. They use a page and half a kilobyte of page
//! tables each: a million need about 5 GB. When the crowd is gone, new goroutines get stacks that grow again.
//!
//! 256 KiB is enough for nearly all code: formatting, JSON, TLS handshakes, regular expressions. If your
//! program has a crowd whose goroutines need more, choose a size:
//!
//! | for | with |
//! | --- | --- |
//! | one goroutine | [`Builder::stack_size`](crate::Builder::stack_size) |
//! | all goroutines | [`Config::stack_size`](crate::runtime::Config::stack_size), `GORT_STACK_SIZE=1M` |
//! | handlers of an HTTP server | `http::Server::stack_size` |
//! | how deep stacks grow | [`Config::max_stack`](crate::runtime::Config::max_stack), `GORT_MAX_STACK=1G` |
//!
//! All of these may be up to 1 GiB. `main` and [`gort::run`](crate::run) have at least 8 MiB in any case.
//!
//! The other way round, a program that knows that its goroutines need little can save memory:
//! `GORT_MAX_STACK=0` packs all stacks from the first goroutine on, and a goroutine with a
//! `Builder::stack_size` below 256 KiB (the minimum is 16 KiB) is always packed.
//!
//! For unbounded recursion, the `stacker` crate works inside goroutines: it sees the true bounds of the
//! goroutine's stack.
//!
//! # Overflow
//!
//! There is a guard below each stack. If a goroutine runs into it, the process ends with a message that names
//! the goroutine, and says what to set:
//!
//! ```text
//! goroutine 18 'parser' (spawned at src/main.rs:40:10) has overflowed its stack of 65536 KiB
//! fatal runtime error: stack overflow; stacks can grow further with GORT_MAX_STACK or ...
//! ```
//!
//! An overflow of Rust code never overwrites other memory silently: rustc makes functions with large frames
//! probe the stack page by page. C compilers do that only with `-fstack-clash-protection`. Without it, a
//! single frame that is larger than the guard can jump over it: more than 64 KiB at the end of a stack that
//! can grow, more than 20 KiB at the end of one that cannot.
//!
//! # System limits
//!
//! | limit | when it matters | what you see |
//! | --- | --- | --- |
//! | memory | a million goroutines need about 5 GB | the out-of-memory killer, as for any memory |
//! | `vm.max_map_count` | before Linux 6.13, about 32,000 goroutines | an error from `spawn` that names it |
//! | `vm.overcommit_memory=2` | each stack counts with its full size: none can grow | an error from `spawn` |
//! | `ulimit -v` | each stack counts with its full size: few can grow | an error from `spawn` |
//! | `mlockall(MCL_FUTURE)` | all address space counts as memory: none can grow | an error from `spawn` |
//!
//! Linux before 6.13 needs a separate memory mapping for each guard page; `vm.max_map_count` limits
//! their number.
//!
//! `spawn` in this table is [`Builder::spawn`](crate::Builder::spawn), which returns the error;
//! [`gort::spawn`](crate::spawn) panics instead. `gort doctor` shows what your machine allows.
//!
//! # Goroutines without private thread-locals
//!
//! [`Builder::spawn_shared_tls`](crate::Builder::spawn_shared_tls) starts a goroutine that has no
//! thread-locals of its own. Switching to it is faster. The function is `unsafe`, because *you* then
//! promise what private thread-locals otherwise guarantee. See [`safety`](super::safety).
