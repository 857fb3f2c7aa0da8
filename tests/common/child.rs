//! Running a test, or a part of it, in a process of its own.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{full, patience};

const CHILD: &str = "GORT_TEST_CHILD";

/// Whether [`child`] started this process to play `part`.
pub(crate) fn is_child(part: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|value| value == part)
}

/// A command that runs the test `test` of this binary in a process of its own, where [`is_child`] is true for
/// `part`. The test must play that part and return.
pub(crate) fn child(test: &str, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, part);
    for name in ["GOMAXPROCS", "GORT_MAXPROCS", "GODEBUG", "GORT_DEBUG", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    command
}

/// How a child ended, and what it printed.
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
}

impl Printed {
    /// The value of the line `name=value` on stdout. The test harness may have put words before it.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> &str {
        let key = format!("{name}=");
        let line = self.stdout.lines().find_map(|line| line.split_once(&key).map(|(_, value)| value));
        match line {
            Some(value) => value,
            None => panic!("no {name} in\n{}\n{}", self.stdout, self.stderr),
        }
    }
}

/// How long a child may run. Its own watchdogs bark before, so this is for children without one.
fn lifetime() -> Duration {
    patience() * if full() { 20 } else { 1 } + Duration::from_secs(40)
}

/// Collects what comes from a pipe, in a thread of its own.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Collector {
    fn start(mut pipe: impl Read + Send + 'static) -> Collector {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let collected = bytes.clone();
        let thread = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut piece) {
                collected.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        Collector { bytes, thread }
    }

    /// Waits for the end of the pipe until `deadline`: a process that the child left behind may keep it open.
    fn text(self, deadline: Instant) -> String {
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

fn wait_until(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status),
            None if Instant::now() >= deadline => return None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Runs the child to its end. A child that hangs is told to print its goroutines (SIGQUIT) and is killed, and
/// the test fails.
#[track_caller]
pub(crate) fn run(mut command: Command) -> Printed {
    let lifetime = lifetime();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = Collector::start(child.stdout.take().unwrap());
    let stderr = Collector::start(child.stderr.take().unwrap());
    let ended = wait_until(&mut child, Instant::now() + lifetime);
    let moments = Duration::from_secs(5);
    let status = ended.unwrap_or_else(|| {
        // SAFETY: our own child, which was not waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGQUIT) };
        wait_until(&mut child, Instant::now() + moments);
        let _it_may_have_ended = child.kill();
        child.wait().unwrap()
    });
    let deadline = Instant::now() + moments;
    let printed = Printed { stdout: stdout.text(deadline), stderr: stderr.text(deadline), status };
    assert!(
        ended.is_some(),
        "the child hung for {lifetime:?}\n--- stdout\n{}\n--- stderr\n{}",
        printed.stdout,
        printed.stderr
    );
    printed
}

/// Runs the child, which must succeed.
#[track_caller]
pub(crate) fn run_ok(command: Command) -> Printed {
    let printed = run(command);
    assert!(
        printed.status.success(),
        "the child failed: {}\n--- stdout\n{}\n--- stderr\n{}",
        printed.status,
        printed.stdout,
        printed.stderr
    );
    printed
}

/// Runs the test `test` alone, in a process of its own. Returns true in that process, which must go on with
/// the test. Returns false in the process that started it and has waited for its success: there the test must
/// return.
#[track_caller]
pub(crate) fn alone(test: &str) -> bool {
    alone_with(test, &[])
}

/// Like [`alone`], with these variables in the environment of the new process.
#[track_caller]
pub(crate) fn alone_with(test: &str, variables: &[(&str, &str)]) -> bool {
    if is_child("alone") {
        return true;
    }
    let mut child = child(test, "alone");
    child.envs(variables.iter().copied());
    print!("{}", run_ok(child).stdout);
    false
}

/// Like [`alone`], and panics print nothing in the new process.
#[track_caller]
pub(crate) fn alone_quietly(test: &str) -> bool {
    if !alone(test) {
        return false;
    }
    gort::run(|| {}); // The runtime installs a panic hook of its own when it starts.
    std::panic::set_hook(Box::new(|_| {}));
    true
}
