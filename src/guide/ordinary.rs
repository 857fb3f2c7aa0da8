//! Ordinary code: std, other crates and C libraries in goroutines. What parks, and what takes a thread.
//!
//! A goroutine may call any blocking code, and starves nobody with it ([blocking](super::blocking)). Without
//! more, each goroutine that waits in such code holds an OS thread meanwhile. With the feature `transparent`
//! and one line at the beginning of `main`, it parks, as it does in gort's own types:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//! use std::sync::{Arc, Mutex};
//!
//! gort::transparent::enable().unwrap(); // the line
//! gort::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//!     let address = listener.local_addr().unwrap();
//!     let served = Arc::new(Mutex::new(0));
//!     let counter = Arc::clone(&served);
//!     gort::spawn(move || {
//!         for stream in listener.incoming() {
//!             let (mut stream, counter) = (stream.unwrap(), Arc::clone(&counter));
//!             gort::spawn(move || {
//!                 let mut byte = [0];
//!                 stream.read_exact(&mut byte).unwrap();
//!                 *counter.lock().unwrap() += 1;
//!                 stream.write_all(&byte).unwrap();
//!             });
//!         }
//!     });
//!     let clients: Vec<_> = (0..50u8)
//!         .map(|n| {
//!             gort::spawn(move || {
//!                 let (mut stream, mut byte) = (TcpStream::connect(address).unwrap(), [0]);
//!                 stream.write_all(&[n]).unwrap();
//!                 stream.read_exact(&mut byte).unwrap();
//!                 assert_eq!(byte, [n]);
//!             })
//!         })
//!         .collect();
//!     clients.into_iter().for_each(|client| client.join().unwrap());
//!     assert_eq!(*served.lock().unwrap(), 50);
//! });
//! ```
//!
//! The crates that you use do not know about it, and need no feature of their own: ureq, redis, postgres,
//! rusqlite with r2d2, tungstenite, rustls, parking_lot, crossbeam and flume work as they are, and so do C
//! libraries like libpq and libcurl. `integrations/` has an example of most of them, and `conformance/` runs
//! their own tests in goroutines.
//!
//! # What parks, what takes a thread
//!
//! | The goroutine is in | It |
//! | --- | --- |
//! | `std::net`, Unix sockets, pipes, terminals, eventfds; `recv`, `send`, `accept`, `connect` of C code | parks |
//! | `poll`, `select`, `epoll_wait`: a C library's or another runtime's event loop | parks |
//! | `Mutex`, `RwLock`, `Condvar`, `Barrier`, `Once`, `mpsc`, `thread::park` of std; parking_lot, crossbeam, flume, rayon | parks |
//! | `thread::sleep`, `usleep`, `nanosleep` | parks |
//! | `Child::wait`, `waitpid` for one child | parks |
//! | files, `fsync`, `flock`, opening a FIFO, `connect` of a Unix socket | takes a thread, from the first moment |
//! | `splice`, `sendfile`, `recvmmsg`, `sendmmsg`, `recv` with MSG_WAITALL | parks until there is something to transfer; the rest takes a thread |
//! | names: `ToSocketAddrs`, `getaddrinfo` | takes a thread, from the first moment |
//! | `JoinHandle::join` of an OS thread | takes a thread, from the first moment |
//! | mutexes and condition variables of C and C++ (`pthread_…`), stdio, system calls that bypass libc | takes a thread; the runtime [notices](super::blocking#unmarked-blocking-calls) |
//!
//! "From the first moment" means that the call counts as [marked](super::blocking#marked-blocking-calls).
//!
//! To see which is which in your program, look at [`runtime::dump`](crate::runtime::dump): a goroutine that
//! parks waits for `io read`, `sync (futex)` or `sleep`, and one that holds a thread is in a `syscall`.
//! [`runtime::longest_blocking_calls`](crate::runtime::longest_blocking_calls) has the unmarked calls that
//! took longest, each with its stack.
//!
//! # What it costs
//!
//! A call of a function that is not going to wait costs some nanoseconds more, on OS threads, too. A
//! goroutine that waits on a lock or sleeps needs no more memory than in gort's own types (about 5 kB); one
//! that waits at a socket or in `mpsc` needs a second page of stack (about 10 kB). `compare/run --only std`
//! compares all of this with gort's own types.
//!
//! # What differs from a thread
//!
//! [`transparent`](crate::transparent) lists it. The most important: no call fails with EINTR, and a wait
//! inside [`Context::limit`](crate::context::Context::limit) fails with `TimedOut` when the context ends.
//!
//! # When it cannot be enabled
//!
//! [`enable`](crate::transparent::enable) fails, and says why, if the program's libc is linked statically or
//! is not glibc, if gort is part of a shared library that comes behind libc, or if a sanitizer or an
//! interposing library defines the same functions. Then everything works as without it: each wait holds its
//! thread.
