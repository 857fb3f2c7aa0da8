//! Reads the CPU quotas of control groups, version 1 and 2.
//!
//! The kernel enforces the quota of *every* group above a process. So all visible groups count, not only the
//! one that the process is in: the smallest quota / period wins.
//!
//! Two files together tell where a group's directory is. `/proc/self/cgroup` gives the path of the group in
//! its hierarchy. `/proc/self/mountinfo` gives the directories at which a hierarchy, or a part of it, is
//! mounted. Both paths are relative to the reader's cgroup namespace; a path outside of the namespace begins
//! with `/..`:
//!
//! ```text
//! /proc/self/cgroup    0::/pod/app                   group: the process is here
//! /proc/self/mountinfo … /pod /sys/fs/cgroup … cgroup2   root /pod appears at /sys/fs/cgroup
//! therefore            /sys/fs/cgroup/app/cpu.max, /sys/fs/cgroup/cpu.max
//! ```
//!
//! - A controller belongs to one hierarchy. With hybrid mounts the other hierarchy simply has no quota file,
//!   so both are read and no rule of precedence is needed.
//! - A mount whose root is not above the group says nothing about the group. A mount whose root is above the
//!   namespace (`/../..`) is an ancestor, but the names in between are unknown, so only its own directory
//!   counts.
//! - Several mounts may show the same group. It is read through the first of them whose directory exists.
//! - Malformed lines are skipped: a wrong limit is worse than none.
//!
//! Finding the groups allocates; reading a quota does not. Each reading opens the files anew, because
//! `cpu.max` appears only when an administrator enables the controller, and because a program may close
//! descriptors that it did not open itself.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A group whose quota applies to this process.
#[derive(Debug)]
pub(crate) struct CpuGroup {
    dir: PathBuf,
    dir_c: CString,
    files: Files,
}

#[derive(Debug)]
enum Files {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    V1 { quota: CString, period: CString },
    /// `cpu.max`: quota and period in one line.
    V2 { max: CString },
}

/// The result of reading a group's quota.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// The average number of CPUs the group may use.
    Limit(f64),
    Unlimited,
    /// The files cannot be read now. The last known limit stays in force.
    Unknown,
}

impl CpuGroup {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the quota as it is now. Allocates nothing.
    pub(crate) fn read(&self) -> Reading {
        let reading = match &self.files {
            Files::V2 { max } => with_contents(max, parse_v2),
            Files::V1 { quota, period } => with_contents(quota, parse_number).and_then(|quota| match quota {
                // The period matters only when there is a quota, and -1 is the usual case.
                Some(1..) => with_contents(period, |period| ratio(quota, parse_number(period))),
                _ => Ok(None),
            }),
        };
        match reading {
            Ok(Some(limit)) => Reading::Limit(limit),
            Ok(None) => Reading::Unlimited,
            // The file is gone but the directory exists: no quota. If the directory is gone too, the whole
            // path is stale (chroot, unmounted, moved to another group).
            Err(libc::ENOENT) if exists(&self.dir_c) => Reading::Unlimited,
            Err(_) => Reading::Unknown,
        }
    }
}

/// The visible groups that limit this process, innermost first. `root` stands for `/`.
pub(crate) fn cpu_groups(root: &Path) -> Vec<CpuGroup> {
    let (Ok(membership), Ok(mountinfo)) =
        (std::fs::read(membership_file(root)), std::fs::read(root.join("proc/self/mountinfo")))
    else {
        return Vec::new();
    };
    let mounts = parse_mountinfo(&mountinfo);
    let mut found = Vec::new();
    for member in parse_membership(&membership) {
        // The groups found so far, by their path in the namespace, so that none is read twice.
        let mut seen: Vec<GroupPath> = Vec::new();
        for mount in mounts.iter().filter(|mount| mount.version == member.version) {
            let Some(below) = mount.root.way_down_to(&member.path) else { continue };
            for depth in (0..=below.len()).rev() {
                let mut path = mount.root.clone();
                path.names.extend_from_slice(&below[..depth]);
                if seen.contains(&path) {
                    continue;
                }
                let mut dir = under(root, &mount.point);
                dir.extend(below[..depth].iter().map(|name| OsStr::from_bytes(name)));
                if dir.is_dir()
                    && let Some(group) = open_group(dir, member.version)
                {
                    seen.push(path);
                    found.push(group);
                }
            }
        }
    }
    found
}

/// The path of the file that tells which groups the process is in.
pub(crate) fn membership_file(root: &Path) -> PathBuf {
    root.join("proc/self/cgroup")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A group's path in its hierarchy: `ups` levels up from the namespace's root, then down through `names`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupPath {
    ups: usize,
    names: Vec<Vec<u8>>,
}

impl GroupPath {
    fn parse(text: &[u8]) -> Option<GroupPath> {
        let mut path = GroupPath { ups: 0, names: Vec::new() };
        for part in text.strip_prefix(b"/")?.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." if path.names.is_empty() => path.ups += 1,
                b".." => return None,
                name => path.names.push(name.to_vec()),
            }
        }
        Some(path)
    }

    /// The names that lead from this group down to `group`, if this group is known to be `group` or its
    /// ancestor. Empty for an ancestor above the namespace, because the names in between are hidden.
    fn way_down_to<'a>(&self, group: &'a GroupPath) -> Option<&'a [Vec<u8>]> {
        if self.ups == group.ups {
            group.names.strip_prefix(&self.names[..])
        } else if self.ups > group.ups && self.names.is_empty() {
            Some(&[])
        } else {
            None
        }
    }
}

struct Member {
    version: Version,
    path: GroupPath,
}

/// Parses `/proc/self/cgroup`: lines of `hierarchy:controllers:path`. Keeps only the hierarchies that can
/// hold the CPU controller.
fn parse_membership(text: &[u8]) -> Vec<Member> {
    let parse_line = |line: &[u8]| {
        // The path is not escaped and may contain colons.
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let version = match (id, controllers) {
            (b"0", b"") => Version::V2,
            (_, list) if has_cpu(list) => Version::V1,
            _ => return None,
        };
        Some(Member { version, path: GroupPath::parse(path)? })
    };
    text.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

struct Mount {
    version: Version,
    /// The group that appears at the mount point.
    root: GroupPath,
    point: PathBuf,
}

/// Parses `/proc/self/mountinfo`. Keeps only the mounts that may show the CPU controller.
fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    let parse_line = |line: &[u8]| {
        // The fields: id, parent, device, root, mount point, options, any number of tags, "-", type, source,
        // super options.
        let mut fields = line.split(|&byte| byte == b' ');
        let root = GroupPath::parse(&unescape(fields.nth(3)?)?)?;
        let point = PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.next()?)?));
        fields.by_ref().find(|&field| field == b"-")?;
        let version = match (fields.next()?, fields.nth(1)) {
            (b"cgroup2", _) => Version::V2,
            (b"cgroup", Some(options)) if has_cpu(options) => Version::V1,
            _ => return None,
        };
        Some(Mount { version, root, point })
    };
    let mut mounts: Vec<Mount> = Vec::new();
    for mount in text.split(|&byte| byte == b'\n').filter_map(parse_line) {
        // A later mount at the same place hides the earlier one.
        mounts.retain(|earlier| earlier.point != mount.point);
        mounts.push(mount);
    }
    mounts
}

fn has_cpu(list: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item == b"cpu")
}

/// Decodes the kernel's octal escapes (`\040` is a space). `None` if one is malformed.
fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let ([a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'], tail) = tail.split_first_chunk()? else {
            return None;
        };
        out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
        rest = tail;
    }
    Some(out)
}

fn open_group(dir: PathBuf, version: Version) -> Option<CpuGroup> {
    let file = |name: &str| c_path(&dir.join(name));
    let files = match version {
        Version::V1 => Files::V1 { quota: file("cpu.cfs_quota_us")?, period: file("cpu.cfs_period_us")? },
        Version::V2 => Files::V2 { max: file("cpu.max")? },
    };
    Some(CpuGroup { dir_c: c_path(&dir)?, dir, files })
}

/// Where the absolute `path` is if `root` stands for `/`.
fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

pub(crate) fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// Parses `cpu.max`: `$QUOTA $PERIOD` in microseconds, where the quota may be `max`. `None` means no limit.
fn parse_v2(text: &[u8]) -> Option<f64> {
    let mut fields = text.trim_ascii().split(|&byte| byte == b' ');
    let (quota, period) = (fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    ratio(parse_number(quota), parse_number(period))
}

fn ratio(quota: Option<i64>, period: Option<i64>) -> Option<f64> {
    match (quota?, period?) {
        (quota @ 1.., period @ 1..) => Some(quota as f64 / period as f64),
        _ => None,
    }
}

fn parse_number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// Passes the contents of a small file to `parse`. Fails with the errno. Allocates nothing.
fn with_contents<T>(path: &CStr, parse: impl FnOnce(&[u8]) -> T) -> Result<T, i32> {
    // Room for two numbers of at most 20 digits.
    let mut buffer = [0; 64];
    let len = read_into(path, &mut buffer)?;
    Ok(parse(&buffer[..len]))
}

/// Reads the start of the file into `buffer`; the rest of a longer file is ignored. Returns the number of
/// bytes read, or the errno. Allocates nothing.
pub(crate) fn read_into(path: &CStr, buffer: &mut [u8]) -> Result<usize, i32> {
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: the path is NUL-terminated and outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(errno());
    }
    let mut len = 0;
    let result = loop {
        let free = &mut buffer[len..];
        // SAFETY: `free` is writable for its length, and only this function uses `fd`.
        match unsafe { libc::read(fd, free.as_mut_ptr().cast(), free.len()) } {
            0 => break Ok(len),
            n @ 1.. => len += n as usize,
            _ => match errno() {
                libc::EINTR => {}
                code => break Err(code),
            },
        }
    };
    // SAFETY: `fd` was opened above, and only this function uses it.
    unsafe { libc::close(fd) };
    result
}

fn exists(path: &CStr) -> bool {
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 }
}

#[cfg(test)]
mod tests;
