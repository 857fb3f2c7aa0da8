//! Finds the debug server of a process.
//!
//! A server announces itself with an abstract Unix socket named `gort-debug/PID/ADDRESS`, which the kernel
//! lists in `/proc/PID/net/unix` and removes with the process. Any process may take such a name, so the
//! socket must be one of the process that is asked for.

use std::fs;
use std::path::Path;

/// The address of the debug server of that process; the first, if it has several.
pub(super) fn address(pid: u32) -> Result<String, String> {
    let root = format!("/proc/{pid}");
    if !Path::new(&root).exists() {
        return Err(format!("there is no process {pid}"));
    }
    // In a container, the process knows itself by another id.
    let status = fs::read_to_string(format!("{root}/status")).unwrap_or_default();
    let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:")?.split_whitespace().last());
    let inner = inner.map_or_else(|| pid.to_string(), str::to_owned);
    let sockets = fs::read_to_string(format!("{root}/net/unix"))
        .map_err(|error| format!("cannot read {root}/net/unix: {error}"))?;
    let own = own_sockets(&root).map_err(|error| {
        format!(
            "cannot see the sockets of process {pid} ({error}): give the address of its debug server instead"
        )
    })?;
    let announced = announced(&sockets, &inner);
    let found = announced.into_iter().find(|(inode, _)| own.contains(inode));
    found.map(|(_, address)| address).ok_or_else(|| {
        format!(
            "process {pid} has no debug server: it starts one with gort::debug::serve(\"127.0.0.1:6060\")"
        )
    })
}

/// The inode and the address of each announcement of that process in the text of `/proc/PID/net/unix`.
fn announced(sockets: &str, pid: &str) -> Vec<(String, String)> {
    let mark = format!("@gort-debug/{pid}/");
    let line = |line: &str| {
        // Num RefCount Protocol Flags Type St Inode Path
        let mut words = line.split_whitespace().skip(6);
        let (inode, path) = (words.next()?, words.next()?);
        let address = path.strip_prefix(&mark)?;
        let reachable = address.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:");
        Some((inode.to_owned(), reachable))
    };
    sockets.lines().filter_map(line).collect()
}

/// The inodes of the sockets of a process.
fn own_sockets(root: &str) -> std::io::Result<Vec<String>> {
    let links =
        fs::read_dir(format!("{root}/fd"))?.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let inode = |link: std::path::PathBuf| {
        Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    Ok(links.filter_map(inode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_found_by_process() {
        let text = "Num RefCount Protocol Flags Type St Inode Path\n\
                    0: 00000002 00000000 00000000 0002 01 100 @gort-debug/7/127.0.0.1:6060\n\
                    0: 00000002 00000000 00000000 0002 01 101 @gort-debug/77/127.0.0.1:6061\n\
                    0: 00000002 00000000 00000000 0002 01 102 @gort-debug/7/0.0.0.0:6062\n\
                    0: 00000003 00000000 00000000 0001 03 103\n";
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!(announced(text, "7"), pairs(&[("100", "127.0.0.1:6060"), ("102", "127.0.0.1:6062")]));
        assert_eq!(announced(text, "8"), []);
        assert!(address(u32::MAX).unwrap_err().contains("no process"));
        assert!(address(std::process::id()).unwrap_err().contains("gort::debug::serve"));
    }
}
