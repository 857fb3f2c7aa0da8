//! Names of std's that have changed since its tests were written.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

/// The methods for abstract addresses, under their former names.
pub trait Namespace: Sized {
    fn from_abstract_namespace(name: &[u8]) -> io::Result<Self>;
    fn as_abstract_namespace(&self) -> Option<&[u8]>;
}

impl Namespace for SocketAddr {
    fn from_abstract_namespace(name: &[u8]) -> io::Result<SocketAddr> {
        <SocketAddr as SocketAddrExt>::from_abstract_name(name)
    }

    fn as_abstract_namespace(&self) -> Option<&[u8]> {
        SocketAddrExt::as_abstract_name(self)
    }
}
