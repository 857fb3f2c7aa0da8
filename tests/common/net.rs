//! TCP on ports that the kernel chooses, so that tests do not meet each other.

use gort::net::{SocketAddr, TcpListener, TcpStream};

/// A listener and its address.
pub(crate) fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The client's and the server's end of a connection.
pub(crate) fn connected_pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let client = TcpStream::connect(address).unwrap();
    (client, listener.accept().unwrap().0)
}
