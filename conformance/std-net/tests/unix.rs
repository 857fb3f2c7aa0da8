#![allow(warnings)]
#[macro_use]
extern crate gtest;
extern crate gstd as std;

// The names that the included file expects in `crate` and `super`.
pub use std::{io, os, sync, thread, time};
pub use gort::net::{Shutdown, UnixDatagram, UnixListener, UnixSocketAddr as SocketAddr, UnixStream};
pub use std::fs;
pub use std::path::Path;

/// The methods for abstract addresses, under the names that they had when the tests were written.
pub trait Namespace: Sized {
    fn from_abstract_namespace(name: &[u8]) -> io::Result<Self>;
    fn as_abstract_namespace(&self) -> Option<&[u8]>;
}

impl Namespace for SocketAddr {
    fn from_abstract_namespace(name: &[u8]) -> io::Result<SocketAddr> {
        <SocketAddr as os::linux::net::SocketAddrExt>::from_abstract_name(name)
    }

    fn as_abstract_namespace(&self) -> Option<&[u8]> {
        os::linux::net::SocketAddrExt::as_abstract_name(self)
    }
}

pub mod sys_common {
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
            }

            impl Drop for TempDir {
                fn drop(&mut self) {
                    let _ = std::fs::remove_dir_all(&self.0);
                }
            }

            pub fn tmpdir() -> TempDir {
                static COUNT: AtomicUsize = AtomicUsize::new(0);
                let n = COUNT.fetch_add(1, Ordering::Relaxed);
                let path = std::env::temp_dir().join(format!("gort-std-net-{}-{n}", std::process::id()));
                std::fs::create_dir(&path).unwrap();
                TempDir(path)
            }
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/unix.rs"));
