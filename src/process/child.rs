//! [`Child`]: a running child process.
//!
//! To wait for its end, a goroutine waits in the netpoller for the child's pidfd, which becomes readable when
//! the process ends. If there is no pidfd (an old kernel, a sandbox, no descriptors left), the wait is a
//! blocking call.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::process::{self, ExitStatus, Output};

use super::pipe::{ChildStderr, ChildStdin, ChildStdout};
use crate::io::Pollable;
use crate::sys::process::pidfd;

/// A process that [`Command::spawn`](super::Command::spawn) started. As with std, dropping a `Child` neither
/// ends the process nor waits for it.
#[derive(Debug)]
pub struct Child {
    /// Its standard input, if that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, if that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, if that is a pipe.
    pub stderr: Option<ChildStderr>,
    inner: process::Child,
    /// The pidfd. `None` if there is none: then the wait has to block its thread.
    end: Option<Pollable<OwnedFd>>,
}

/// Takes over a child that std started.
impl From<process::Child> for Child {
    fn from(mut inner: process::Child) -> Child {
        // If its status is known, std has waited for it, and its pid may belong to another process by now.
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

    /// Ends the process with SIGKILL. It is not an error if the process has already ended.
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
    /// If this process may not send it a signal.
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner.kill()
    }

    /// The exit status, if the process has ended.
    ///
    /// # Errors
    /// If other code has already waited for it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Waits until the process ends. Closes its standard input first, because a child that reads it to the
    /// end would otherwise never end.
    ///
    /// # Errors
    /// If other code has already waited for it.
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

    /// Waits until the process ends, and meanwhile reads its standard output and error if they are pipes.
    ///
    /// # Errors
    /// The errors of [`wait`](Child::wait), and those of reading the pipes.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = match (self.stdout.take(), self.stderr.take()) {
            // Read both pipes at once: a child that fills one pipe while its parent waits for the other would
            // never end.
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
