//! Child processes, in the shape of `std::process`: waiting for one, and reading from or writing to it, parks the goroutine
//! and keeps neither its thread nor its P.
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
