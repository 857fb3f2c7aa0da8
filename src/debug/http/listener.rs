//! The listener: a thread that accepts connections, and a thread for each connection, up to a limit.
//!
//! The scheduler knows these threads as observers: they never end a goroutine's wait, so a deadlock of the
//! program is one with them, too, and the leak search may interrupt them.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;

use super::access::Access;
use super::{Answer, Refusal, Request, connection};
use crate::sched::machine::SCHED;
use crate::sys::thread;

/// The most connections at once. A browser keeps up to six.
const CONNECTIONS: usize = 64;
/// The most connections beyond these that are told so; further ones are closed.
const REFUSED: usize = 8;
/// Size of a thread's stack (bytes): looking up function names needs a lot. Only what is touched costs
/// memory.
pub(crate) const STACK: usize = 4 << 20;
/// How long the end of a server waits for its threads.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What the threads of a server share.
pub(crate) struct Shared {
    pub(super) access: Access,
    pub(super) route: fn(&Request) -> Result<Answer, Refusal>,
    pub(super) stop: Arc<AtomicBool>,
    open: Mutex<Open>,
    /// Notified when a thread ends.
    ended: Condvar,
}

#[derive(Default)]
struct Open {
    accepting: bool,
    connections: Vec<Arc<TcpStream>>,
}

impl Shared {
    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that listens.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    listener: Arc<TcpListener>,
    shared: Arc<Shared>,
}

/// Starts a server.
pub(crate) fn start(
    listener: TcpListener,
    access: Access,
    route: fn(&Request) -> Result<Answer, Refusal>,
) -> io::Result<Listening> {
    let (address, listener) = (listener.local_addr()?, Arc::new(listener));
    let open = Mutex::new(Open { accepting: true, ..Open::default() });
    let shared = Arc::new(Shared { access, route, stop: Arc::default(), open, ended: Condvar::new() });
    let (own, accepted) = (shared.clone(), listener.clone());
    thread::start("gort-debug", STACK, move || {
        SCHED.platform.observers.observe(|| accept(&accepted, address, &own));
        drop(accepted);
        own.open().accepting = false;
        own.ended.notify_all();
    })?;
    Ok(Listening { address, listener, shared })
}

fn accept(listener: &TcpListener, address: SocketAddr, shared: &Arc<Shared>) {
    // `gort top PID` looks for this name. The kernel removes it with the socket, however the process ends.
    let name = format!("gort-debug/{}/{address}", std::process::id());
    let _announced = std::os::unix::net::SocketAddr::from_abstract_name(name)
        .and_then(|name| UnixDatagram::bind_addr(&name))
        .inspect(|socket| drop(socket.shutdown(Shutdown::Both)));
    while !shared.stops() {
        match listener.accept() {
            Ok((stream, _)) => begin(Arc::new(stream), shared),
            // There are no free descriptors, for example: a pause, and then it may work.
            Err(_) if !shared.stops() => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => {}
        }
    }
}

/// Starts the thread of a connection.
fn begin(stream: Arc<TcpStream>, shared: &Arc<Shared>) {
    let mut open = shared.open();
    let count = open.connections.len();
    if count >= CONNECTIONS + REFUSED {
        return;
    }
    open.connections.push(stream.clone());
    drop(open);
    let registered = Registered { stream, shared: shared.clone() };
    // If no thread can be started, the closure is dropped, and the connection is closed.
    let _ = thread::start("gort-debug", STACK, move || {
        SCHED.platform.observers.observe(|| {
            let Registered { stream, shared } = &registered;
            if count < CONNECTIONS {
                connection::run(stream, shared);
            } else {
                let says = format!("the debug server has {CONNECTIONS} connections already");
                connection::refuse(stream, Refusal::unavailable(says), shared);
            }
        });
        drop(registered);
    });
}

/// A connection in the list; the drop takes it out.
struct Registered {
    stream: Arc<TcpStream>,
    shared: Arc<Shared>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.open().connections.retain(|other| !Arc::ptr_eq(other, &self.stream));
        self.shared.ended.notify_all();
    }
}

impl Listening {
    /// Stops listening, ends all connections, and waits for the threads, for some seconds at most.
    pub(crate) fn end(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // This makes `accept` and `read` return, on whatever thread they wait.
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        let open = self.shared.open();
        for stream in &open.connections {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let busy = |open: &mut Open| open.accepting || !open.connections.is_empty();
        let _late = self.shared.ended.wait_timeout_while(open, END_WITHIN, busy);
    }
}
