//! Starting a process.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{self, CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use super::child::Child;

/// Describes a process and starts it. All of `std::process::Command`; what is missing here can be set through
/// [`as_std_mut`](Command::as_std_mut).
///
/// ```
/// use gort::process::{Command, Stdio};
/// use std::io::{Read, Write};
///
/// gort::run(|| {
///     let mut child = Command::new("tr").args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
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
    /// Which of the standard streams were set: what is not set has other defaults in `output` than in `spawn`.
    set: [bool; 3],
}

impl Command {
    /// A process that runs `program`, which is looked for in PATH, with this process's environment, directory and standard
    /// streams.
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

    /// Takes an environment variable away.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.inner.env_remove(key);
        self
    }

    /// Takes all environment variables away.
    pub fn env_clear(&mut self) -> &mut Command {
        self.inner.env_clear();
        self
    }

    /// Where the process starts.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.inner.current_dir(dir);
        self
    }

    /// Its standard input: inherited, or nothing for [`output`](Command::output), if not set.
    pub fn stdin<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.set[0] = true;
        self.inner.stdin(stdio);
        self
    }

    /// Its standard output: inherited, or a pipe for [`output`](Command::output), if not set.
    pub fn stdout<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.set[1] = true;
        self.inner.stdout(stdio);
        self
    }

    /// Its standard error: inherited, or a pipe for [`output`](Command::output), if not set.
    pub fn stderr<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.set[2] = true;
        self.inner.stderr(stdio);
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    /// If there is no such program, or no room for another process.
    pub fn spawn(&mut self) -> io::Result<Child> {
        crate::blocking(|| self.inner.spawn()).map(Child::from)
    }

    /// Runs the process to its end and collects what it prints.
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn), and those of reading from it.
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
    /// As [`spawn`](Command::spawn).
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

    /// The environment variables that were set or taken away.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.inner.get_envs()
    }

    /// Where the process starts, if that was set.
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.inner.get_current_dir()
    }

    /// std's own, for settings of `std::os::unix::process::CommandExt`. Standard streams are better set here:
    /// [`output`](Command::output) would not know of it.
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
