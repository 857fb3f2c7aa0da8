//! The guide: what goroutines are, what they cost, and how to live with them.
//!
//! There is no code in here; every example is run as a test.
//!
//! | chapter | answers |
//! | --- | --- |
//! | [`model`] | What is a goroutine? Who runs it, when does it end, what if it panics? |
//! | [`blocking`] | What may block? What does it cost, and how do I give up waiting? |
//! | [`preemption`] | What happens to a loop that never calls anything? |
//! | [`stacks`] | How large is a stack, and when do I have to think about it? |
//! | [`inside`] | What is my program doing, and why does it not go on? |
//! | [`from_go`] | I know Go: what is it called here, and what is different? |
//! | [`from_tokio`] | I know Tokio: what do I no longer need, and what do I lose? |
//! | [`from_threads`] | I have threads: what changes if I replace them? |
//! | [`safety`] | Why is [`spawn`](crate::spawn) safe? What does that rely on, and how do I check it? |
//!
//! If you read only one thing: **to the code inside it, a goroutine is a thread.** Write what you would write for a
//! thread, and start as many as you like.

pub mod blocking;
pub mod from_go;
pub mod from_threads;
pub mod from_tokio;
pub mod inside;
pub mod model;
pub mod preemption;
pub mod safety;
pub mod stacks;
