//! `gort compare`: runs the driver in `compare/`, which is a cargo workspace of its own in gort's checkout.
//!
//! The comparison builds the peers from source, so it needs the checkout. The driver does all the work; this
//! command passes its options on and returns its exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::args::CompareArgs;

/// The directory that this program was built from. It may no longer exist if the program was installed.
const BUILT_IN: &str = env!("CARGO_MANIFEST_DIR");

pub(crate) fn main(args: &CompareArgs) -> ExitCode {
    let directory = match locate(args) {
        Ok(directory) => directory,
        Err(message) => {
            eprintln!("gort: {message}");
            return ExitCode::FAILURE;
        }
    };
    match command(args, &directory).status() {
        Ok(status) => match status.code() {
            Some(0) => ExitCode::SUCCESS,
            Some(2) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("gort: cannot run cargo, which builds the comparison: {error}");
            ExitCode::FAILURE
        }
    }
}

fn locate(args: &CompareArgs) -> Result<PathBuf, String> {
    if let Some(directory) = &args.dir {
        return if is_compare(directory) {
            Ok(directory.clone())
        } else {
            Err(format!("{} is not the directory compare/ of a checkout of gort", directory.display()))
        };
    }
    let here = std::env::current_dir().unwrap_or_default();
    let built = Path::new(BUILT_IN).parent().map(|root| root.join("compare"));
    upward(&here).or(built.filter(|directory| is_compare(directory))).ok_or_else(|| {
        format!(
            "cannot find the comparison: neither {} nor a parent directory has compare/driver. It builds its \
             peers from source, so run it in a checkout of gort, or name its directory compare/ with --dir",
            here.display()
        )
    })
}

/// `compare/` in this directory or in the nearest parent directory that has it.
fn upward(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|directory| directory.join("compare")).find(|directory| is_compare(directory))
}

fn is_compare(directory: &Path) -> bool {
    directory.join("driver/Cargo.toml").is_file()
}

fn command(args: &CompareArgs, directory: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "compare", "--manifest-path"]);
    cargo.arg(directory.join("Cargo.toml")).arg("--");
    let pairs = [
        ("--only", args.only.clone()),
        ("--peers", args.peers.clone()),
        ("--rounds", args.rounds.map(|n| n.to_string())),
        ("--procs", args.procs.map(|n| n.to_string())),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            cargo.args([name, &value]);
        }
    }
    if let Some(file) = &args.json {
        cargo.arg("--json").arg(file);
    }
    for (name, set) in [("--quick", args.quick), ("--list", args.list)] {
        if set {
            cargo.arg(name);
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_found_from_any_below() {
        let here = Path::new(BUILT_IN);
        let found = upward(&here.join("src")).unwrap();
        assert_eq!(found, here.parent().unwrap().join("compare"));
        assert_eq!(upward(Path::new("/")), None);
    }

    #[test]
    fn options_are_passed_on() {
        let args = CompareArgs {
            only: Some("core,yield".into()),
            peers: None,
            rounds: Some(3),
            procs: None,
            quick: true,
            list: false,
            json: Some("a file".into()),
            dir: None,
        };
        let command = command(&args, Path::new("there"));
        let passed: Vec<_> = command.get_args().skip_while(|arg| *arg != "--").skip(1).collect();
        assert_eq!(passed, ["--only", "core,yield", "--rounds", "3", "--json", "a file", "--quick"]);
    }
}
