//! [`Command`]: describes and starts a child process.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{self, CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use super::child::Child;

/// Describes a process and starts it, like `std::process::Command`. Settings that are missing here can be
/// made through [`as_std_mut`](Command::as_std_mut).
///
/// ```
/// use gort::process::{Command, Stdio};
/// use std::io::{Read, Write};
///
/// gort::run(|| {
///     let mut child =
///         Command::new("tr").args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
///     child.stdin.take().unwrap().write_all(b"goroutine")?; // and closes it
///     let mut shouted = String::new();
///     child.stdout.take().unwrap().read_to_string(&mut shouted)?;
///     assert_eq!(shouted, "GOROUTINE");
///     assert!(child.wait()?.success());
///     std::io::Result::Ok(())
/// })
/// .unwrap();
/// ```
pub struct Command {
    inner: process::Command,
    /// Which of the standard streams the user has set. The defaults of the others differ between `output` and
    /// `spawn`.
    set: [bool; 3],
}

impl Command {
    /// Describes a process that runs `program`, searched for in PATH, with this process's environment,
    /// directory and standard streams.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Command::from(process::Command::new(program))
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.inner.arg(arg);
        self
    }

    /// Adds several arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.inner.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, key: K, value: V) -> &mut Command {
        self.inner.env(key, value);
        self
    }

    /// Sets several environment variables.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.inner.envs(vars);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.inner.env_remove(key);
        self
    }

    /// Removes all environment variables.
    pub fn env_clear(&mut self) -> &mut Command {
        self.inner.env_clear();
        self
    }

    /// Sets the directory in which the process starts.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.inner.current_dir(dir);
        self
    }

    /// Sets its standard input. The default is to inherit it; for [`output`](Command::output), it is empty.
    pub fn stdin<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.set[0] = true;
        self.inner.stdin(stdio);
        self
    }

    /// Sets its standard output. The default is to inherit it; for [`output`](Command::output), it is a pipe.
    pub fn stdout<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.set[1] = true;
        self.inner.stdout(stdio);
        self
    }

    /// Sets its standard error. The default is to inherit it; for [`output`](Command::output), it is a pipe.
    pub fn stderr<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.set[2] = true;
        self.inner.stderr(stdio);
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    /// If there is no such program, or the system cannot start another process.
    pub fn spawn(&mut self) -> io::Result<Child> {
        crate::blocking(|| self.inner.spawn()).map(Child::from)
    }

    /// Runs the process to its end and collects what it prints.
    ///
    /// # Errors
    /// The errors of [`spawn`](Command::spawn), and those of reading what the process prints.
    pub fn output(&mut self) -> io::Result<Output> {
        self.set_defaults(Stdio::null, Stdio::piped);
        let child = self.spawn();
        self.set_defaults(Stdio::inherit, Stdio::inherit);
        let mut child = child?;
        drop(child.stdin.take());
        child.wait_with_output()
    }

    /// Sets the standard streams that the user did not set.
    fn set_defaults(&mut self, input: fn() -> Stdio, output: fn() -> Stdio) {
        let [stdin, stdout, stderr] = self.set;
        if !stdin {
            self.inner.stdin(input());
        }
        if !stdout {
            self.inner.stdout(output());
        }
        if !stderr {
            self.inner.stderr(output());
        }
    }

    /// Runs the process to its end.
    ///
    /// # Errors
    /// The errors of [`spawn`](Command::spawn) and of [`Child::wait`].
    ///
    /// ```
    /// let status = gort::run(|| gort::process::Command::new("sh").args(["-c", "exit 3"]).status()).unwrap();
    /// assert_eq!(status.code(), Some(3));
    /// ```
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// The program.
    pub fn get_program(&self) -> &OsStr {
        self.inner.get_program()
    }

    /// The arguments.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.inner.get_args()
    }

    /// The environment variables that were set or removed.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.inner.get_envs()
    }

    /// The directory in which the process starts, if that was set.
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.inner.get_current_dir()
    }

    /// The inner `std::process::Command`, for the settings of `std::os::unix::process::CommandExt`. Do not
    /// set standard streams through it: [`output`](Command::output) would replace them by its defaults.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.inner
    }
}

impl From<process::Command> for Command {
    fn from(inner: process::Command) -> Command {
        Command { inner, set: [false; 3] }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
