//! The table of peers, and the functions that build their executables.

use crate::golang;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A peer: one row in every table.
pub struct Peer {
    /// The name in tables.
    pub name: &'static str,
    /// The program that runs as this peer; several peers may share one.
    pub program: &'static str,
    /// The variant that the program is asked to run, if any.
    pub variant: Option<&'static str>,
    /// The colour in plots.
    pub colour: &'static str,
}

const fn peer(
    name: &'static str,
    program: &'static str,
    variant: Option<&'static str>,
    colour: &'static str,
) -> Peer {
    Peer { name, program, variant, colour }
}

/// All peers, in the order in which they are shown.
pub const PEERS: &[Peer] = &[
    peer("gort", "gort", None, "#c8442d"),
    peer("gort-shared", "gort", Some("shared"), "#e08a6d"),
    peer("gort-unmarked", "gort", Some("unmarked"), "#eab8a4"),
    peer("gort-flight", "gort", Some("flight"), "#a23a6b"),
    peer("gort-traced", "gort", Some("traced"), "#c97ba2"),
    peer("gort-std", "gort-std", None, "#7d4fa3"),
    peer("go", "go", None, "#3a86a8"),
    peer("tokio", "tokio", None, "#57754f"),
    peer("tokio-naive", "tokio", Some("naive"), "#a9c09f"),
    peer("may", "may", None, "#b58b2a"),
    peer("std", "std", None, "#8a8a8a"),
    peer("raw", "std", Some("raw"), "#c4c4c4"),
    peer("rayon", "std", Some("rayon"), "#4f6d9a"),
];

/// The gort peer of another build, for `--before`. Each takes part where its counterpart in [`PEERS`] does.
pub const BEFORE: &[Peer] = &[
    peer("before", "before", None, "#555555"),
    peer("before-shared", "before", Some("shared"), "#777777"),
    peer("before-unmarked", "before", Some("unmarked"), "#999999"),
    peer("before-std", "before-std", None, "#bbbbbb"),
];

impl Peer {
    /// The name under which the workloads list it.
    pub fn listed_as(&self) -> &'static str {
        match (self.program, self.variant) {
            ("before", None) => "gort",
            ("before", Some("shared")) => "gort-shared",
            ("before", Some(_)) => "gort-unmarked",
            ("before-std", _) => "gort-std",
            _ => self.name,
        }
    }
}

/// The programs that were built, or the reasons why they could not be built.
pub type Built = HashMap<&'static str, Result<Program, String>>;

/// A program that was built.
pub struct Program {
    pub path: PathBuf,
    /// The name and version, for the head of the Markdown file.
    pub version: String,
    /// The parts that are missing because they did not compile.
    pub lacks: Option<String>,
}

/// Parts of gort that the gort peer has behind cargo features of the same name. If the peer does not compile
/// with all of them, the driver builds it with those that compile: a broken channel does not hide the figures
/// of the scheduler.
const GORT_FEATURES: [&str; 5] = ["chan", "sync", "time", "block", "net"];

/// The environment variable that tells the peers the path of the network client.
pub const CLIENT_VARIABLE: &str = "COMPARE_CLIENT";
static CLIENT: OnceLock<PathBuf> = OnceLock::new();

/// The path of the network client, if it was built.
pub fn client() -> Option<&'static Path> {
    CLIENT.get().map(PathBuf::as_path)
}

/// Builds the programs that `peers` need. `home` is the directory `compare/`; `before` the program of
/// [`BEFORE`].
pub fn build(home: &Path, peers: &[&'static Peer], before: Option<&Path>) -> Built {
    let mut built = Built::new();
    match cargo_package(home, "compare-client", &[]) {
        Ok(path) => drop(CLIENT.set(path)),
        Err(why) => eprintln!("no network workloads: the client {why}"),
    }
    for peer in peers {
        if !built.contains_key(peer.program) {
            eprintln!("building {} …", peer.program);
            built.insert(
                peer.program,
                match peer.program {
                    "go" => build_go(home),
                    "gort" => build_gort(home),
                    "before" => before_program(before.map(Path::to_path_buf)),
                    // It lies beside the other one.
                    "before-std" => before_program(before.map(|path| path.with_file_name("peer-gort-std"))),
                    program => cargo_build(home, program, &[]),
                },
            );
        }
    }
    built
}

fn before_program(path: Option<PathBuf>) -> Result<Program, String> {
    let path = path.filter(|path| path.is_file()).ok_or("is not there")?;
    Ok(Program { path, version: "gort of another build".into(), lacks: None })
}

fn build_gort(home: &Path) -> Result<Program, String> {
    let build = |features: &[&str]| cargo_build(home, "gort", &["--features", &features.join(",")]);
    let whole = build(&GORT_FEATURES);
    let Err(why) = whole else { return whole };
    let (kept, lost): (Vec<&str>, Vec<&str>) = GORT_FEATURES.into_iter().partition(|f| build(&[f]).is_ok());
    let mut program = build(&kept)?;
    let chain = "; without chan, `parked` is a chain of joins, whose wake-up cannot be compared";
    let chain = if lost.contains(&"chan") { chain } else { "" };
    program.lacks = Some(format!("built without {}: {why}{chain}", lost.join(", ")));
    Ok(program)
}

fn cargo_build(home: &Path, program: &str, more: &[&str]) -> Result<Program, String> {
    let path = cargo_package(home, &format!("peer-{program}"), more)?;
    let crate_name = match program {
        "std" => "rustc",
        "gort-std" => "gort",
        crate_name => crate_name,
    };
    Ok(Program { path, version: version_of(home, crate_name), lacks: None })
}

/// Builds a package whose only binary has the package's name, and returns the path of the binary.
fn cargo_package(home: &Path, package: &str, more: &[&str]) -> Result<PathBuf, String> {
    let target = home.join("target");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(home).args(["build", "--release", "--quiet", "--package", package]);
    cargo.args(more).arg("--target-dir").arg(&target);
    succeed(&mut cargo)?;
    Ok(target.join("release").join(package))
}

fn build_go(home: &Path) -> Result<Program, String> {
    let go = golang::find(home)?;
    let path = home.join("out/bin/peer-go");
    let mut build = go.command();
    build.current_dir(home.join("peers/go")).args(["build", "-o"]).arg(&path).arg(".");
    succeed(&mut build)?;
    Ok(Program { path, version: go.version, lacks: None })
}

/// The version of the crate that a peer represents, from the lock file; for rustc, the version that it
/// prints.
fn version_of(home: &Path, name: &str) -> String {
    if name == "rustc" {
        let said = Command::new("rustc").arg("--version").output();
        let said = said.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
        return format!("std of {said}");
    }
    let lock = std::fs::read_to_string(home.join("Cargo.lock")).unwrap_or_default();
    format!("{name} {}", locked_version(&lock, name).unwrap_or("of unknown version"))
}

fn locked_version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let entry = format!("name = \"{name}\"");
    let after = lock.lines().skip_while(|line| *line != entry).nth(1)?;
    after.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Runs `command`. If it fails, the error contains the first lines of its messages.
fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {}: {e}", command.get_program().to_string_lossy()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("does not build: {}", first_errors(&String::from_utf8_lossy(&output.stderr))))
}

/// The first lines that report an error, or the last line if there is none.
fn first_errors(text: &str) -> String {
    let mut errors: Vec<&str> =
        text.lines().filter(|l| l.starts_with("error")).take(3).map(str::trim).collect();
    if errors.is_empty() {
        errors.extend(text.lines().rfind(|l| !l.trim().is_empty()).map(str::trim));
    }
    errors.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_version_is_that_of_the_exact_name() {
        let lock = "[[package]]\nname = \"tokio-macros\"\nversion = \"2.0.0\"\n\n\
                    [[package]]\nname = \"tokio\"\nversion = \"1.54.1\"\n";
        assert_eq!(locked_version(lock, "tokio"), Some("1.54.1"));
        assert_eq!(locked_version(lock, "may"), None);
    }

    #[test]
    fn first_errors_skip_the_noise() {
        let text = "warning: unused\nerror[E0425]: no `go` in gort\n --> src/main.rs\nerror: aborting\n";
        assert_eq!(first_errors(text), "error[E0425]: no `go` in gort; error: aborting");
        assert_eq!(first_errors("first\nlast words\n\n"), "last words");
    }
}
