//! The file of a trace that the environment asks for.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::sys::fd;

/// The name with `%p` replaced by the id of the process, and `%%` by `%`.
pub(super) fn name_for(pattern: &Path, process: u32) -> PathBuf {
    let mut name = Vec::new();
    let mut bytes = pattern.as_os_str().as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'p')) => name.extend_from_slice(process.to_string().as_bytes()),
            (b'%', Some(b'%')) => name.push(b'%'),
            _ => {
                name.push(byte);
                continue;
            }
        }
        bytes.next();
    }
    OsString::from_vec(name).into()
}

/// Opens the file, and empties it if no other process writes its trace there: the file is locked until it is
/// closed, or this process ends.
pub(super) fn open(name: &Path) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(false).open(name)?;
    // What is no regular file, such as a pipe, cannot be emptied, and may have several writers.
    if file.metadata()?.is_file() {
        if !fd::lock_for_process(file.as_fd()) {
            return Err(io::Error::other(
                "another process, perhaps the parent of this one, writes its trace there; with %p in the \
                 name each process has a file of its own",
            ));
        }
        file.set_len(0)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_may_have_the_id_of_the_process() {
        let name = |pattern: &str| name_for(Path::new(pattern), 17).to_str().unwrap().to_owned();
        assert_eq!(name("/tmp/trace"), "/tmp/trace");
        assert_eq!(name("%p/%p.trace"), "17/17.trace");
        assert_eq!(name("100%%p%"), "100%p%");
        assert_eq!(name("%m%"), "%m%");
        assert_eq!(name(""), "");
    }
}
