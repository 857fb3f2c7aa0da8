//! A running process.
//!
//! Its end is awaited by the poller, at a pidfd, which becomes readable then. Where there is none (an old kernel, a sandbox, no
//! descriptors left) the wait is a blocking call.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::process::{self, ExitStatus, Output};

use super::pipe::{ChildStderr, ChildStdin, ChildStdout};
use crate::io::Pollable;
use crate::sys::process::pidfd;

/// A process that [`Command::spawn`](super::Command::spawn) started. As with std, dropping it neither ends the process nor
/// waits for it.
#[derive(Debug)]
pub struct Child {
    /// Its standard input, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, if that is a pipe.
    pub stderr: Option<ChildStderr>,
    inner: process::Child,
    /// `None`: the wait has to block.
    end: Option<Pollable<OwnedFd>>,
}

/// Takes over a child that std started.
impl From<process::Child> for Child {
    fn from(mut inner: process::Child) -> Child {
        // If its status is known it was waited for, and its number may be another process's.
        let is_ours = matches!(inner.try_wait(), Ok(None));
        Child {
            stdin: inner.stdin.take().map(ChildStdin::from),
            stdout: inner.stdout.take().map(ChildStdout::from),
            stderr: inner.stderr.take().map(ChildStderr::from),
            end: is_ours.then(|| pidfd(inner.id()).ok().map(Pollable::new)).flatten(),
            inner,
        }
    }
}

impl Child {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Ends the process with SIGKILL. Not an error if it has ended before.
    ///
    /// ```
    /// use std::os::unix::process::ExitStatusExt;
    /// gort::run(|| {
    ///     let mut child = gort::process::Command::new("sleep").arg("1000").spawn()?;
    ///     child.kill()?;
    ///     assert_eq!(child.wait()?.signal(), Some(9));
    ///     std::io::Result::Ok(())
    /// })
    /// .unwrap();
    /// ```
    ///
    /// # Errors
    /// If that is not allowed.
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner.kill()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// If somebody else has waited for it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Waits for its end. Closes its standard input first, so that a child that reads it to the end comes to its own.
    ///
    /// # Errors
    /// If somebody else has waited for it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let Some(end) = self.end.as_ref().filter(|end| end.is_polled()) else {
            return crate::blocking(|| self.inner.wait());
        };
        let inner = RefCell::new(&mut self.inner);
        end.read_with(|_| match inner.borrow_mut().try_wait()? {
            Some(status) => Ok(status),
            None => Err(ErrorKind::WouldBlock.into()),
        })
    }

    /// Waits for its end, and reads its standard output and error meanwhile, as far as they are pipes.
    ///
    /// # Errors
    /// As [`wait`](Child::wait), and those of reading.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = match (self.stdout.take(), self.stderr.take()) {
            // A child that fills one pipe while we wait for the other would never end.
            (Some(stdout), Some(stderr)) => {
                let other = crate::Builder::new().spawn(move || read_all(Some(stderr)))?;
                let stdout = read_all(Some(stdout));
                let stderr = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (stdout?, stderr?)
            }
            (stdout, stderr) => (read_all(stdout)?, read_all(stderr)?),
        };
        Ok(Output { status: self.wait()?, stdout, stderr })
    }
}

fn read_all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
