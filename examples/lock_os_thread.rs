//! Calls a C library that must always be called from the same thread. One goroutine is bound to its thread
//! and makes all the calls; the other goroutines send it closures.
//!
//! A library that keeps its state in thread-locals does not need this, because every goroutine has its own
//! thread-locals. State that the kernel keeps for each thread does need it: priority, CPU affinity, name,
//! namespaces, or what a GPU driver or a debugger attached to the thread. This example uses the priority,
//! with libc's `setpriority`.
//!
//! `cargo run --example lock_os_thread`

use gort::chan::{Sender, bounded};

type Call = Box<dyn FnOnce() + Send>;

/// A handle to a goroutine that owns a thread. Clones refer to the same goroutine, which ends when the last
/// one is dropped.
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
            // The goroutine ends without `unlock_os_thread`, so the runtime ends the thread, too: no other
            // goroutine runs on a thread in the state that the library has left.
        });
        BoundThread { calls }
    }

    /// Runs `f` on the bound thread and returns its result.
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

/// The niceness of the calling thread: 19 gets the smallest share of the processors.
fn niceness() -> i32 {
    // SAFETY: only reads a value. On Linux, process 0 means the calling thread.
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

    // A hundred goroutines, which run on the runtime's other threads.
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
