//! Stacks: how large they are, what they cost, and what happens when one is too small.
//!
//! # What a stack is
//!
//! A goroutine's stack is 256 KiB of *address space*. Only pages that the goroutine has touched use
//! memory. A goroutine that waits in an ordinary function uses one page of 4 KiB, which holds its first
//! frames, its thread-locals and the runtime's record of it. Page tables add about half a kilobyte. A
//! million such goroutines need about 5 GB.
//!
//! Stacks do not move and do not grow beyond their size, but they do shrink. If a parked goroutine has
//! not used a stack page for a second, gort returns the page to the system. It does the same with the
//! stacks of goroutines that have ended.
//!
//! # Choosing a size
//!
//! The default is enough for nearly all code: formatting, JSON, TLS handshakes, regular expressions.
//! Use [`Builder::stack_size`](crate::Builder::stack_size) to ask for more if a goroutine
//! - recurses as deeply as its input is nested (parsers, tree walks),
//! - keeps large arrays in local variables (`[u8; 100_000]`; debug builds also keep temporaries that
//!   optimised builds do not),
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
//! A larger stack costs address space, and no memory until the goroutine uses it. You can be generous:
//! 1 MiB for each of ten thousand goroutines is nothing, and 64 MiB, the maximum, for each of a
//! thousand is fine. For unbounded recursion, the `stacker` crate works inside goroutines: it sees the
//! true bounds of the goroutine's stack.
//!
//! A smaller stack (the minimum is 16 KiB) saves address space and page tables, but no pages. It is
//! worthwhile only if address space is limited (`ulimit -v`), or if a few hundred bytes per goroutine
//! matter.
//!
//! # Overflow
//!
//! There is a guard page below each stack. If a goroutine runs into it, the process ends with a message
//! that names the goroutine:
//!
//! ```text
//! goroutine 18 'parser' (spawned at src/main.rs:40:10) has overflowed its stack of 253 KiB
//! fatal runtime error: stack overflow; a larger stack can be had with gort::Builder::stack_size
//! ```
//!
//! An overflow never overwrites other memory silently. (A function whose frame is larger than a page
//! must probe the stack so that it cannot jump over the guard page. rustc always generates such probes;
//! C compilers do with `-fstack-clash-protection`.)
//!
//! # System limits
//!
//! | limit | when it matters | what you see |
//! | --- | --- | --- |
//! | memory | a million goroutines need about 5 GB | the out-of-memory killer, as for any memory |
//! | `vm.max_map_count` | before Linux 6.13, about 32,000 goroutines | an error from `spawn` that names it |
//! | `vm.overcommit_memory=2` | each stack counts with its full size | an error from `spawn` |
//! | `ulimit -v` | each stack counts with its full size | an error from `spawn` |
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
