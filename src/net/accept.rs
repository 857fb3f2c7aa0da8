//! Accepts connections, for TCP and Unix listeners.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use socket2::{SockAddr, SockRef};

use crate::io::core::Io;
use crate::netpoll::Direction;

/// The first pause when resources run out. Each further pause is twice as long as the one before it.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Accepts the next connection; its socket is non-blocking. While the process (or the machine) is out of
/// descriptors or memory, the connection stays in the kernel's queue, and this tries again after growing
/// pauses. If the user does not want to wait, it fails instead.
pub(super) fn accept<T: AsFd>(io: &Io<T>) -> io::Result<(OwnedFd, SockAddr)> {
    let mut pause = FIRST_PAUSE;
    loop {
        let accepted = io.run(Direction::Read, |listener| {
            SockRef::from(listener).accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
        });
        match accepted {
            Ok((socket, address)) => return Ok((socket.into(), address)),
            Err(error) => match error.raw_os_error() {
                // The client gave up while its connection was in the queue.
                Some(libc::ECONNABORTED) => {}
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
                    if !io.wants_would_block() =>
                {
                    io.pause(Direction::Read, pause)?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                _ => return Err(error),
            },
        }
    }
}

/// Converts the address of a Unix socket. A socket without a name gets the unnamed address.
pub(super) fn unix_address(address: &SockAddr) -> io::Result<SocketAddr> {
    match address.as_unix() {
        Some(address) => Ok(address),
        None => SocketAddr::from_pathname(""),
    }
}
