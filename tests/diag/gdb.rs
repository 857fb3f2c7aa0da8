//! gdb, with the script that is in every program, shows goroutines: of a process that it attaches to, of a
//! core file, and of a process that it starts. The tests are skipped where gdb is missing or may not attach.

#[path = "../common/mod.rs"]
mod common;

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Printed, TempDir, Watchdog, amount, named, until};

const HOUR: Duration = Duration::from_secs(3600);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The names of the goroutines of [`debuggee`], and the function that each is in.
const IN_FUNCTION: [(&str, &str); 8] = [
    ("receiver", "gdb::receives_from_channel"),
    ("locker", "gdb::locks_mutex"),
    ("sleeper", "gdb::sleeps_long"),
    ("marked", "gdb::blocks_marked"),
    ("unmarked", "gdb::blocks_unmarked"),
    ("loop 1", "gdb::computes"),
    ("loop 2", "gdb::computes"),
    ("loop 3", "gdb::computes"),
];

#[inline(never)]
fn receives_from_channel(receiver: &gort::chan::Receiver<()>) {
    let _ = black_box(receiver.recv());
}

#[inline(never)]
fn locks_mutex(mutex: &gort::sync::Mutex<u32>) {
    *mutex.lock() += black_box(1);
}

#[inline(never)]
fn sleeps_long() {
    gort::sleep(HOUR);
    black_box(());
}

#[inline(never)]
fn computes() {
    loop {
        COUNT.fetch_add(black_box(1), Ordering::Relaxed);
    }
}

#[inline(never)]
fn blocks_marked() {
    gort::blocking(|| std::thread::sleep(black_box(HOUR)));
    black_box(());
}

#[inline(never)]
fn blocks_unmarked() {
    std::thread::sleep(black_box(HOUR));
    black_box(());
}

/// Two Ps; any process may attach.
fn prepare() {
    gort::runtime::set_max_procs(2);
    // SAFETY: no pointers are passed. The call fails where the kernel does not restrict tracers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

/// Says that all is as it should be, and ends when the test does not need this process any more.
fn stay() -> ! {
    println!("\nready");
    let _the_test_has_ended = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// Two Ps: two loops run, and one waits for its turn, stopped by a signal.
fn debuggee() -> ! {
    prepare();
    let (_sender, receiver) = gort::chan::bounded::<()>(0);
    let mutex = Arc::new(gort::sync::Mutex::new(0));
    let _held = mutex.lock();
    let waits = Arc::clone(&mutex);
    let _all = [
        named("receiver", move || receives_from_channel(&receiver)),
        named("locker", move || locks_mutex(&waits)),
        named("sleeper", sleeps_long),
        named("marked", blocks_marked),
        named("unmarked", blocks_unmarked),
        named("loop 1", computes),
        named("loop 2", computes),
        named("loop 3", computes),
    ];
    until("all are where they should be", || {
        let stats = gort::runtime::stats();
        let (now, by_signal) = (stats.goroutines, stats.preempted_by_signal);
        now.waiting == 3 && now.syscall == 2 && by_signal > 10
    });
    stay()
}

/// Many goroutines in the same place.
fn crowd() -> ! {
    prepare();
    let (_sender, receiver) = gort::chan::bounded::<()>(0);
    for _ in 0..amount(500, 100_000) {
        let receiver = receiver.clone();
        drop(gort::spawn(move || receives_from_channel(&receiver)));
    }
    until("all wait", || gort::runtime::stats().goroutines.waiting == amount(500, 100_000));
    stay()
}

/// A process that waits for the debugger. The drop ends it.
struct Debuggee(Child);

impl Debuggee {
    fn start(test: &str) -> Debuggee {
        let mut command = common::child(test, "debuggee");
        // gdb's gcore cannot read stacks whose guards are no mappings.
        command.env("GORT_GUARD", "mprotect");
        // A small core file.
        command.env("GORT_MAX_STACK", "64K");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == "ready");
        assert!(ready, "the process to debug failed");
        Debuggee(child)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Debuggee {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _so_may_this = self.0.wait();
    }
}

/// Runs gdb with these arguments and these commands. `None`: it is missing or may not attach.
fn gdb(arguments: &[&str], commands: &[&str]) -> Option<String> {
    if !Command::new("gdb").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: gdb is not installed");
        return None;
    }
    let mut command = Command::new("gdb");
    command.args([
        "-nx",
        "-batch",
        "-iex",
        "set auto-load safe-path /",
        "-iex",
        "set debuginfod enabled off",
    ]);
    command.args(commands.iter().flat_map(|command| ["-ex", command]));
    command.args(arguments);
    let Printed { stdout, stderr, .. } = common::run(command);
    if stderr.contains("ptrace: Operation not permitted") {
        println!("skipped: gdb may not attach here");
        return None;
    }
    for bad in ["Backtrace stopped", "Python Exception", "Traceback", "in ?? ()"] {
        assert!(!stdout.contains(bad) && !stderr.contains(bad), "{bad}\n{stdout}\n--- stderr\n{stderr}");
    }
    Some(stdout + &stderr)
}

/// The part of the output of `goroutine all …` that is about the goroutine of this name.
#[track_caller]
fn part_of<'a>(output: &'a str, name: &str) -> &'a str {
    let name = format!("{{{name}}}");
    let mut parts = output.split("\n\n").filter_map(|part| part.trim_start().strip_prefix("goroutine "));
    parts.find(|part| part.contains(&name)).unwrap_or_else(|| panic!("no {name} in\n{output}"))
}

#[track_caller]
fn assert_shows_all(output: &str) {
    for (name, function) in IN_FUNCTION {
        let list: Vec<_> = output.lines().filter(|line| line.contains(&format!("{{{name}}}"))).collect();
        assert!(list[0].contains(function), "{}", list[0]);
        let part = part_of(output, name);
        assert!(part.contains(function), "{name} is not in {function}:\n{part}");
        assert!(part.contains("created by a thread outside of gort at tests/diag/gdb.rs:"), "{part}");
        let frames: Vec<_> = part.lines().filter(|line| line.starts_with('#')).collect();
        assert!(frames.last().unwrap().contains("gort_first_frame"), "{part}");
    }
    for state in ["[chan receive", "[sync.Mutex.Lock", "[sleep", "[syscall] {marked}", "[syscall] {unmarked}"]
    {
        assert!(output.contains(state), "no {state} in\n{output}");
    }
    // Two loops run at most.
    let is_stopped = |name: &str| name.starts_with("loop") && !part_of(output, name).contains("\n#0 ");
    assert!(IN_FUNCTION.iter().any(|(name, _)| is_stopped(name)), "{output}");
    assert!(output.contains("There is no goroutine 999999."), "{output}");
}

const SHOW_ALL: [&str; 3] = ["info goroutines", "goroutine all bt", "goroutine 999999 bt"];

/// Whether `core` was written.
fn show_process_and_write_core(test: &str, core: &Path) -> bool {
    let debuggee = Debuggee::start(test);
    let write = format!("gcore {}", core.display());
    let commands = [&SHOW_ALL[..], &["thread apply all bt", &write]].concat();
    let Some(output) = gdb(&["-p", &debuggee.id()], &commands) else { return false };
    assert_shows_all(&output);
    let threads = output.split("\nThread ").skip(1);
    let of_loops: Vec<_> = threads.filter(|thread| thread.contains("gdb::computes")).collect();
    assert!(!of_loops.is_empty(), "{output}");
    for thread in of_loops {
        let last = thread.lines().rfind(|line| line.starts_with('#')).unwrap();
        assert!(last.contains("gort_first_frame"), "{thread}");
    }
    true
}

#[test]
fn goroutines_of_a_process_and_of_its_core_file_are_shown() {
    const NAME: &str = "goroutines_of_a_process_and_of_its_core_file_are_shown";
    if common::is_child("debuggee") {
        debuggee();
    }
    let _watchdog = Watchdog::start();
    let folder = TempDir::new();
    let core = folder.path().join("core");
    if show_process_and_write_core(NAME, &core) {
        let program = std::env::current_exe().unwrap();
        let both = [program.to_str().unwrap(), core.to_str().unwrap()];
        assert_shows_all(&gdb(&both, &SHOW_ALL).unwrap());
    }
}

#[test]
fn a_command_runs_in_the_frames_of_a_goroutine() {
    const NAME: &str = "a_command_runs_in_the_frames_of_a_goroutine";
    if common::is_child("debuggee") {
        debuggee();
    }
    let _watchdog = Watchdog::start();
    let debuggee = Debuggee::start(NAME);
    let find = "python number = next(g.id for g in Runtime.now().goroutines() if g.name() == 'sleeper')";
    let within = "python gdb.execute('goroutine %d frame function gdb::sleeps_long' % number)";
    let stay = "python gdb.execute('goroutine %d' % number)";
    let commands = [find, within, "echo before\\n", "bt 1", stay, "bt 1", "goroutine off", "bt 1"];
    let Some(output) = gdb(&["-p", &debuggee.id()], &commands) else { return };
    let frames: Vec<_> = output.lines().filter(|line| line.starts_with('#')).collect();
    let [in_goroutine, thread, entered, again, left] = frames[frames.len() - 5..] else { unreachable!() };
    assert!(in_goroutine.contains("gdb::sleeps_long"), "{output}");
    assert!(thread.starts_with("#0") && left == thread, "{output}");
    assert!(entered.starts_with("#1") && entered.contains("switch") && again.starts_with("#1"), "{output}");
}

#[test]
fn a_crowd_is_counted_by_function() {
    const NAME: &str = "a_crowd_is_counted_by_function";
    if common::is_child("debuggee") {
        crowd();
    }
    let _watchdog = Watchdog::start();
    let debuggee = Debuggee::start(NAME);
    let Some(output) = gdb(&["-p", &debuggee.id()], &["info goroutines -summary"]) else { return };
    let counted = format!("{}  [chan receive]  gdb::receives_from_channel", amount(500, 100_000));
    assert!(output.contains(&counted), "{output}");
}

#[test]
fn a_breakpoint_knows_its_goroutine() {
    const NAME: &str = "a_breakpoint_knows_its_goroutine";
    if common::is_child("debuggee") {
        let sleeper = named("sleeper", sleeps_long);
        println!("\nid={}", sleeper.id());
        let _never = sleeper.join();
    }
    let _watchdog = Watchdog::start();
    let program = std::env::current_exe().unwrap();
    let arguments = ["--args", program.to_str().unwrap(), NAME, "--exact", "--nocapture", "--test-threads=1"];
    let set = "set environment GORT_TEST_CHILD debuggee";
    let stop = "break gdb::sleeps_long if $goroutine() != 0";
    let commands = [set, stop, "run", "print $goroutine()", "info goroutines", "bt", "kill"];
    let Some(output) = gdb(&arguments, &commands) else { return };
    let id = output.split("\n$1 = ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let line = output.lines().find(|line| line.starts_with(&format!("* {id} "))).unwrap_or_default();
    assert!(line.contains("{sleeper} on thread") && line.contains("gdb::sleeps_long"), "{output}");
    let frames: Vec<_> = output.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames.last().unwrap().contains("gort_first_frame"), "{output}");
}
