//! Real servers, each with a socket and a directory of its own, for the length of one test.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::{TempDir, patience};

/// A server process, which ends with this value, and with the thread that started it.
struct Process {
    child: Child,
    /// The signal that asks it to end.
    stop: i32,
}

impl Process {
    /// `None` if there is no such program.
    fn start(mut command: Command, stop: i32, if_abandoned: i32) -> Option<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: between fork and exec, one system call.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, if_abandoned);
                Ok(())
            });
        }
        match command.spawn() {
            Ok(child) => Some(Process { child, stop }),
            Err(error) => {
                println!("skipped: {} cannot be started: {error}", command.get_program().display());
                None
            }
        }
    }

    #[track_caller]
    fn wait_until_ready(&mut self, what: &str, ready: impl Fn() -> bool) {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{what} ended: {status}");
            }
            assert!(start.elapsed() < patience(), "{what} does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: our own child, which was not waited for.
        unsafe { libc::kill(self.child.id() as i32, self.stop) };
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > Duration::from_secs(20) {
                let _it_may_have_ended = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A redis-server on a Unix socket.
pub(crate) struct Redis {
    _process: Process,
    dir: TempDir,
}

impl Redis {
    /// `None`, and a message, if it is not installed.
    #[track_caller]
    pub(crate) fn start() -> Option<Redis> {
        let dir = TempDir::new();
        let socket = dir.path().join("socket");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--maxclients", "1000"]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(dir.path());
        let mut process = Process::start(command, libc::SIGTERM, libc::SIGKILL)?;
        process.wait_until_ready("redis-server", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Some(Redis { _process: process, dir })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}/socket", self.dir.path().display())
    }
}

/// A PostgreSQL server on a Unix socket, with a new database cluster.
pub(crate) struct Postgres {
    _process: Process,
    dir: TempDir,
}

impl Postgres {
    /// `None`, and a message, if it is not installed.
    #[track_caller]
    pub(crate) fn start() -> Option<Postgres> {
        let Some(programs) = programs_of_postgres() else {
            println!("skipped: there is no PostgreSQL server (Debian's package postgresql)");
            return None;
        };
        let dir = TempDir::new();
        let user = unprivileged();
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(dir.path(), Some(user), Some(group)).unwrap();
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(dir.path()).env_clear().env("LC_ALL", "C");
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command.arg("-D").arg(dir.path().join("data"));
            command
        };
        let mut initdb = command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=gort", "--encoding=UTF8", "--no-locale"]);
        let output = initdb.output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));

        let mut server = command("postgres");
        server.arg("-k").arg(dir.path()).args(["-h", "", "-F"]);
        for setting in ["max_connections=300", "shared_buffers=16MB", "autovacuum=off", "jit=off"] {
            server.args(["-c", setting]);
        }
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        server.stderr(log);
        // SIGINT ends connections and stops; SIGQUIT stops at once, and also removes the shared memory.
        let mut process = Process::start(server, libc::SIGINT, libc::SIGQUIT)?;
        let ready = || {
            let mut client = Command::new(programs.join("pg_isready"));
            client.arg("--quiet").arg("--host").arg(dir.path());
            client.status().is_ok_and(|status| status.success())
        };
        process.wait_until_ready("postgres", ready);
        Some(Postgres { _process: process, dir })
    }

    /// For libpq and for the crate `postgres`.
    pub(crate) fn url(&self) -> String {
        format!("host={} user=gort dbname=postgres", self.dir.path().display())
    }
}

/// Where the programs of the newest PostgreSQL are. Debian keeps those of the server out of the PATH.
fn programs_of_postgres() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort_by_key(|bin| bin.parent().and_then(version_of));
    let mut folders = versions.into_iter().rev().chain(std::env::split_paths(&path));
    folders.find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

fn version_of(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}

/// A user and a group other than root's, if we are root: PostgreSQL refuses to run as root.
fn unprivileged() -> Option<(u32, u32)> {
    // SAFETY: the entries are read before the next call; tests that start a server do nothing else.
    unsafe {
        if libc::geteuid() != 0 {
            return None;
        }
        let users = [c"postgres", c"nobody"].into_iter();
        users
            .flat_map(|name| libc::getpwnam(name.as_ptr()).as_ref().map(|user| (user.pw_uid, user.pw_gid)))
            .next()
    }
}
