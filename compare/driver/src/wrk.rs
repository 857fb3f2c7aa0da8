//! Finds wrk, the client of the HTTP workloads, or installs Debian's package of that name.

use std::process::{Command, Output, Stdio};

/// The version of wrk, such as `wrk debian/4.1.0`, or the reason why there is none.
pub fn find() -> Result<String, String> {
    version().or_else(|missing| install().and_then(|()| version()).map_err(|why| format!("{missing}; {why}")))
}

fn version() -> Result<String, String> {
    let said = run(Command::new("wrk").arg("--version"))?;
    words(&String::from_utf8_lossy(&said.stdout))
        .ok_or_else(|| "what is called wrk here is another program".into())
}

/// The first two words of `wrk debian/4.1.0-3+b2 [epoll] Copyright …`.
fn words(said: &str) -> Option<String> {
    let mut words = said.split_whitespace();
    let (name, version) = (words.next()?, words.next()?);
    (name == "wrk").then(|| format!("wrk {version}"))
}

fn install() -> Result<(), String> {
    eprintln!("no wrk found; installing Debian's package …");
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "wrk"]] {
        let output = run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
            return Err(format!("apt-get {}: {}", arguments[0], last.trim()));
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {name}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_and_other_programs_are_not() {
        let said =
            "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\nUsage: wrk <options> <url>\n";
        assert_eq!(words(said).as_deref(), Some("wrk debian/4.1.0-3+b2"));
        assert_eq!(words("work 1.0"), None);
        assert_eq!(words(""), None);
    }
}
