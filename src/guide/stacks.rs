//! Stacks: how large, what they cost, what happens when one is too small.
//!
//! # What a stack is
//!
//! A goroutine's stack is 256 KiB of *address space*. Memory is used only for pages that were touched: a goroutine
//! that waits in an ordinary function holds one page of 4 KiB, in which its first frames, its thread-locals and the
//! runtime's record of it lie together, and about half a kilobyte of page tables. A million of them need some 5 GB.
//!
//! Stacks do not move and do not grow beyond their size. They shrink: pages that a parked goroutine has not used for a
//! second go back to the system, and so do those of ended goroutines.
//!
//! # Choosing a size
//!
//! The default is enough for nearly all code: formatting, JSON, TLS handshakes, regular expressions. Ask for more with
//! [`Builder::stack_size`](crate::Builder::stack_size) if a goroutine
//! - recurses as deep as its input is (parsers, tree walks),
//! - keeps large arrays in local variables (`[u8; 100_000]`; debug builds also keep temporaries that optimised ones do not),
//! - runs C code that was written for stacks of 8 MiB.
//!
//! ```
//! fn depth(n: u32) -> u32 {
//!     let frame = std::hint::black_box([0u8; 1000]);
//!     if n == 0 { u32::from(frame[0]) } else { 1 + depth(n - 1) }
//! }
//! let deep = gort::Builder::new().stack_size(16 << 20).spawn(|| depth(5000)).unwrap();
//! assert_eq!(deep.join().unwrap(), 5000);
//! ```
//!
//! Asking for more costs address space, and no memory until it is used. So be generous: 1 MiB for ten thousand
//! goroutines is nothing; 64 MiB, the most there is, for a thousand is fine. For recursion without a bound, `stacker`
//! works inside goroutines: it sees the goroutine's true bounds.
//!
//! Asking for less (16 KiB is the least) saves address space and page tables, not pages. It is worthwhile only under a
//! limit of address space (`ulimit -v`), or where a few hundred bytes for each goroutine count.
//!
//! # Overflow
//!
//! Below each stack lies a guard page. A goroutine that runs into it ends the process with a message that names it:
//!
//! ```text
//! goroutine 18 'parser' (spawned at src/main.rs:40:10) has overflowed its stack of 253 KiB
//! fatal runtime error: stack overflow; a larger stack can be had with gort::Builder::stack_size
//! ```
//!
//! Nothing is overwritten silently. (A function with a frame
//! of more than a page probes the stack; rustc sees to that, and C compilers do with `-fstack-clash-protection`.)
//!
//! # Limits of the system
//!
//! | limit | when it matters | what you see |
//! | --- | --- | --- |
//! | memory | a million goroutines: about 5 GB | the out-of-memory killer, as for any memory |
//! | `vm.max_map_count` | Linux before 6.13: each guard is a mapping of its own, so about 32,000 goroutines | an error from [`Builder::spawn`](crate::Builder::spawn) that names it |
//! | `vm.overcommit_memory=2` | stacks count with their whole size | an error from `spawn` |
//! | `ulimit -v` | likewise | an error from `spawn` |
//!
//! [`spawn`](crate::spawn) panics where [`Builder::spawn`](crate::Builder::spawn) returns the error. `gort doctor` shows
//! what your machine allows.
//!
//! # The small kind
//!
//! [`Builder::spawn_shared_tls`](crate::Builder::spawn_shared_tls) starts a goroutine without thread-locals of its own: it
//! is faster to switch to, and it is `unsafe`, because *you* then promise what private thread-locals otherwise
//! guarantee. See [`safety`](super::safety).
