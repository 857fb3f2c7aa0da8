//! The guide: what goroutines are, what they cost, and how to use them.
//!
//! This module contains no code, only documentation. The tests run every example in it.
//!
//! | chapter | the questions that it answers |
//! | --- | --- |
//! | [`model`] | What is a goroutine? What runs it, when does it end, and what if it panics? |
//! | [`blocking`] | What may block? What does it cost, and how do I stop waiting? |
//! | `ordinary` (feature `transparent`) | Do std, other crates and C libraries park the goroutine or hold a thread? |
//! | [`preemption`] | What happens to a loop that never calls anything? |
//! | [`stacks`] | How large is a stack, and when do I have to think about it? |
//! | [`inside`] | What is my program doing, and why does it not continue? |
//! | [`from_go`] | I know Go: what are things called here, and what is different? |
//! | [`from_tokio`] | I know Tokio: what do I no longer need, and what do I lose? |
//! | [`from_threads`] | I use threads: what changes if I replace them? |
//! | [`safety`] | Why is [`spawn`](crate::spawn) safe? What does that rely on, and how do I check it? |
//!
//! If you remember only one sentence, remember this: **to the code inside it, a goroutine is a thread.**
//! Write what you would write for a thread, and start as many goroutines as you like.

pub mod blocking;
pub mod from_go;
pub mod from_threads;
pub mod from_tokio;
pub mod inside;
pub mod model;
#[cfg(feature = "transparent")]
#[cfg_attr(docsrs, doc(cfg(feature = "transparent")))]
pub mod ordinary;
pub mod preemption;
pub mod safety;
pub mod stacks;
