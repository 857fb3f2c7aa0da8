//! Hashes files in parallel with nothing but `std::fs`: a read that blocks in the kernel blocks one
//! goroutine, not the processor it runs on.
//!
//! `cargo run --example file_hashing [directory]`

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gort::sync::Semaphore;

/// FNV-1a: a short hash, good enough to show that the bytes were read.
fn hash(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut hash = 0xcbf29ce484222325;
    let mut buffer = [0; 8192];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash),
            n => {
                hash = buffer[..n]
                    .iter()
                    .fold(hash, |h, &byte| (h ^ u64::from(byte)).wrapping_mul(0x100000001b3))
            }
        }
    }
}

/// All files directly in `dir`, sorted by name.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

fn hash_all(dir: &Path) -> io::Result<()> {
    let files = files(dir)?;
    // At most 64 files are open at once, however many there are.
    let open = Semaphore::new(64);
    // Goroutines of a scope may borrow, and all of them have ended when `scope` returns.
    let hashes: Vec<io::Result<u64>> = gort::scope(|scope| {
        let hash_one = |path| {
            let _permit = open.acquire(1).expect("a semaphore of at least 1");
            hash(path)
        };
        let handles: Vec<_> = files.iter().map(|path| scope.spawn(move || hash_one(path))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    for (path, hash) in files.iter().zip(hashes) {
        println!("{:016x}  {}", hash?, path.file_name().unwrap_or_default().display());
    }
    Ok(())
}

#[gort::main]
fn main() -> io::Result<()> {
    if let Some(dir) = std::env::args_os().nth(1) {
        return hash_all(Path::new(&dir));
    }
    // No directory given: make one with known contents.
    let dir = std::env::temp_dir().join(format!("gort-file-hashing-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let result = (0..20u8)
        .try_for_each(|n| fs::write(dir.join(format!("{n:02}.bin")), vec![n; usize::from(n) * 10_000]))
        .and_then(|()| hash_all(&dir));
    fs::remove_dir_all(&dir)?;
    result
}
