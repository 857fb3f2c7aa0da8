//! An echo server on loopback TCP in the same process, which waits 2 ms before each answer; and the pool of
//! connections to it.
//!
//! A connection takes two descriptors, because both of its ends are in this process. The backend first raises
//! the limit on descriptors as far as the process may, and makes the pool as large as that limit allows. A
//! goroutine that finds no free connection waits for one.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::context::Context;
use gort::net::{Shutdown, TcpListener, TcpStream};
use gort::sync::{Mutex, Semaphore};

/// How long the server waits before it answers.
const THINKS: Duration = Duration::from_millis(2);
/// The size of a question and of its answer, in bytes.
const MESSAGE: usize = 1024;
/// The largest size of the pool.
const MOST_CONNECTIONS: usize = 512;

/// The number of descriptors that are left for everything else.
const RESERVED: usize = 128;

pub(crate) struct Backend {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    /// One permit for each connection that may be in use.
    permits: Semaphore,
    idle: Mutex<Vec<Arc<TcpStream>>>,
}

impl Backend {
    pub(crate) fn start() -> io::Result<Backend> {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0")?);
        let accepting = listener.clone();
        gort::Builder::new().name("backend".into()).spawn(move || {
            // The loop ends when the listener is closed.
            while let Ok((connection, _)) = accepting.accept() {
                gort::spawn(move || serve(connection));
            }
        })?;
        let connections = (open_files().saturating_sub(RESERVED) / 2).clamp(1, MOST_CONNECTIONS);
        Ok(Backend {
            address: listener.local_addr()?,
            listener,
            permits: Semaphore::new(connections),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Asks one question and returns whether the answer is what was sent. The end of the context ends the
    /// wait.
    pub(crate) fn ask(&self, ctx: &Context, fill: u8) -> io::Result<bool> {
        let Ok(_permit) = self.permits.acquire_ctx(ctx, 1) else {
            return Err(io::ErrorKind::Interrupted.into());
        };
        let idle = self.idle.lock().pop();
        let connection = idle.map_or_else(|| self.connect(), Ok)?;
        let unlimited = {
            let connection = connection.clone();
            ctx.after_func(move || connection.set_deadline(Some(Instant::now())))
        };
        let question = [fill; MESSAGE];
        let mut answer = [0; MESSAGE];
        (&*connection).write_all(&question)?;
        (&*connection).read_exact(&mut answer)?;
        // If the context has ended, the connection has a deadline and cannot be used again.
        if unlimited.stop() {
            self.idle.lock().push(connection);
        }
        Ok(answer == question)
    }

    fn connect(&self) -> io::Result<Arc<TcpStream>> {
        let connection = TcpStream::connect(self.address)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Arc::new(connection))
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.listener.close();
    }
}

fn serve(mut connection: TcpStream) {
    let mut message = [0; MESSAGE];
    // Any error ends the connection.
    while connection.read_exact(&mut message).is_ok() {
        gort::sleep(THINKS);
        if connection.write_all(&message).is_err() {
            break;
        }
    }
    let _ = connection.shutdown(Shutdown::Both);
}

/// Raises the process's limit on open descriptors as far as possible, and returns it.
fn open_files() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes only to the struct, which is a local variable.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return RESERVED;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: the kernel only reads the struct, and a higher limit does not affect descriptors that are open.
    let allowed = match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } {
        0 => raised.rlim_cur,
        _ => limit.rlim_cur,
    };
    usize::try_from(allowed).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_used_again() {
        gort::run(|| {
            let backend = Backend::start().unwrap();
            for fill in 0..10 {
                assert!(backend.ask(&Context::background(), fill).unwrap());
            }
            assert_eq!(backend.idle.lock().len(), 1);
        });
    }

    #[test]
    fn the_end_of_the_context_ends_the_wait_for_an_answer() {
        gort::run(|| {
            // The kernel accepts connections to it, but nothing answers them.
            let silent = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut backend = Backend::start().unwrap();
            backend.address = silent.local_addr().unwrap();
            let (ctx, cancel) = Context::background().with_cancel();
            let asking = gort::spawn(move || backend.ask(&ctx, 1).map_err(|error| error.kind()));
            // The goroutine is connected: it has asked, or is about to ask.
            let _connection = silent.accept().unwrap();
            cancel.cancel();
            assert!(asking.join().unwrap().is_err());
        });
    }
}
