//! Behaviour of `gort::sync`, as its users see it. The same bodies run in each form: what they spawn are
//! plain threads here; a file like `threads.rs` that takes `spawn` and `scope` from elsewhere adds a form.

mod support;
mod threads;
