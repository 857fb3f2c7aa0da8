//! Resolves names to addresses. libc's resolver blocks its thread, so it runs inside `gort::blocking`.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};

/// Calls `f` with each address of `addresses` until it succeeds. Returns the last error if it never does.
pub(super) fn each_address<T>(
    addresses: impl ToSocketAddrs,
    mut f: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let addresses: Vec<SocketAddr> = crate::blocking(|| addresses.to_socket_addrs().map(Iterator::collect))?;
    let mut last = None;
    for address in &addresses {
        match f(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the name has no address")))
}
