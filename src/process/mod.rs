//! Child processes, with the interface of `std::process`. Waiting for a child, reading from it and writing to
//! it park the goroutine, which leaves its thread and its P free for others.
//!
//! ```
//! use gort::process::Command;
//!
//! let output = gort::run(|| Command::new("echo").arg("hello").output()).unwrap();
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! ```

mod child;
mod command;
mod pipe;

pub use child::Child;
pub use command::Command;
pub use pipe::{ChildStderr, ChildStdin, ChildStdout};

pub use std::process::{ExitStatus, Output, Stdio};
