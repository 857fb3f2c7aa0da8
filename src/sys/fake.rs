//! A directory that stands for `/` in tests: fake `/proc` and `/sys` trees.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory, removed when dropped.
#[derive(Debug)]
pub(crate) struct FakeRoot(PathBuf);

impl FakeRoot {
    pub(crate) fn new() -> FakeRoot {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gort-fake-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        FakeRoot(path)
    }

    /// A root with these files, given as (path, text).
    pub(crate) fn with(files: &[(&str, &str)]) -> FakeRoot {
        let root = FakeRoot::new();
        for (path, text) in files {
            root.write(path, text);
        }
        root
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The real path of the file that `path` names below this root.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.strip_prefix('/').unwrap())
    }

    /// Writes a file, and creates the directories above it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let file = self.at(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(crate) fn create_dir(&self, path: &str) {
        std::fs::create_dir_all(self.at(path)).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.at(path);
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }
}

impl Drop for FakeRoot {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
