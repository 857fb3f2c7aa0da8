//! What std's tests use of its private module of this name.

pub mod io {
    pub mod test {
        use std::path::{Path, PathBuf};
        use std::sync::atomic::{AtomicUsize, Ordering};

        /// A directory that the drop removes.
        pub struct TempDir(PathBuf);

        impl TempDir {
            pub fn path(&self) -> &Path {
                &self.0
            }

            pub fn join(&self, path: &str) -> PathBuf {
                self.0.join(path)
            }
        }

        impl Drop for TempDir {
            fn drop(&mut self) {
                let _ = std::fs::remove_dir_all(&self.0);
            }
        }

        pub fn tmpdir() -> TempDir {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("gort-conformance-{}-{n}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            TempDir(path)
        }
    }
}
