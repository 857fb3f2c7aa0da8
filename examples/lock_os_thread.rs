//! A C library that must always be called from the same thread: one goroutine is bound to its thread and makes all the
//! calls; the others send it what they want done.
//!
//! What a library keeps in thread-locals needs none of this: a goroutine has its own. Bound must be what the kernel keeps
//! for each thread: priority, CPU affinity, name, namespaces, what a GPU driver or a debugger attached to it. Here it
//! is the priority, by libc's `setpriority`.
//!
//! `cargo run --example lock_os_thread`

use gort::chan::{Sender, bounded};

type Call = Box<dyn FnOnce() + Send>;

/// A handle to the goroutine that owns a thread. Clones belong to the same one; it ends with the last.
#[derive(Clone)]
struct BoundThread {
    calls: Sender<Call>,
}

impl BoundThread {
    fn start(init: impl FnOnce() + Send + 'static) -> BoundThread {
        let (calls, inbox) = bounded::<Call>(0);
        gort::spawn(move || {
            gort::runtime::lock_os_thread();
            init();
            inbox.into_iter().for_each(|call| call());
            // It ends without `unlock_os_thread`: the thread ends with it, so that nobody else gets a thread in
            // the state that the library left it in.
        });
        BoundThread { calls }
    }

    /// Runs `f` on the thread and waits for what it returns.
    fn call<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, result) = bounded(1);
        self.calls.send(Box::new(move || drop(answer.send(f())))).expect("the thread has ended");
        result.recv().expect("the call has panicked")
    }
}

fn thread_id() -> libc::pid_t {
    // SAFETY: has no preconditions.
    unsafe { libc::gettid() }
}

/// How nice the calling thread is: 19 gets the least of the processors.
fn niceness() -> i32 {
    // SAFETY: a plain query. On Linux, process 0 is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[gort::main]
fn main() {
    let usual = niceness();
    let wanted = (usual + 5).min(19);
    let background = BoundThread::start(move || {
        // SAFETY: changes nothing but the calling thread's priority.
        let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    });

    // A hundred goroutines, on whatever threads there are.
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let background = background.clone();
            gort::spawn(move || {
                let there = background.call(|| (thread_id(), niceness()));
                gort::yield_now();
                (there, (thread_id(), niceness()))
            })
        })
        .collect();
    let seen: Vec<_> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();

    let ((bound, _), _) = seen[0];
    println!("all calls came to one thread: {}", seen.iter().all(|(there, _)| *there == (bound, wanted)));
    println!("nobody else ran there: {}", seen.iter().all(|(_, (id, nice))| *id != bound && *nice == usual));
}
