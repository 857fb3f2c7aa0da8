//! The parent's ends of the pipes to a child: its standard input, output and error.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{self, Stdio};

use crate::io::Pollable;

macro_rules! pipe {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name(Pollable<process::$name>);

        impl From<process::$name> for $name {
            fn from(pipe: process::$name) -> $name {
                $name(Pollable::new(pipe))
            }
        }

        impl From<$name> for process::$name {
            fn from(pipe: $name) -> process::$name {
                pipe.0.into_inner()
            }
        }

        impl From<$name> for OwnedFd {
            fn from(pipe: $name) -> OwnedFd {
                pipe.0.into_inner().into()
            }
        }

        /// Makes the pipe a standard stream of another child.
        impl From<$name> for Stdio {
            fn from(pipe: $name) -> Stdio {
                pipe.0.into_inner().into()
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

macro_rules! readable {
    ($name:ident) => {
        impl Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.read_vectored(bufs)
            }
        }
    };
}

pipe! {
    /// Writes to a child's standard input. Dropping it closes the pipe, so that the child sees the end of its
    /// input.
    ChildStdin
}
pipe! {
    /// Reads a child's standard output.
    ChildStdout
}
pipe! {
    /// Reads a child's standard error.
    ChildStderr
}
readable!(ChildStdout);
readable!(ChildStderr);

impl Write for ChildStdin {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Write for &ChildStdin {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&self.0).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.0).flush()
    }
}
