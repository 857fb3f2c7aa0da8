//! Making setuid, setgid and related calls work from goroutines, and while goroutines run.
//!
//! Linux keeps user and group ids for each thread, POSIX for the process. So glibc lets every thread make the
//! system call: it marks each thread's descriptor, sends the thread a signal of its own, and sends it again
//! until the handler has removed the mark. The handler looks for the mark at the thread pointer. On a thread
//! that runs a goroutine, the thread pointer is that of the goroutine's block, which glibc has not marked. So
//! the mark on the thread's own descriptor would stay, and the caller would send signals forever.
//!
//! Therefore this handler runs before glibc's and calls it with the thread's own thread pointer in place. A
//! goroutine that calls setuid is no special case: to glibc, the thread that it runs on is another thread,
//! which makes the call too.

use std::ffi::c_void;

use crate::sched::machine::SCHED;
use crate::sys::signal::{self, Previous, SigInfo};
use crate::sys::thread;
use crate::tls;

static PREVIOUS: Previous = Previous::new();

/// Called once, at start-up. glibc has set its handler when it made the first thread.
pub(crate) fn init() {
    signal::wrap_libc_handler(signal::SIGSETXID, on_setxid, &PREVIOUS);
}

extern "C" fn on_setxid(number: i32, info: *mut SigInfo, context: *mut c_void) {
    let Some(m) = SCHED.platform.m_of_thread(thread::tid()) else {
        PREVIOUS.call(number, info, context);
        return;
    };
    let interrupted = tls::current();
    // SAFETY: the thread's own thread pointer, which no other thread uses; and then what was there before.
    // Neither side holds a reference into TLS across this: the interrupted code goes on with what it had.
    unsafe {
        tls::switch_to(m.own_tp.get());
        PREVIOUS.call(number, info, context);
        tls::switch_to(interrupted);
    }
}
